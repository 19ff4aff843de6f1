"""A node without driver or CANN: what is missing, a folder of packages, and the plan of `npudoctor setup` for it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from npudoctor.control_characters import escape
from npudoctor.records import record, replace
from npudoctor.tui.model.copying import Choice
from npudoctor.tui.model.detail import GAP, Block, Kind
from npudoctor.tui.model.diagnosis import Diagnosis, Row, Section, State
from npudoctor.tui.model.session import CannotPlan

if TYPE_CHECKING:
    from npudoctor.fixer.plan import Request
    from npudoctor.tui.model.fixing import Job
    from npudoctor.tui.model.session import Session

ENTRY = "Set up this node"
"""The row of the overview; no check has this name."""
PURPOSES = (
    ("both", "jobs in containers and on the node", ("--for", "both")),
    ("containers", "jobs in containers: CANN and Python come with the images", ("--for", "containers")),
    ("bare", "jobs on the node", ("--for", "bare")),
    ("CANN only", "driver and firmware stay as they are", ("--for", "bare", "--only", "cann")),
)
"""What will run on the node: name, meaning, and the options of `npudoctor setup`."""
_LACKS = {"driver.installed/missing": "driver", "cann.installed/missing": "CANN"}
_SHOWN_NAMES = 8
_PENDING = {
    "--attach": "an installation of driver or firmware goes on",
    "--resume": "an installation of driver or firmware is to be verified",
}
"""What `Diagnosis.pending` means."""


class SetupPlan(Protocol):
    """A plan of `npudoctor setup --packages`: the packages read, the sets that are left, and the plan of the only one.

    `choices` are title and `--expect` of each set.
    """

    @property
    def staged(self) -> Any: ...  # noqa: D102
    @property
    def sets(self) -> Sequence[Any]: ...  # noqa: D102
    @property
    def plan(self) -> Any: ...  # noqa: D102
    @property
    def complete(self) -> bool: ...  # noqa: D102
    @property
    def choices(self) -> Sequence[tuple[str, str]]: ...  # noqa: D102
    @property
    def commands(self) -> Sequence[str]: ...  # noqa: D102
    @property
    def install_words(self) -> Sequence[str]: ...  # noqa: D102
    @property
    def holders(self) -> Sequence[str]: ...  # noqa: D102
    def lines(self, *, narrow: bool = False) -> Iterator[str]: ...  # noqa: D102


@record(frozen=True, kw_only=True)
class Answers:
    """What a person has answered. `purpose` is a place in PURPOSES. `expect` chooses one of several sets; empty where
    there is no choice. `managed`: Slurm or Kubernetes says that the node is out of service; else the person says that
    no scheduler manages it. `stop` are names of units and containers, with blanks between them, `host` the name that
    was typed."""

    folder: str
    purpose: int = 0
    expect: str = ""
    managed: bool = True
    stop: str = ""
    host: str = ""

    @property
    def words(self) -> tuple[str, ...]:
        """The options of `npudoctor setup`."""
        chosen = ("--expect", self.expect) if self.expect else ()
        return ("--packages", self.folder, *PURPOSES[self.purpose][2], *chosen, "--dry-run")


def install_words(found: SetupPlan, answers: Answers) -> tuple[str, ...]:
    """The options that install driver and firmware of a plan."""
    confirmed = [] if answers.managed else ["--unmanaged"]
    confirmed += [f"--stop={name}" for name in answers.stop.split()]
    return (*found.install_words, *confirmed, f"--expect-host={answers.host.strip()}")


def lacking_parts(diagnosis: Diagnosis) -> list[str]:
    """Which of driver and CANN are not installed."""
    codes = {finding.code for result in diagnosis.results.values() for finding in result.findings}
    return [name for code, name in _LACKS.items() if code in codes]


def section(diagnosis: Diagnosis) -> Section | None:
    """The first entry of the overview; None where driver and CANN are installed."""
    if said := _PENDING.get(diagnosis.pending):
        return Section("Start here", (Row(check=ENTRY, title=said, state=State.WAITING, summary=said),))
    if not (names := lacking_parts(diagnosis)):
        return None
    said = f"no {' and no '.join(names)} on this node"
    return Section("Start here", (Row(check=ENTRY, title=said, state=State.WAITING, summary=said),))


def blocks(diagnosis: Diagnosis) -> list[Block]:
    """What the entry does."""
    if said := _PENDING.get(diagnosis.pending):
        text = (
            "npudoctor shows the log of the step that runs, verifies it, and begins the steps that were not begun."
            if diagnosis.pending == "--attach"
            else "After the reboot, npudoctor verifies driver, firmware and NPUs. It installs and reboots nothing."
        )
        return [
            Block(Kind.TITLE, f"{said[0].upper()}{said[1:]}", State.WAITING),
            GAP,
            Block(Kind.TEXT, text),
            GAP,
            Block(Kind.HEADING, "Press enter"),
            GAP,
            Block(Kind.HEADING, "The same in a shell"),
            Block(Kind.COMMAND, f"npudoctor setup {diagnosis.pending}"),
        ]
    names = " and no ".join(lacking_parts(diagnosis))
    text = (
        "npudoctor plans the installation from package files in a folder on this machine: which of them fit this "
        "node, which match each other, the order, and the way back of each step. Nothing is changed before you confirm."
    )
    return [
        Block(Kind.TITLE, f"No {names} on this node", State.WAITING),
        GAP,
        Block(Kind.TEXT, text),
        GAP,
        Block(Kind.HEADING, "Press enter"),
        GAP,
        Block(Kind.HEADING, "The same in a shell"),
        Block(Kind.COMMAND, "npudoctor setup --packages FOLDER --dry-run"),
    ]


def complete_path(typed: str) -> tuple[str, list[str]]:
    """The folder as far as its name is certain, and the folders that begin so, where there are several.

    A name with control characters is not offered: it would reach the terminal and the clipboard.
    """
    path = _in_home(typed)
    above, _, begun = path.rpartition("/")
    try:
        with os.scandir(above or "/") as entries:
            listed = (one.name for one in entries if one.name.startswith(begun) and one.is_dir())
            names = sorted(name for name in listed if escape(name) == name)
    except OSError:
        return typed, []
    names = [name for name in names if begun or not name.startswith(".")]
    if not path.startswith("/") or not names:
        return typed, []
    certain = names[0]
    while not names[-1].startswith(certain):  # of sorted names the first and the last differ most
        certain = certain[:-1]
    whole = f"{above}/{certain}"
    if len(names) == 1:
        return f"{whole}/", []
    shown = names[:_SHOWN_NAMES]
    return whole, [*shown, f"{len(names) - _SHOWN_NAMES} more"] if len(names) > _SHOWN_NAMES else shown


def _in_home(path: str) -> str:
    from npudoctor.tui.model.saving import in_home

    return in_home(path)


def plan(session: Session, answers: Answers) -> SetupPlan:
    """The plan, as `npudoctor setup --packages FOLDER --dry-run` makes it. Raises CannotPlan and ReadOnly."""
    session.must_allow_changes()
    folder = _in_home(answers.folder.strip())
    if not folder.startswith("/"):
        raise CannotPlan("expected the path of a folder, from / on")
    if escape(folder) != folder:
        raise CannotPlan("the path holds control characters; rename the folder")
    made: SetupPlan = session.node.plan_setup(replace(answers, folder=folder).words)
    return made


def commands(found: SetupPlan, answers: Answers, words: Sequence[str]) -> list[Choice]:
    """The commands to copy: what installs driver and firmware, and what prints the plan again."""
    listed = [*found.commands, shlex.join(["npudoctor", "setup", *answers.words, *words])]
    return [Choice(one, one) for one in listed]


def installs_driver(session: Session, found: SetupPlan) -> bool:
    """Whether driver or firmware of a plan can be installed from here: as root, on this node."""
    return session.node.set_up is not None and found.complete and bool(found.install_words)


def obstacle(found: SetupPlan) -> str | None:
    """Why no CANN of a plan can be installed from here; None where it can be."""
    made = found.plan
    if made is None:
        return "no single set of packages; see below"
    if not found.complete:
        return "not complete: something is missing or wrong; see below"
    if first := [step.component for step in made.steps if step.id in ("driver.install", "firmware.install")]:
        return f"{' and '.join(first)} first: by the commands below; afterwards CANN, from here"
    if not any(step.id == "cann.install" for step in made.steps):
        return "no step that is applied from here"
    return None


def request(found: SetupPlan) -> Request:
    """The fix that installs the CANN of a plan."""
    from npudoctor.fixer.plan import Request

    toolkit = next((one for one in found.sets[0].parts if one.component == "toolkit"), None)
    params: dict[str, Any] = {"cann": toolkit.version} if toolkit is not None and toolkit.version else {}
    return Request("cann.install", params)


def propose(session: Session, found: SetupPlan) -> Job:
    """The change that installs CANN, to be confirmed. Raises ReadOnly."""
    session.must_allow_changes()
    from npudoctor.fixer import plan as plans
    from npudoctor.tui.model import fixing

    node, asked = session.node, request(found)
    options = replace(node.selection.options, packages=found.staged)
    words = [word for folder in found.staged.folders for word in ("--packages", folder)]
    words += ["--set", *(f"{name}={value}" for name, value in (asked.params or {}).items())] if asked.params else []
    with session.judging() as host:
        made = plans.make(node.catalog, host, asked, options)
    job = fixing.job_of([made], recorded=session.source == "bundle", words=[*words, *node.words])
    return replace(job, packages=found.staged)
