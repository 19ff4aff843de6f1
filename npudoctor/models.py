"""The base of npudoctor's models, and texts that are made visible as they enter one."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from npudoctor.control_characters import visible, visible_lines

if TYPE_CHECKING:
    from typing_extensions import Self


class Shown:
    """Makes a text, or the texts in a dict, visible as it enters a model.

    pydantic's BeforeValidator would read a signature for every field.
    """

    def __init__(self, shown: Callable[[Any], Any], kind: type = str) -> None:
        self._shown, self._kind = shown, kind

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self._made_visible, handler(source))

    def _made_visible(self, value: Any) -> Any:
        return self._shown(value) if isinstance(value, self._kind) else value


Line = Annotated[str, Shown(visible)]
"""Text in one line, possibly from the node: control and invisible characters are escaped."""

Lines = Annotated[str, Shown(visible_lines)]
"""The same in several lines."""


class Model(BaseModel):
    """A frozen model. An unknown field is refused when a model is made, and ignored when a report is read.

    So a mistake in a check is found, and a report that a later 1.x wrote, with one field more, is read.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)

    def __new__(cls, **fields: Any) -> Self:
        """Refuse an unknown field; what is read from JSON does not come through here with any."""
        if unknown := sorted(fields.keys() - _names_in(cls)):
            raise TypeError(f"{cls.__name__} has no field {unknown[0]!r}")
        return super().__new__(cls)


@functools.cache
def _names_in(model: type[Model]) -> frozenset[str]:
    """By which names the fields of a model may be given."""
    fields = model.model_fields.items()
    return frozenset(name for field, info in fields for name in (field, info.alias) if name)


class InventoryChip(Model):
    """One chip: its device number (N of /dev/davinciN), name, family, PCI address and memory in MB."""

    subject: Line
    device: int | None = None
    name: Line | None = None
    family: Line | None = None
    bus_id: Line | None = None
    memory_mb: int | None = None


class InventoryNpu(Model):
    """One NPU, which is a board: its serial number, product name and firmware, and its chips."""

    subject: Line
    serial_number: Line | None = None
    board: Line | None = None
    firmware: Line | None = None
    chips: tuple[InventoryChip, ...] = ()


class Inventory(Model):
    """What a node is made of; None for what the run did not learn."""

    vendor: Line | None = None
    product: Line | None = None
    bios: Line | None = None
    bmc: Line | None = None
    machine: Line | None = None
    os: Line | None = None
    kernel: Line | None = None
    driver: Line | None = None
    firmware: Line | None = None
    cann: Line | None = None
    python: Line | None = None
    torch: Line | None = None
    torch_npu: Line | None = None
    npus: tuple[InventoryNpu, ...] = ()
