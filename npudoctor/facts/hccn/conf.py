"""The file that hccn_tool keeps its settings in and restores them from: /etc/hccn.conf."""

from __future__ import annotations

import re
from collections.abc import Mapping

from npudoctor.facts.cells import lines_of, refusal
from npudoctor.records import record

CONF_PATH = "/etc/hccn.conf"


@record(frozen=True)
class HccnConf:
    """The settings of each device by its number: address, netmask, gateway, netdetect and others, as written.

    Of a setting that a device has several times the values are joined by `;`.
    """

    cards: Mapping[str, Mapping[str, str]]


def parse_conf(text: str) -> HccnConf:
    """Read /etc/hccn.conf; raises ParseError where it sets nothing."""
    cards: dict[str, dict[str, str]] = {}
    lines = lines_of(text)
    for line in lines:
        setting = re.fullmatch(r"\s*([A-Za-z][A-Za-z0-9_]{0,64}?)_([0-9]{1,4})\s*=\s*(.*)", line)
        if setting is not None and (value := setting[3].rstrip()):
            card = cards.setdefault(str(int(setting[2])), {})
            earlier = card.get(setting[1])
            card[setting[1]] = value if earlier in (None, value) else f"{earlier};{value}"
    if not cards:
        raise refusal("this is not /etc/hccn.conf, or it sets nothing", lines)
    return HccnConf(cards)
