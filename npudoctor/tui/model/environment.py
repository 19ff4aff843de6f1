"""The environment variables that matter to a job: meaning, legal values, and who sets them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from npudoctor.control_characters import all_visible
from npudoctor.records import record
from npudoctor.tui.model.diagnosis import Diagnosis, State, worth

if TYPE_CHECKING:
    from npudoctor.tui.model.session import Session

PARTS = {
    "driver": "The kernel driver of the NPUs, and its tools. Firmware and CANN must match it.",
    "firmware": "Runs on the NPUs; flashed from a package of the driver's release.",
    "CANN": "The vendor's compiler, operators and libraries: what torch_npu calls.",
    "torch_npu": "The torch backend for NPUs; each release requires one torch and one CANN.",
    "torch": "The framework; its release decides which torch_npu loads.",
    "Python": "The inspected interpreter; torch_npu has wheels for some versions only.",
}
"""The components of the version chain."""


@record(frozen=True, kw_only=True)
class VariableRow:
    """One variable. `value` is None where it is not set; `problem` and `state` describe its finding."""

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
    """All variables, and `whose` they are, or the `reason` why they are unknown."""

    rows: tuple[VariableRow, ...] = ()
    whose: str = ""
    reason: str | None = None


def variables(session: Session, diagnosis: Diagnosis) -> Variables:
    """The variables of the catalogue; wrong ones, then set ones first."""
    from npudoctor import knowledge
    from npudoctor.facts.node.chips import Chips
    from npudoctor.facts.node.environment import JobEnvironment
    from npudoctor.host import Unavailable

    found = session.facts.get(JobEnvironment)
    if not isinstance(found, JobEnvironment):
        return Variables(reason=found.reason if isinstance(found, Unavailable) else "variables not collected yet")
    cards = session.fact(Chips)
    family = cards.family if cards else None
    blamed = _problems_by_variable(diagnosis)
    rows = []
    for variable in knowledge.environment().variables:
        value = found.get(variable.name)
        problem = variable.problem(value, family=family) if value else None
        said = blamed.get(variable.name)
        rows.append(
            VariableRow(
                name=variable.name,
                group=variable.group,
                value=value if variable.recorded or value is None else "set, hidden",
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
    """The rows under three headings, without empty ones: problems, set, not set."""
    found: dict[str, list[VariableRow]] = {"Problems": [], "Set": [], "Not set": []}
    for row in rows:
        found["Problems" if row.problem else "Not set" if row.value is None else "Set"].append(row)
    return [(name, members) for name, members in found.items() if members]


def matching(rows: Iterable[VariableRow], *, words: str = "", unset: bool = True) -> list[VariableRow]:
    """The rows that contain all words; unset ones only if requested."""
    sought = words.lower().split()
    return [
        row
        for row in rows
        if (unset or row.value is not None or row.problem)
        and all(word in f"{row.name} {row.group} {row.value or ''} {row.meaning}".lower() for word in sought)
    ]


def _problems_by_variable(diagnosis: Diagnosis) -> dict[str, tuple[State, str]]:
    """The variables named in the evidence of a finding."""
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
        return "the job's launcher"
    return "you, or the job's profile" if value is not None else "not set"
