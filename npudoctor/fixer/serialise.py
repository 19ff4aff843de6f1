"""Records as validated data: the parameters of a fix, and the steps in a journal, as JSON and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from npudoctor.data import DataError, to_data
from npudoctor.data import read as read_data
from npudoctor.fixer import messages
from npudoctor.steps import Step
from npudoctor.steps.accounts import LocalGroup, LocalUser
from npudoctor.steps.card_addresses import CardAddresses
from npudoctor.steps.environments import CreateEnvironment, RemoveEnvironment
from npudoctor.steps.files import MakeFolder, RemoveFile, RemoveFolder, SetLink, WriteFile
from npudoctor.steps.installers import InstallPackage, UninstallPackage
from npudoctor.steps.os_packages import SystemPackages
from npudoctor.steps.packages import KeepPackages, RestorePackages
from npudoctor.steps.system import EndProcess, GroupMember, Remount, RemoveLogs, Run, SetSysctl
from npudoctor.steps.units import SystemdUnit

KINDS: Mapping[str, type] = {
    kind.__name__: kind
    for kind in (
        CardAddresses,
        CreateEnvironment,
        EndProcess,
        GroupMember,
        InstallPackage,
        KeepPackages,
        LocalGroup,
        LocalUser,
        MakeFolder,
        Remount,
        RemoveEnvironment,
        RemoveFile,
        RemoveFolder,
        RemoveLogs,
        RestorePackages,
        Run,
        SetLink,
        SetSysctl,
        SystemPackages,
        SystemdUnit,
        UninstallPackage,
        WriteFile,
    )
}
"""The steps that a journal can hold, by name; a plug-in's fixes are made of these too."""

_RENAMED = {"dress": "metadata"}
"""Fields of steps in journals of 0.1."""

T = TypeVar("T")


class InvalidData(ValueError):
    """Data that is not a valid record or step; the text is one line."""


def read(record: type[T], data: Any, *, ignore_unknown: bool = False) -> T:
    """A record from data; raises InvalidData with the first thing that is wrong. Texts may stand for numbers.

    `ignore_unknown` is for what only describes a run, where a later version may say more. Not for a step: what undoes
    it would do less than it says.
    """
    try:
        return read_data(record, data, texts=True, ignore_unknown=ignore_unknown)
    except DataError as problem:
        raise InvalidData(str(problem)) from None


def write_form(record: Any) -> dict[str, Any]:
    """A record as data that `read` reads."""
    said: dict[str, Any] = to_data(record)
    return said


def write_step(step: Step) -> dict[str, Any]:
    """A step as data; raises InvalidData for one that cannot be journalled."""
    kind = type(step).__name__
    if KINDS.get(kind) is not type(step):
        raise InvalidData(messages.NOT_JOURNALLED.text(kind=kind, known=list(KINDS)))
    return {"kind": kind, **write_form(step)}


def read_step(data: Any) -> Step:
    """A step from data; raises InvalidData."""
    kind = data.get("kind") if isinstance(data, dict) else None
    if kind not in KINDS:
        raise InvalidData(messages.NOT_A_STEP.text(kind=kind, known=list(KINDS)))
    step: Any = read(KINDS[str(kind)], {_RENAMED.get(name, name): one for name, one in data.items() if name != "kind"})
    assert isinstance(step, Step)
    return step
