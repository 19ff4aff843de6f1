"""The steps in a journal as JSON and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from npudoctor.data import InvalidData, plain, read
from npudoctor.fixer import messages
from npudoctor.steps import Step
from npudoctor.steps.files import MakeFolder, RemoveFile, RemoveFolder, WriteFile
from npudoctor.steps.packages import KeepPackages, RestorePackages
from npudoctor.steps.system import EndProcess, GroupMember, Remount, RemoveLogs, Run, SetSysctl
from npudoctor.steps.units import SystemdUnit

KINDS: Mapping[str, type] = {
    kind.__name__: kind
    for kind in (
        EndProcess,
        GroupMember,
        KeepPackages,
        MakeFolder,
        Remount,
        RemoveFile,
        RemoveFolder,
        RemoveLogs,
        RestorePackages,
        Run,
        SetSysctl,
        SystemdUnit,
        WriteFile,
    )
}
"""The steps that a journal can hold, by name; a plug-in's fixes are made of these too."""

_RENAMED = {"dress": "metadata"}
"""Fields of steps in journals of 0.1."""


def write_step(step: Step) -> dict[str, Any]:
    """A step as data; raises InvalidData for one that cannot be journalled."""
    kind = type(step).__name__
    if KINDS.get(kind) is not type(step):
        raise InvalidData(messages.NOT_JOURNALLED.text(kind=kind, known=list(KINDS)))
    return {"kind": kind, **plain(step)}


def read_step(data: Any) -> Step:
    """A step from data; raises InvalidData."""
    kind = data.get("kind") if isinstance(data, dict) else None
    if kind not in KINDS:
        raise InvalidData(messages.NOT_A_STEP.text(kind=kind, known=list(KINDS)))
    step: Any = read(KINDS[str(kind)], {_RENAMED.get(name, name): one for name, one in data.items() if name != "kind"})
    assert isinstance(step, Step)
    return step
