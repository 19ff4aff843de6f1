"""What `npu-smi info -t health` says of a chip: its health, fault codes, and the text beside them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from npudoctor.facts.cells import lines_of, word
from npudoctor.facts.npu_smi.blocks import check_page, normalise, read_blocks, titles
from npudoctor.facts.npu_smi.failure import failure_of_page
from npudoctor.records import record


@record(frozen=True, kw_only=True)
class Health:
    """A page of `-t health`; where it reports several chips, each is in `chips`, the MCU by its `chip_name`.

    `error_codes` are as printed, in capitals and without 0x; before 950 only the page of a chip (`-c`) shows them, and
    950 has no other page. `error_info` is the text beside them, a line for each fault, None where there is none;
    `error_info_count` says of how many faults it tells. `failure` is what is printed in place of values.
    """

    npu_id: int | None = None
    chip_count: int | None = None
    chip_id: int | None = None
    chip_name: str | None = None
    health: str | None = None
    error_codes: tuple[str, ...] = ()
    error_info: str | None = None
    error_info_count: int = 0
    failure: str | None = None
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
    pairs = list(_health_pairs(text))
    check_page(pairs, _HEALTH_TELLS, "health", text)
    card, chips = read_blocks(pairs, _HEALTH)
    found = [_health(chip) for chip in chips]
    numbered = [chip for chip in found if chip["chip_name"] is None]
    card["failure"] = failure_of_page(text)
    if len(numbered) == 1:
        card |= {key: value for key, value in numbered[0].items() if value is not None}
    return Health(**card, chips=tuple(Health(**chip) for chip in found) if len(found) > 1 else ())


_NO_WORDS = "Failed to get error information"


def _health_pairs(text: str) -> Iterator[tuple[str, str]]:
    """Keys and values; below the text of a fault a line that begins with a colon is the next, any other goes on."""
    title, value, margin = "", "", 0
    for line in filter(str.strip, lines_of(text)):
        found = re.fullmatch(r"\s*([A-Z][A-Za-z ]{1,40}?)\s*:\s*(.*)", line)
        indent = len(line) - len(line.lstrip())
        in_fault = title == normalise("Error Information")
        if in_fault and line.lstrip().startswith(_NO_WORDS):
            continue
        if in_fault and line.lstrip().startswith(":"):
            value += "\n" + line.strip().removeprefix(":").strip()
        elif in_fault and not found:  # folded by who pasted it, or a message of the driver between two faults
            value += f" {line.strip()}" if indent > margin + 1 else ""
        else:
            yield title, value
            title, value, margin = (normalise(found[1]), found[2].rstrip(), indent) if found else ("", "", 0)
    yield title, value


def _health(chip: dict[str, Any]) -> dict[str, Any]:
    codes = re.findall(r"\b(?:0x)?([0-9A-F]{4,8})\b", chip.get("error_codes") or "", re.IGNORECASE)
    lines = (chip.get("error_info") or "").splitlines()
    faults = "\n".join(line for line in lines if line and not line.startswith(_NO_WORDS)) or None
    return {
        "chip_id": chip.get("chip_id"),
        "chip_name": chip.get("chip_name"),
        "failure": chip.get("failure"),
        "health": chip.get("health"),
        "error_codes": tuple(dict.fromkeys(code.upper() for code in codes)),
        "error_info": faults,
        "error_info_count": len(faults.splitlines()) if faults else 0,
    }
