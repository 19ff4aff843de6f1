"""`Model`: the base of the records that others read or write: reports, answers, events, fleet files, configuration.

A model is a record whose values are fitted to their types as it is made, because plug-ins make them too. Nothing here
loads pydantic, which a check does without: it reads these same classes where somebody else's JSON or TOML comes in
(`adapter`), and describes them as JSON Schema.
"""

from __future__ import annotations

import functools
import warnings
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar, cast

from npudoctor.control_characters import escape, visible_lines
from npudoctor.data import fit_values
from npudoctor.records import field, record, replace
from npudoctor.value_rules import Before

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from typing_extensions import Self, dataclass_transform
else:

    def dataclass_transform(**_):
        """A type checker sees dataclasses in the subclasses."""
        return lambda cls: cls


T = TypeVar("T")


def _texts(show: Any, kind: type = str) -> Before:
    return Before(lambda value: show(value) if isinstance(value, kind) else value)


Line = Annotated[str, _texts(escape)]
"""Text in one line, possibly from the node: control and invisible characters are escaped."""

Lines = Annotated[str, _texts(visible_lines)]
"""The same in several lines."""


def adapter(kind: type[T]) -> TypeAdapter[T]:
    """What reads this model from JSON and describes it: pydantic. It raises pydantic's ValidationError."""
    made: TypeAdapter[T] = _adapter(cast("Any", kind))
    return made


@functools.cache
def _adapter(kind: Any) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
class Model:
    """A frozen record, made with named fields. Making one raises TypeError for an unknown field or a wrong type.

    So a mistake in a check is found. Readers ignore an unknown field: a report that a later 1.x wrote is read.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "ignore"}
    _make: ClassVar[Any]
    if TYPE_CHECKING:
        __dataclass_fields__: ClassVar[dict[str, Any]]

    def __init_subclass__(cls) -> None:
        record(frozen=True, kw_only=True)(cls)
        make: Any = cls.__init__

        def fit(self: Any, **given: Any) -> None:
            make(self, **fit_values(cls, given))

        cls.__init__ = fit  # type: ignore[method-assign]
        cls._make = make

    @classmethod
    def of_fitted(cls, **given: Any) -> Self:
        """The record of values that `npudoctor.data` has fitted already."""
        made = object.__new__(cls)
        cls._make(made, **given)
        return made

    # What pydantic gave the models of npudoctor 0.1; each goes with 1.0.

    def model_copy(self, *, update: dict[str, Any] | None = None) -> Self:
        """Deprecated: `dataclasses.replace`."""
        _warn("model_copy", "dataclasses.replace")
        return replace(self, **update or {})

    def model_dump(self, **options: Any) -> dict[str, Any]:
        """Deprecated: `npudoctor.data.to_data`."""
        _warn("model_dump", "npudoctor.data.to_data")
        said: dict[str, Any] = adapter(type(self)).dump_python(self, **options)
        return said

    def model_dump_json(self, **options: Any) -> str:
        """Deprecated: `npudoctor.data.to_json`."""
        _warn("model_dump_json", "npudoctor.data.to_json")
        return adapter(type(self)).dump_json(self, **options).decode()

    @classmethod
    def model_validate(cls, data: Any) -> Self:
        """Deprecated: `npudoctor.models.adapter`."""
        _warn("model_validate", "npudoctor.models.adapter")
        return adapter(cls).validate_python(data)

    @classmethod
    def model_validate_json(cls, text: str | bytes) -> Self:
        """Deprecated: `npudoctor.models.adapter`."""
        _warn("model_validate_json", "npudoctor.models.adapter")
        return adapter(cls).validate_json(text)


class Section(Model):
    """A part of a configuration file: a key that it does not know is refused as the file is read."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}


def _warn(name: str, instead: str) -> None:
    warnings.warn(f"{name} goes with npudoctor 1.0; use {instead}", DeprecationWarning, stacklevel=3)
