"""What a site decides for the daemon: the sections [daemon] and [auto_fix] of its configuration.

A module of its own, because a check starts fast and reads neither.
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
        raise ValueError(f"write ADDRESS:PORT, as in 127.0.0.1:9713, not {text!r}")
    host = "127.0.0.1" if host == "localhost" else host
    try:
        version = ipaddress.ip_address(host).version
    except ValueError:
        raise ValueError(f"{host!r} is no IP address; write one, as in 127.0.0.1:9713") from None
    if (version == 6) is not bracketed:
        raise ValueError(f"write an IPv6 address in brackets, as in [::1]:{port}")
    return host, int(port)


def loopback(text: str) -> str:
    """The same text where it names an address of this machine alone; raises ValueError."""
    host, _ = address_of(text)
    if not ipaddress.ip_address(host).is_loopback:
        raise ValueError("what the daemon knows is served to this machine alone; only metrics_listen may name others")
    return text


def anywhere(text: str) -> str:
    """The same text where it names an address; raises ValueError."""
    address_of(text)
    return text


class DaemonSettings(BaseModel):
    """The section [daemon]. Times are in seconds, `jitter_pct` in percent of an interval, `kept_days` in days.

    `listen` and `metrics_listen` are ADDRESS:PORT, None for none; `group` is who may use the socket beside its owner.
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
    """The section [auto_fix]: safe fixes that the daemon applies by itself, and how often in an hour at most."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    at_boot: tuple[str, ...] = ()
    on_issue: tuple[str, ...] = ()
    per_hour: int = Field(default=3, ge=1, le=60)

    @field_validator("at_boot", "on_issue", mode="before")
    @classmethod
    def _a_list(cls, said: Any) -> Any:
        if isinstance(said, str):
            raise ValueError(f'write a list, as in ["{said}"]')
        return said

    @property
    def fixes(self) -> tuple[str, ...]:
        """Every fix that is named."""
        return tuple(dict.fromkeys((*self.at_boot, *self.on_issue)))

    def mistake(self, known: Iterable[str], safe: Iterable[str]) -> str | None:
        """What is wrong with the names, in a clause; None where nothing is."""
        known, safe = set(known), set(safe)
        for name in self.fixes:
            if name not in known:
                return f"there is no fix {name!r}; `npudoctor fix` lists what could be mended here"
            if name not in safe:
                return f"{name} is not safe: a person decides each time; the daemon applies safe fixes alone"
        return None
