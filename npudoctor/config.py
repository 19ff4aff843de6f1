"""The site's one configuration file, validated: what is silenced, how severities are judged, thresholds and limits.

Looked for at `--config`, $NPUDOCTOR_CONFIG, ~/.config/npudoctor/config.toml and /etc/npudoctor/config.toml; the first
that is there counts.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from npudoctor.findings import Severity

SYSTEM = "/etc/npudoctor/config.toml"


class ConfigError(ValueError):
    """A configuration that cannot be used; the text names file, key and what was expected."""


class Config(BaseModel):
    """What a site may decide. Times are in seconds.

    `user` is the one whose login environment is judged where no person is at the keyboard. `silence` lists checks that
    are not run, `severity` the severity that the findings of a check get. `thresholds` are read by checks by name.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    profile: Literal["quick", "standard", "full"] = "standard"
    fail_on: Severity = Severity.ERROR
    role: Literal["auto", "full", "driver-only"] = "auto"
    expect_idle: bool = False
    python: str | None = None
    user: str | None = None
    timeout_s: float = Field(default=300.0, gt=0)
    tool_timeout_s: float = Field(default=10.0, gt=0, le=600)
    tools_at_once: int = Field(default=2, ge=1, le=16)
    silence: tuple[str, ...] = ()
    severity: Mapping[str, Severity] = Field(default_factory=dict)
    thresholds: Mapping[str, float] = Field(default_factory=dict)

    @property
    def severities(self) -> dict[str, Severity | None]:
        """What the engine takes: a check's severity, None where it is silenced."""
        return {**self.severity, **dict.fromkeys(self.silence)}


def find(explicit: str | None = None) -> str | None:
    """The file that counts; None without one. One that is named must be there."""
    if explicit or (explicit := os.environ.get("NPUDOCTOR_CONFIG")):
        return explicit
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return next(
        (path for path in (os.path.join(home, "npudoctor", "config.toml"), SYSTEM) if os.path.isfile(path)), None
    )


def load(explicit: str | None = None) -> Config:
    """Read and validate the configuration; raises ConfigError."""
    path = find(explicit)
    if path is None:
        return Config()
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        with open(path, "rb") as file:
            data = tomllib.load(file)
    except OSError as problem:
        raise ConfigError(f"{path}: {problem.strerror}") from problem
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise ConfigError(f"{path}: not valid TOML: {problem}") from problem
    try:
        return Config.model_validate(data)
    except ValidationError as problem:
        raise ConfigError(f"{path}: {explain(problem, Config)}") from problem


def explain(problem: ValidationError, model: type[BaseModel]) -> str:
    """The first mistake of a validation in one line: key, what was expected, what stands there."""
    first = problem.errors()[0]
    key = ".".join(map(str, first["loc"]))
    if first["type"] == "extra_forbidden":
        return f"there is no key {key!r}; known are {', '.join(sorted(model.model_fields))}"
    return f"{key}: {first['msg'][0].lower()}{first['msg'][1:]}, found {_shown(first.get('input'))}"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
