"""Records as validated data: the parameters of a fix, and the steps in a journal, as JSON and back."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Any, ClassVar, TypeVar, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from npudoctor.fixer import messages
from npudoctor.steps import Step
from npudoctor.steps.files import MakeFolder, RemoveFile, RemoveFolder, SetLink, WriteFile
from npudoctor.steps.installers import InstallPackage, UninstallPackage
from npudoctor.steps.os_packages import SystemPackages
from npudoctor.steps.packages import KeepPackages, RestorePackages
from npudoctor.steps.system import EndProcess, GroupMember, Remount, RemoveLogs, Run, SetSysctl
from npudoctor.steps.units import SystemdUnit

KINDS: Mapping[str, type] = {
    kind.__name__: kind
    for kind in (
        EndProcess,
        GroupMember,
        InstallPackage,
        KeepPackages,
        MakeFolder,
        Remount,
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


class _Form(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    record: ClassVar[type]


@functools.cache
def _form(record: type) -> type[_Form]:
    hints = get_type_hints(record)
    fields: dict[str, Any] = {}
    for one in dataclasses.fields(record):
        default: Any = ...
        if one.default is not dataclasses.MISSING:
            default = one.default
        elif one.default_factory is not dataclasses.MISSING:
            default = one.default_factory()
        fields[one.name] = (_as_form(hints[one.name]), default)
    made: type[_Form] = create_model(record.__name__, __base__=_Form, **fields)
    made.record = record
    return made


def _as_form(hint: Any) -> Any:
    if dataclasses.is_dataclass(hint):
        return _form(hint)  # type: ignore[arg-type]
    if get_origin(hint) in (Union, UnionType):
        first, *rest = (NoneType if one is NoneType else _as_form(one) for one in get_args(hint))
        return functools.reduce(lambda left, right: left | right, rest, first)
    return hint


def read(record: type[T], data: Any) -> T:
    """A record from data; raises InvalidData with the first thing that is wrong."""
    try:
        made = _built(_form(record).model_validate(data))  # type: ignore[arg-type]
    except ValidationError as problem:
        first = problem.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or record.__name__
        if first["type"] == "extra_forbidden":
            known = [one.name for one in dataclasses.fields(record)]  # type: ignore[arg-type]
            reason = messages.UNKNOWN_FIELD.text(where=where, known=known or messages.NOTHING.text())
        else:
            reason = messages.INVALID_FIELD.text(where=where, problem=first["msg"])
        raise InvalidData(reason) from None
    assert isinstance(made, record)
    return made


def _built(form: _Form) -> Any:
    values = {name: getattr(form, name) for name in type(form).model_fields}
    return form.record(**{name: _built(one) if isinstance(one, _Form) else one for name, one in values.items()})


def written(record: Any) -> dict[str, Any]:
    """A record as data that `read` reads."""
    return dataclasses.asdict(record)


def write_step(step: Step) -> dict[str, Any]:
    """A step as data; raises InvalidData for one that cannot be journalled."""
    kind = type(step).__name__
    if KINDS.get(kind) is not type(step):
        raise InvalidData(messages.NOT_JOURNALLED.text(kind=kind, known=list(KINDS)))
    return {"kind": kind, **written(step)}


def read_step(data: Any) -> Step:
    """A step from data; raises InvalidData."""
    kind = data.get("kind") if isinstance(data, dict) else None
    if kind not in KINDS:
        raise InvalidData(messages.NOT_A_STEP.text(kind=kind, known=list(KINDS)))
    step: Any = read(KINDS[str(kind)], {_RENAMED.get(name, name): one for name, one in data.items() if name != "kind"})
    assert isinstance(step, Step)
    return step
