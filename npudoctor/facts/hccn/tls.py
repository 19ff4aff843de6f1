"""What `hccn_tool -tls -g` says: whether links are encrypted, and with which certificates."""

from __future__ import annotations

import re
from typing import Any

from npudoctor.facts.cells import lines_of, word
from npudoctor.facts.hccn.lines import not_an_answer
from npudoctor.records import record


@record(frozen=True, kw_only=True)
class Certificate:
    """One certificate of a device; times as printed. `expiration_status` 0 is valid, 1 expires soon, 2 has expired."""

    name: str
    subject: str | None = None
    issuer: str | None = None
    start_time: str | None = None
    end_time: str | None = None
    expiration_status: int | None = None


@record(frozen=True, kw_only=True)
class TlsCard:
    """The switch of a device, 1 is on; `preconfigured` 1 are the vendor's certificates; `alarm_days` before expiry."""

    dev_id: int
    switch: int
    preconfigured: int | None = None
    alarm_days: int | None = None
    certificates: tuple[Certificate, ...] = ()


@record(frozen=True)
class Tls:
    """The devices that a text reports, in order; links need the same switch at both ends."""

    cards: tuple[TlsCard, ...]


_SWITCH = r"(?:dev_id\s*:\s*|device\s+)([0-9]{1,5})\s*,\s*tls switch\[([01])\]"
_CERTIFICATE = r"\s*(?:dev_id\s*:\s*|device\s+)([0-9]{1,5})\s*,\s*\[([\w ]{1,40})\]\s*info\s*:\s*"
_FIELD = r"\s*(subject|issuer|start_time|end_time|tls expiration status)\[([^\[\]]*)\].*"


def parse_tls(text: str) -> Tls:
    """Read `hccn_tool -tls -g`, of one device or of several."""
    cards: dict[int, dict[str, Any]] = {}
    certificate: dict[str, Any] = {}
    for line in lines_of(text):
        if switch := re.search(_SWITCH, line):
            card = cards.setdefault(int(switch[1]), {"dev_id": int(switch[1]), "certificates": []})
            card["switch"] = int(switch[2])
            for field, pattern in (
                ("preconfigured", r"preconfigured\[([01])\]"),
                ("alarm_days", r"old\[([0-9]{1,6})\]d"),
            ):
                said = re.search(pattern, line)
                card[field] = int(said[1]) if said else None
            certificate = {}
        elif about := re.fullmatch(_CERTIFICATE, line):
            certificate = {"name": about[2].strip()}
            if int(about[1]) in cards:
                cards[int(about[1])]["certificates"].append(certificate)
        elif (said := re.fullmatch(_FIELD, line)) and certificate:
            status = said[1] == "tls expiration status"
            value = int(said[2]) if re.fullmatch("[0-9]", said[2]) else None
            certificate["expiration_status" if status else said[1]] = value if status else word(said[2])
    if not cards:
        raise not_an_answer("tls", text)
    return Tls(
        tuple(
            TlsCard(**{**card, "certificates": tuple(Certificate(**one) for one in card["certificates"])})
            for card in cards.values()
        )
    )
