"""The base of the models of a smoke run and of the fleet: pydantic reads and writes them."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    from typing_extensions import Self


class PydanticModel(BaseModel):
    """A frozen model. An unknown field is refused when a model is made, and ignored when a file is read."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)

    def __new__(cls, **fields: Any) -> Self:
        """Refuse an unknown field; what is read from JSON does not come through here with any."""
        if unknown := sorted(fields.keys() - _names_in(cls)):
            raise TypeError(f"{cls.__name__} has no field {unknown[0]!r}")
        return super().__new__(cls)


@functools.cache
def _names_in(model: type[PydanticModel]) -> frozenset[str]:
    """By which names the fields of a model may be given."""
    fields = model.model_fields.items()
    return frozenset(name for field, info in fields for name in (field, info.alias) if name)
