"""The daemon's configuration: the sections [daemon] and [auto_fix].

A separate module, because `check` must start fast and needs neither.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Annotated, Any

from npudoctor.models import Section
from npudoctor.value_rules import After, Before, Between

Interval = Annotated[float, Between(1, 604800)]


def address_of(text: str) -> tuple[str, int]:
    """The address and port that `ADDRESS:PORT` or `[ADDRESS]:PORT` names; raises ValueError."""
    host, colon, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    host = host[1:-1] if bracketed else host
    if not (colon and port.isascii() and port.isdigit() and int(port) < 65536):
        raise ValueError("expected ADDRESS:PORT such as 127.0.0.1:9713")
    host = "127.0.0.1" if host == "localhost" else host
    try:
        version = ipaddress.ip_address(host).version
    except ValueError:
        raise ValueError("expected an IP address as in 127.0.0.1:9713") from None
    if (version == 6) is not bracketed:
        raise ValueError(f"expected an IPv6 address in brackets as in [::1]:{port}")
    return host, int(port)


def loopback(text: str) -> str:
    """Validate a loopback address; raises ValueError."""
    host, _ = address_of(text)
    if not ipaddress.ip_address(host).is_loopback:
        raise ValueError("expected a loopback address; only metrics_listen may be another address")
    return text


def anywhere(text: str) -> str:
    """Validate an address; raises ValueError."""
    address_of(text)
    return text


class DaemonSettings(Section):
    """The section [daemon]. Times are in seconds, `jitter_pct` in percent of an interval, `kept_days` in days.

    `listen` and `metrics_listen` are ADDRESS:PORT, None for none; `group` may use the socket besides its owner.
    """

    quick_s: Interval = 60.0
    counters_s: Interval = 300.0
    standard_s: Interval = 3600.0
    jitter_pct: Annotated[float, Between(0, 50)] = 10.0
    timeout_s: Annotated[float, Between(1, 3600)] = 120.0
    kept_days: Annotated[float, Between(0, 3650, above=True)] = 30.0
    group: str | None = None
    listen: Annotated[str, After(loopback)] | None = None
    metrics_listen: Annotated[str, After(anywhere)] | None = None


def _a_list(said: Any) -> Any:
    if isinstance(said, str):
        raise ValueError(f'expected a list such as ["{said}"]')
    return said


Fixes = Annotated[tuple[str, ...], Before(_a_list)]


class AutoFix(Section):
    """The section [auto_fix]: safe fixes that the daemon applies automatically, and their limit per hour."""

    at_boot: Fixes = ()
    on_issue: Fixes = ()
    per_hour: Annotated[int, Between(1, 60)] = 3

    @property
    def fixes(self) -> tuple[str, ...]:
        """All configured fixes."""
        return tuple(dict.fromkeys((*self.at_boot, *self.on_issue)))

    def mistake(self, known: Iterable[str], safe: Iterable[str]) -> str | None:
        """A mistake in the names, in a clause; None without one."""
        known, safe = set(known), set(safe)
        for name in self.fixes:
            if name not in known:
                return f"unknown fix {name!r}; see `npudoctor list --fixes`"
            if name not in safe:
                return f"{name} needs confirmation; the daemon applies safe fixes only"
        return None
