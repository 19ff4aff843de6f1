"""Pages of npu-smi that report several chips, cut into what concerns the NPU and what concerns each chip."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from npudoctor.facts.cells import integer, word
from npudoctor.facts.npu_smi.failure import not_a_page
from npudoctor.facts.npu_smi.pages import fields_of

OF_THE_CARD = {"npuid": "npu_id", "chipcount": "chip_count"}
Reader = Callable[[str | None], Any]
Titles = Mapping[str, tuple[str, Reader]]
"""From a title as `normal` writes it to the name of a field and what reads its value."""

_NAMES: Titles = {"chipid": ("chip_id", integer), "chipname": ("chip_name", word)}
_FAILURES = {
    "failedtoquerynpuchip": "Failed to query npu chip",
    "failedtoquerymcuchip": "Failed to query mcu chip",
    "failedtoquerychip": "Failed to query chip",
}
"""What is printed in place of the values of a chip that did not answer, behind its name."""


def normalise(title: str) -> str:
    """A title as it is compared: tools differ in capitals, blanks and hyphens."""
    return "".join(letter for letter in title.lower() if letter not in " \t-_")


def titles(known: Mapping[str, str], reader: Reader = integer) -> dict[str, tuple[str, Reader]]:
    """Titles as printed and the fields that they fill, all read alike."""
    return {normalise(title): (field, reader) for title, field in known.items()}


def pairs_of(text: str) -> list[tuple[str, str]]:
    """The keys of a page, as `normal` writes them, with the first line of their values."""
    return [(normalise(title), lines[0]) for title, lines in fields_of(text)]


def read_blocks(pairs: Iterable[tuple[str, str]], known: Titles) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What a page says of its NPU, and the fields of each of its chips, in order; an MCU has a name and no number.

    `Chip ID` or `Chip Name` is before the values of a chip or after them; where it was lost, a key that comes again
    begins another chip. A chip that did not answer has a `failure` and no values.
    """
    card: dict[str, Any] = {}
    chips: list[dict[str, Any]] = []
    chip: dict[str, Any] = {}
    before: bool | None = None
    for title, value in pairs:
        if title in OF_THE_CARD:
            card.setdefault(OF_THE_CARD[title], integer(value))
        if title in _FAILURES:
            silent = not chip or _is_silent(chip)
            chips += [chip] if chip else [] if chips else [{}]
            chips[-1]["failure"] = f"{_FAILURES[title]}: {value}"
            chip = {}
            before = None if silent and all(map(_is_silent, chips)) else before
            continue
        if title not in _NAMES and title not in known:
            continue
        field, reader = _NAMES.get(title) or known[title]
        is_name = title in _NAMES
        if is_name and before is None:
            before = not chip
        if chip and (field in chip or (is_name and before)):
            chips.append(chip)
            chip = {}
        chip[field] = reader(value)
        if is_name and not before:
            chips.append(chip)
            chip = {}
    return card, [*chips, chip] if chip else chips


def _is_silent(chip: Mapping[str, Any]) -> bool:
    """Whether a chip has a name alone, so that it is unknown whether names are before their values or after them."""
    return not chip.keys() - {"chip_id", "chip_name", "failure"}


def check_page(pairs: Iterable[tuple[str, str]], telling: Iterable[str], page: str, text: str) -> None:
    """Raise ParseError for a page that has none of the keys that tell this one from others."""
    if not {normalise(title) for title in telling} & {title for title, _ in pairs}:
        raise not_a_page(f"this is not a page of npu-smi info -t {page}", text)
