"""The stored answers of a run, read in a thread; every method may take seconds."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from npudoctor.tui.model import fleet
from npudoctor.tui.model.session import CannotOpen, Node

if TYPE_CHECKING:
    from npudoctor.findings import Result
    from npudoctor.fleet.merge import Fleet
    from npudoctor.fleet.verdict import FleetReport
    from npudoctor.tui.model.diagnosis import Diagnosis
    from npudoctor.tui.model.node import NodeLine


class StoredRun:
    """A run folder, or files and folders with answers."""

    def __init__(self, paths: Sequence[str], plugins: Sequence[str] = ()) -> None:
        self.paths, self._plugins = tuple(paths), tuple(plugins)
        self.name = os.path.basename(os.path.normpath(self.paths[0]))

    def catalog(self) -> Node:
        """What can be explained: the checks of a node, and those across nodes."""
        from npudoctor import plugins
        from npudoctor.fleet.verdict import CHECKS, PLUGINS
        from npudoctor.records import replace
        from npudoctor.selection import Selection

        node, across = plugins.load(), plugins.load_kind(PLUGINS, CHECKS, self._plugins)
        catalog = replace(node, checks={**node.checks, **across.checks})
        return Node(catalog=catalog, selection=Selection(), open=_no_node)

    def read(self, show: Callable[[FleetReport], None], take: Callable[[Fleet], None]) -> None:
        """Hand over the stored verdict and the answers; without a verdict they are merged. Raises CannotOpen."""
        from npudoctor.fleet import gather, verdict
        from npudoctor.fleet.targets import BadTargets
        from npudoctor.host import Refused
        from npudoctor.selection import Selection

        try:
            stored = os.path.isfile(os.path.join(self.paths[0], "fleet.json"))
            if stored:
                show(gather.report_of(self.paths[0]))
            members, _ = gather.stored_fleet(self.paths)
            take(members)
            if not stored:
                show(verdict.judge_fleet(members, Selection(), self._plugins))
        except (gather.BadInput, BadTargets) as problem:
            raise CannotOpen(str(problem)) from problem
        except (OSError, Refused) as problem:
            raise CannotOpen(f"{self.paths[0]}: {problem}") from problem

    def node(self, name: str, across: Sequence[Result] = ()) -> tuple[Diagnosis, NodeLine] | None:
        """The stored report of a node, with what checks `across` nodes found about it; None without an answer."""
        from npudoctor.fleet import gather

        digest = gather.answer_of(self.paths, name)
        return None if digest is None else (fleet.diagnosis_of(digest.report, across), fleet.line_of(digest, name))


def _no_node() -> Any:
    raise CannotOpen("a run of many nodes has only stored answers")
