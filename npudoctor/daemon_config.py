"""The daemon's configuration: the sections [daemon] and [auto_fix].

A separate module, because `check` must start fast and needs neither.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator

Interval = Annotated[float, Field(ge=1, le=604800, allow_inf_nan=False)]


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


class DaemonSettings(BaseModel):
    """The section [daemon]. Times are in seconds, `jitter_pct` in percent of an interval, `kept_days` in days.

    `listen` and `metrics_listen` are ADDRESS:PORT, None for none; `group` may use the socket besides its owner.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    quick_s: Interval = 60.0
    counters_s: Interval = 300.0
    standard_s: Interval = 3600.0
    jitter_pct: float = Field(default=10.0, ge=0, le=50)
    timeout_s: float = Field(default=120.0, ge=1, le=3600)
    kept_days: float = Field(default=30.0, gt=0, le=3650)
    group: str | None = None
    listen: Annotated[str, AfterValidator(loopback)] | None = None
    metrics_listen: Annotated[str, AfterValidator(anywhere)] | None = None


class AutoFix(BaseModel):
    """The section [auto_fix]: safe fixes that the daemon applies automatically, and their limit per hour."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    at_boot: tuple[str, ...] = ()
    on_issue: tuple[str, ...] = ()
    per_hour: int = Field(default=3, ge=1, le=60)

    @field_validator("at_boot", "on_issue", mode="before")
    @classmethod
    def _a_list(cls, said: Any) -> Any:
        if isinstance(said, str):
            raise ValueError(f'expected a list such as ["{said}"]')
        return said

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
