"""The variables that matter to a job: what they are, what they may be, and who sets them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from npudoctor.control_characters import all_visible
from npudoctor.records import record
from npudoctor.tui.model.diagnosis import Diagnosis, State, worth

if TYPE_CHECKING:
    from npudoctor.tui.model.session import Session

PARTS = {
    "driver": "The kernel's side of the cards, and their tools. Firmware and CANN must go with it.",
    "firmware": "What runs on the cards themselves; flashed with a package of the driver's release.",
    "CANN": "The vendor's compiler, operators and libraries: what torch_npu calls.",
    "torch_npu": "What brings torch onto the cards; each release is made for one torch and one CANN.",
    "torch": "The framework; its release decides which torch_npu will load.",
    "Python": "The interpreter that is examined; torch_npu has wheels for some releases alone.",
}
"""What each part of the chain of versions is."""


@record(frozen=True, kw_only=True)
class VariableRow:
    """One variable. `value` is None where it is not set; `problem` says what is wrong with it, `state` how badly."""

    name: str
    group: str
    value: str | None
    meaning: str
    legal: str
    default: str | None = None
    setter: str = ""
    problem: str | None = None
    state: State = State.OK
    mistake: str | None = None


@record(frozen=True)
class Variables:
    """All of them; `whose` they are, or the `reason` why nobody knows."""

    rows: tuple[VariableRow, ...] = ()
    whose: str = ""
    reason: str | None = None


def variables(session: Session, diagnosis: Diagnosis) -> Variables:
    """Those that the catalogue knows, the set ones and the wrong ones first."""
    from npudoctor import knowledge
    from npudoctor.facts.node.chips import Chips
    from npudoctor.facts.node.environment import JobEnvironment
    from npudoctor.host import Unavailable

    found = session.facts.get(JobEnvironment)
    if not isinstance(found, JobEnvironment):
        return Variables(reason=found.reason if isinstance(found, Unavailable) else "the variables are not known yet")
    cards = session.known(Chips)
    family = cards.family if cards else None
    blamed = _blamed(diagnosis)
    rows = []
    for variable in knowledge.environment().variables:
        value = found.get(variable.name)
        problem = variable.problem(value, family=family) if value else None
        said = blamed.get(variable.name)
        rows.append(
            VariableRow(
                name=variable.name,
                group=variable.group,
                value=value if variable.recorded or value is None else "set, not shown",
                meaning=variable.meaning,
                legal=variable.legal,
                default=variable.default,
                setter=_setter(variable.name, variable.group, value),
                problem=said[1] if said else problem,
                state=said[0] if said else State.WARNING if problem else State.OK,
                mistake=variable.mistake,
            )
        )
    rows.sort(key=lambda row: (row.state is State.OK, row.value is None))
    return all_visible(Variables(tuple(rows), found.whose))


def sections(rows: Iterable[VariableRow]) -> list[tuple[str, list[VariableRow]]]:
    """The rows under three headings, without empty ones: what to mend, what is set, what is not."""
    found: dict[str, list[VariableRow]] = {"To mend": [], "Set": [], "Not set": []}
    for row in rows:
        found["To mend" if row.problem else "Not set" if row.value is None else "Set"].append(row)
    return [(name, members) for name, members in found.items() if members]


def matching(rows: Iterable[VariableRow], *, words: str = "", unset: bool = True) -> list[VariableRow]:
    """The rows that hold all words; without the unset ones where they are not wanted."""
    sought = words.lower().split()
    return [
        row
        for row in rows
        if (unset or row.value is not None or row.problem)
        and all(word in f"{row.name} {row.group} {row.value or ''} {row.meaning}".lower() for word in sought)
    ]


def _blamed(diagnosis: Diagnosis) -> dict[str, tuple[State, str]]:
    """The variables that a finding names as where it looked."""
    found: dict[str, tuple[State, str]] = {}
    for result in diagnosis.results.values():
        for finding in worth(result):
            for evidence in finding.evidence:
                for name in evidence.source.replace("=", " ").replace(",", " ").split():
                    found.setdefault(name.strip("$`"), (State(finding.severity.value), finding.summary))
    return found


def _setter(name: str, group: str, value: str | None) -> str:
    if group == "cann" or name.startswith(("ASCEND_HOME", "ASCEND_TOOLKIT", "ASCEND_OPP", "ASCEND_AICPU")):
        return "CANN's set_env.sh"
    if name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        return "the launcher of the job"
    return "you, or the profile of the job" if value is not None else "nobody"
