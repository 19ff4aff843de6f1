"""`npudoctor tui --fleet RUN`: the stored answers of many nodes. It asks no node, and changes none."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from textual.binding import Binding, BindingType
from textual.screen import Screen

from npudoctor.tui.app import DoctorApp
from npudoctor.tui.model import fleet
from npudoctor.tui.model.fleet_run import StoredRun

LABELS = {
    "FleetNodes": "Nodes",
    "FleetProblems": "Problems",
    "FleetGroups": "Groups",
    "FleetNumbers": "Numbers",
    "FleetRails": "Rails",
    "FleetLists": "Lists",
}


def _opening(name: str) -> Callable[[], Screen[Any]]:
    def open_screen() -> Screen[Any]:
        made: Screen[Any] = getattr(importlib.import_module("npudoctor.tui.screens.fleet"), name)()
        return made

    return open_screen


class FleetApp(DoctorApp):
    """The screens of a run. `paths` are a run folder, or files and folders with answers."""

    labels: Mapping[str, str] = LABELS
    MODES = {name.lower(): _opening(name) for name in LABELS}  # noqa: RUF012 - declared by Textual
    DEFAULT_MODE = "fleetnodes"
    BINDINGS: ClassVar[list[BindingType]] = [
        *(
            Binding(str(number), f"go('{name.lower()}')", label, show=False)
            for number, (name, label) in enumerate(LABELS.items(), 1)
        ),
        Binding("r", "rerun", "Read again", show=False),
    ]
    diagnosis: fleet.FleetDiagnosis

    def __init__(self, paths: Sequence[str], plugins: Sequence[str] = ()) -> None:
        self.run_folder = StoredRun(paths, plugins)
        super().__init__(self.run_folder.catalog, "read-only: stored answers")
        self.diagnosis = fleet.FleetDiagnosis()
        self.node_line = self.diagnosis.node_line(self.run_folder.name)

    def offers(self, action: str) -> bool:
        """Whether this session allows an action; there is no next login of many nodes."""
        return action != "next_login" and super().offers(action)

    # The run

    def _run(self) -> None:
        self.run_folder.read(partial(self.tell, self._show), self.diagnosis.take_members)
        self.tell(self._end_app)

    def _show(self, verdict: Any) -> None:
        self.diagnosis.show(verdict)
        self.node_line = self.diagnosis.node_line(self.run_folder.name)

    def _end_app(self) -> None:
        self.diagnosis.running = False

    # Nodes

    def open_node(self, cell: fleet.Cell) -> None:
        """Show the stored report of a node."""

        def read() -> None:
            if shown := self.run_folder.node(cell.name, self.diagnosis.across(cell)):
                self.tell(self._push, *shown)
            else:
                self.tell(lambda: self.notify(cell.about, title=cell.name, severity="warning", markup=False))

        self.beside(read)

    def _push(self, *shown: Any) -> None:
        from npudoctor.tui.screens.fleet import NodeReport

        if len(self.screen_stack) == 1:
            self.push_screen(NodeReport(*shown))

    def find_nodes(self, words: str) -> None:
        """Show the nodes that have these words."""
        self.action_go("fleetnodes")
        self.call_later(lambda: self.screen.run_action(f"find({words!r})"))

    def look_at(self, check: str | None) -> None:
        """Show a check on the list of problems."""
        self.action_go("fleetproblems")
        self.call_later(lambda: self.screen.run_action(f"look_at({check!r})"))
