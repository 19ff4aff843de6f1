"""What hccn_tool counts: changes of a link, packets, and the objects of the RoCE hardware."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from npudoctor.facts.cells import integer, lines_of, word
from npudoctor.facts.hccn.lines import Pair, not_an_answer, pairs_of, rows_of
from npudoctor.records import record


@record(frozen=True, kw_only=True)
class LinkStat:
    """`-link_stat`: how often the link came up and went down, and when, the newest first; times as printed, local.

    Changes are LINK UP and LINK DOWN, as 950 has them in a table, too.

    Where a text reports several devices, each is in `cards`.
    """

    devid: int | None = None
    current_time: str | None = None
    link_up_count: int | None = None
    link_down_count: int | None = None
    records: tuple[tuple[str, str], ...] = ()
    last_state: str | None = None
    cards: tuple[LinkStat, ...] = ()


_TELLS = {"current time": "current_time", "link up count": "link_up_count", "link down count": "link_down_count"}
_CHANGE = r"\s*(?:\[\w+ *([0-9]{1,5})\]\s*)?(?:[0-9]{1,3}\s+)?([A-Z][a-z]{2}\s.*[0-9]{4})\s+(LINK (?:UP|DOWN))\s*"


def parse_link_stat(text: str) -> LinkStat:
    """Read `hccn_tool -link_stat -g`."""
    found: list[dict[str, Any]] = []
    for line in lines_of(text):
        if change := re.fullmatch(_CHANGE, line):
            device = int(change[1]) if change[1] else None
            if not found or found[-1]["devid"] != device:
                found.append({"devid": device, "records": []})
            found[-1]["records"].append((change[2], change[3]))
            continue
        for pair in pairs_of(line):
            field = _TELLS.get(pair.key)
            if field is None:
                continue
            if not found or found[-1]["devid"] != pair.device or field in found[-1]:
                found.append({"devid": pair.device, "records": []})
            found[-1][field] = word(pair.value) if field == "current_time" else integer(pair.value)
    changes = [row for row in rows_of(text) if {"link_status", "time_stamp"} <= row.keys()]
    if changes and len(found) < 2:
        found = found or [{"devid": None, "records": []}]
        numbers = {integer(row["npu"]) for row in changes}
        found[0]["devid"] = numbers.pop() if len(numbers) == 1 else None
        found[0]["records"] += [(row["time_stamp"], row["link_status"].replace("_", " ")) for row in changes]
    stats = tuple(_link_stat(one) for one in found)
    if not stats:
        raise not_an_answer("link_stat", text)
    return stats[0] if len(stats) == 1 else LinkStat(cards=stats)


def _link_stat(found: dict[str, Any]) -> LinkStat:
    records = tuple(found.pop("records"))
    return LinkStat(**found, records=records, last_state=records[0][1] if records else None)


def parse_stat(text: str) -> dict[str, Any]:
    """Read `hccn_tool -stat -g`: counters by name as printed; those of several devices in `cards`, by their place."""
    pairs = pairs_of(text)
    headed = any(pair.key == "packet statistics" for pair in pairs)
    if not headed and not any(pair.key.endswith("_num") for pair in pairs):
        raise not_an_answer("stat", text)
    found = _by_device(pair for pair in pairs if "_" in pair.key[1:-1] and re.fullmatch("[a-z][a-z0-9_]*", pair.key))
    return _flatten(found)


_HARDWARE = r"(?:pd|mr|cq|qp|ah|srq|mw|xrcd|aeq|ceq)_(?:alloc|dealloc|active)|[ac]eqe"


def parse_hw_stats(text: str) -> dict[str, Any]:
    """Read `hccn_tool -hw_stats -g`: `devid` and counters by name; those of several devices in `cards`."""
    pairs = [pair for pair in pairs_of(text) if re.fullmatch("[a-z][a-z0-9_]*", pair.key)]
    if not any(re.fullmatch(_HARDWARE, pair.key) for pair in pairs):
        raise not_an_answer("hw_stats", text)
    found = _by_device(pairs)
    return _flatten(found)


def _flatten(found: list[dict[str, int]]) -> dict[str, Any]:
    if len(found) < 2:
        return {**found[0]} if found else {}
    return {"cards": {str(place): one for place, one in enumerate(found)}}


def _by_device(pairs: Iterable[Pair]) -> list[dict[str, int]]:
    """The counters of each device: another begins where the line says so, or where a counter comes again."""
    found: list[dict[str, int]] = []
    device: int | None = None
    for pair in pairs:
        number = integer(pair.value)
        if number is None:
            continue
        if not found or pair.key in found[-1] or pair.device != device:
            device = pair.device
            found.append({} if device is None else {"devid": device})
        found[-1][pair.key] = number
    return found
