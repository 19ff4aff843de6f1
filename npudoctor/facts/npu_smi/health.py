"""What `npu-smi info -t health` says of a chip: its health, fault codes, and the text beside them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from npudoctor.facts.cells import lines_of, word
from npudoctor.facts.npu_smi.blocks import check_page, normal, read_blocks, titles
from npudoctor.records import record


@record(frozen=True, kw_only=True)
class Health:
    """A page of `-t health`; where it tells of several chips, each stands in `chips`.

    `error_codes` are as printed, in capitals and without 0x. `error_info` is the text beside them, a line for each
    fault, None where there is none; `error_info_count` says of how many faults it tells.
    """

    npu_id: int | None = None
    chip_count: int | None = None
    chip_id: int | None = None
    health: str | None = None
    error_codes: tuple[str, ...] = ()
    error_info: str | None = None
    error_info_count: int = 0
    chips: tuple[Health, ...] = ()


_HEALTH_TELLS = ("Health Status", "Health", "Error Code")
_HEALTH = titles(
    {
        "Health Status": "health",
        "Health": "health",
        "Error Code": "error_codes",
        "Error Information": "error_info",
    },
    word,
)


def parse_health(text: str) -> Health:
    """Read a page of `npu-smi info -t health`; each fault has a line of its own, which a pasted text may fold."""
    pairs = [pair for pair in _health_pairs(text) if pair[0] != "chipname"]
    check_page(pairs, _HEALTH_TELLS, "health", text)
    card, chips = read_blocks(pairs, _HEALTH)
    found = [_health(chip) for chip in chips]
    if len(found) == 1:
        return Health(**card, **found[0])
    return Health(**card, chips=tuple(Health(**chip) for chip in found))


def _health_pairs(text: str) -> Iterator[tuple[str, str]]:
    """Keys and values; below the text of a fault a line that begins with a colon is the next, any other goes on."""
    title, value, margin = "", "", 0
    for line in filter(str.strip, lines_of(text)):
        found = re.fullmatch(r"\s*([A-Z][A-Za-z ]{1,40}?)\s*:\s*(.*)", line)
        indent = len(line) - len(line.lstrip())
        in_fault = title == normal("Error Information")
        if in_fault and line.lstrip().startswith(":"):
            value += "\n" + line.strip().removeprefix(":").strip()
        elif in_fault and not found and indent > margin + 1:
            value += " " + line.strip()
        else:
            yield title, value
            title, value, margin = (normal(found[1]), found[2].rstrip(), indent) if found else ("", "", 0)
    yield title, value


def _health(chip: dict[str, Any]) -> dict[str, Any]:
    codes = re.findall(r"\b(?:0x)?([0-9A-F]{4,8})\b", chip.get("error_codes") or "", re.IGNORECASE)
    faults = chip.get("error_info")
    return {
        "chip_id": chip.get("chip_id"),
        "health": chip.get("health"),
        "error_codes": tuple(dict.fromkeys(code.upper() for code in codes)),
        "error_info": faults,
        "error_info_count": len(faults.splitlines()) if faults else 0,
    }
