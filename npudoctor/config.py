"""The site's configuration file, validated: silences, severities, thresholds and limits.

The first existing file of `--config`, $NPUDOCTOR_CONFIG, ~/.config/npudoctor/config.toml and
/etc/npudoctor/config.toml is read. It names programs to run, so root trusts only a file that no other user can write:
any other is refused; in a home that is not root's (HOME kept by sudo) it is ignored.
"""

from __future__ import annotations

import datetime
import os
import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any, Literal

from npudoctor import change_control, clock
from npudoctor.findings import Severity, Silenced
from npudoctor.host.live import accounts
from npudoctor.host.live.safe_files import Unreadable, read_bounded, read_trusted, why_untrusted
from npudoctor.models import Section, adapter
from npudoctor.records import field
from npudoctor.value_rules import After, Before, Between

if TYPE_CHECKING:
    from pydantic import ValidationError

    from npudoctor.daemon_config import AutoFix, DaemonSettings
    from npudoctor.sdk import Check

SYSTEM = "/etc/npudoctor/config.toml"
ACROSS_NODES = ("fleet.", "fleet_")
"""How names of checks across nodes and of their thresholds begin: a check of one node does not load them."""


class ConfigError(ValueError):
    """A configuration that cannot be used; the text names file, key and what was expected."""


class Silence(Section):
    """A silenced check, tag or finding code, until the end of the day `until` or for ever."""

    id: str
    reason: str | None = None
    until: datetime.date | None = None

    def holds(self, today: datetime.date) -> bool:
        """Whether it is still in effect."""
        return self.until is None or today <= self.until


def _silence_by_id(said: object) -> object:
    return {"id": said} if isinstance(said, str) else said


class Web(Section):
    """The section [web]."""

    enabled: bool = True


class Changes(Section):
    """The section [changes]: whether a fix needs a reason, when fixes are allowed, and why none is at present."""

    require_reason: bool = False
    window: Annotated[str, After(change_control.window)] | None = None
    frozen: Annotated[str, After(change_control.parse_freeze)] | None = None


def _absolute_path(path: str) -> str:
    if not path.startswith("/"):
        raise ValueError("expected an absolute path")
    return path


class Managed(Section):
    """The section [managed]: absolute paths of files and folders, with wildcards, that no fix changes."""

    paths: tuple[Annotated[str, After(_absolute_path)], ...] = ()


class Node(Section):
    """The section [node]: `chips_from` names the source of the NPUs' data."""

    chips_from: Literal["auto", "dcmi", "npu-smi"] = "auto"


class Config(Section):
    """The site's settings. Times are in seconds.

    `user` is the user whose login environment is checked where no user is logged in. `silence` lists checks, tags
    and codes of findings to ignore, `severity` the severity that the findings of a check get.
    `thresholds` are read by checks by name; `names_are_known` compares all these names with a catalogue. `daemon` and
    `auto_fix` are sections that only the daemon reads, as `for_daemon` and `policy`; `web` is one that only
    `npudoctor web` reads. `node` says where its data come from, as `chips_from`. `managed` and `changes` are of the
    fixes, as `managed_paths` and `change_control`.
    """

    profile: Literal["quick", "standard", "full"] = "standard"
    fail_on: Severity = Severity.ERROR
    role: Literal["auto", "full", "driver-only"] = "auto"
    expect_idle: bool = False
    python: str | None = None
    user: str | None = None
    timeout_s: Annotated[float, Between(0, above=True)] = 300.0
    tool_timeout_s: Annotated[float, Between(0, 600, above=True)] = 10.0
    tools_at_once: Annotated[int, Between(1, 16)] = 2
    silence: tuple[Annotated[Silence, Before(_silence_by_id)], ...] = ()
    severity: Mapping[str, Severity] = field(default_factory=dict)
    thresholds: Mapping[str, Annotated[float, Between(0)]] = field(default_factory=dict)
    managed: dict[str, Any] = field(default_factory=dict)
    node: dict[str, Any] = field(default_factory=dict)
    changes: dict[str, Any] = field(default_factory=dict)
    web: dict[str, Any] = field(default_factory=dict)
    daemon: dict[str, Any] = field(default_factory=dict)
    auto_fix: dict[str, Any] = field(default_factory=dict)

    @property
    def managed_paths(self) -> tuple[str, ...]:
        """The paths of the section [managed]."""
        return adapter(Managed).validate_python(self.managed).paths if self.managed else ()

    def change_control(self, explicit: str | None = None) -> change_control.ChangeControl:
        """What the sections [changes] of this configuration and of the site's file demand together.

        The site's file always counts, so that only users who can write it can lift it. Raises ConfigError.
        """
        said = [self.changes] if self.changes else []
        if os.path.lexists(SYSTEM) and find(explicit) != SYSTEM and (site := load(SYSTEM).changes):
            said.append(site)
        all_of = [adapter(Changes).validate_python(one) for one in said]
        return change_control.ChangeControl(
            require_reason=any(one.require_reason for one in all_of),
            windows=tuple(one.window for one in all_of if one.window),
            frozen=tuple(one.frozen for one in all_of if one.frozen),
        )

    @property
    def chips_from(self) -> str:
        """The source of the NPUs' data, of the section [node]."""
        return adapter(Node).validate_python(self.node).chips_from if self.node else "auto"

    @property
    def for_daemon(self) -> DaemonSettings:
        """The section [daemon]."""
        from npudoctor.daemon_config import DaemonSettings

        return adapter(DaemonSettings).validate_python(self.daemon)

    @property
    def policy(self) -> AutoFix:
        """The section [auto_fix]."""
        from npudoctor.daemon_config import AutoFix

        return adapter(AutoFix).validate_python(self.auto_fix)

    def silences_on(self, today: datetime.date | None = None) -> dict[str, Silenced]:
        """The ids, tags and codes silenced today, with the reason."""
        day = today or clock.today()
        return {one.id: Silenced(reason=one.reason, until=one.until) for one in self.silence if one.holds(day)}

    def remarks(self, today: datetime.date | None = None) -> list[str]:
        """Remarks on the configuration: expired silences."""
        day = today or clock.today()
        still = self.silences_on(day)
        ended = [one for one in self.silence if not one.holds(day) and one.id not in still]
        return [f"silence of {one.id} expired on {one.until}; remove the entry or set a later date" for one in ended]


def find(explicit: str | None = None) -> str | None:
    """The file to read; None without one. A named file must exist."""
    if explicit or (explicit := os.environ.get("NPUDOCTOR_CONFIG")):
        return explicit
    own = _in_home()
    if own is not None and os.path.isfile(own) and passed_over(explicit) is None:
        return own
    return SYSTEM if os.path.lexists(SYSTEM) else None


def passed_over(explicit: str | None = None) -> str | None:
    """Why root ignores the configuration in its HOME; None where it is read, or there is none."""
    own = _in_home()
    if os.geteuid() != 0 or explicit or os.environ.get("NPUDOCTOR_CONFIG") or own is None or not os.path.isfile(own):
        return None
    reason = why_untrusted(own)
    return reason and f"{own} is ignored, because root reads only files that no other user can write: {reason}"


def _in_home() -> str | None:
    home = os.environ.get("XDG_CONFIG_HOME")
    if not home and (own := accounts.home()):
        home = os.path.join(own, ".config")
    return os.path.join(home, "npudoctor", "config.toml") if home else None


def load(explicit: str | None = None, *, trusted: bool = False) -> Config:
    """Read and validate the configuration; raises ConfigError.

    For root, and where `trusted`, no other user may be able to write it.
    """
    path = find(explicit)
    if path is None:
        return Config()
    from pydantic import ValidationError  # here, because a check without a configuration starts fast

    data = _parse(path, trusted=trusted or os.geteuid() == 0)
    try:
        config = adapter(Config).validate_python(data)
    except ValidationError as problem:
        raise ConfigError(f"{path}: {explain(problem, Config)}") from problem
    for name in ("daemon", "auto_fix", "managed", "changes", "node", "web"):
        if name in data:
            _section_is_right(path, name, data[name])
    return config


def web_disabled_by(explicit: str | None = None) -> str | None:
    """The file that disables `npudoctor web`; None where none does. Raises ConfigError.

    The site's file is always read, so that only users who can write it can enable web again.
    """
    for path in (SYSTEM if os.path.lexists(SYSTEM) else None, find(explicit)):
        if path and not adapter(Web).validate_python(load(path).web).enabled:
            return path
    return None


def _parse(path: str, *, trusted: bool) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        data: dict[str, Any] = tomllib.loads((read_trusted if trusted else read_bounded)(path).decode())
        return data
    except Unreadable as problem:
        raise ConfigError(str(problem)) from problem
    except RecursionError as problem:
        raise ConfigError(f"{path}: not valid TOML: nested too deeply") from problem
    except ValueError as problem:  # not TOML, not UTF-8, or a number of thousands of digits
        raise ConfigError(f"{path}: not valid TOML: {str(problem).partition(';')[0]}") from problem


def _section_is_right(path: str, name: str, data: object) -> None:
    """Raise ConfigError for a mistake in a section that only one command reads: every command reports it."""
    from pydantic import ValidationError

    from npudoctor import daemon_config

    models: dict[str, type] = {
        "daemon": daemon_config.DaemonSettings,
        "auto_fix": daemon_config.AutoFix,
        "managed": Managed,
        "node": Node,
        "changes": Changes,
        "web": Web,
    }
    model = models[name]
    try:
        adapter(model).validate_python(data)
    except ValidationError as problem:
        raise ConfigError(f"{path}: in [{name}]: {explain(problem, model)}") from problem


def names_are_known(
    config: Config, catalog: Collection[Check], where: str, *, codes: Collection[str] = (), complete: bool = True
) -> None:
    """Raise ConfigError for an unknown check, tag, finding or threshold; `where` is the file.

    `codes` are those of the findings.

    If a plug-in failed to load, names that may be its own are accepted: the failure itself is reported.
    """
    checks = {check.id for check in catalog}
    across = any(id.startswith(ACROSS_NODES) for id in checks)
    tags = {tag for check in catalog for tag in check.tags}
    thresholds = {one.name for check in catalog for one in check.thresholds}
    for key, names, known, what in (
        ("silence", [one.id for one in config.silence], checks | tags | set(codes), "check, tag or finding"),
        ("severity", config.severity, checks, "check"),
        ("thresholds", config.thresholds, thresholds, "threshold"),
    ):
        for name in names:
            may_be_a_stranger = not complete and name.partition(".")[0] not in tags
            may_be_a_stranger |= name.startswith(ACROSS_NODES) and not across
            if name not in known and not may_be_a_stranger:
                raise ConfigError(f"{where}: {key}: unknown {what} {name!r}{_nearest(name, known)}")


def _nearest(name: str, known: Iterable[str]) -> str:
    import difflib

    near = difflib.get_close_matches(name, sorted(known), 1, 0.4)
    return f"; did you mean {near[0]}?" if near else "; see `npudoctor list`"


_EXPECTED = {
    "float_": "a number",
    "int_": "a whole number",
    "bool_": "true or false",
    "string_type": "text",
    "list_": "a list",
    "tuple_": "a list",
    "dict_": "a table",
    "dataclass_": "a table",
    "mapping_": "a table",
    "date": "a date such as 2031-12-31",
}
"""What was expected, by the beginning of pydantic's name for a mistake."""


def explain(problem: ValidationError, model: type) -> str:
    """The first mistake of a validation in one line: key, expected, found."""
    first = problem.errors()[0]
    key = ".".join(map(str, first["loc"]))
    if first["type"] == "unexpected_keyword_argument":
        import difflib

        known = sorted(one.name for one in fields(model))
        near = difflib.get_close_matches(key, known, 1)
        return f"unknown key {key!r}; " + (f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}")
    if first["type"] == "missing":
        return f"{key}: this key is missing"
    if expected := next((words for kind, words in _EXPECTED.items() if first["type"].startswith(kind)), None):
        return f"{key}: expected {expected}, found {_abridge(first.get('input'))}"
    said = first["msg"].removeprefix("Value error, ")
    return f"{key}: {said[0].lower()}{said[1:]}, found {_abridge(first.get('input'))}"


def _abridge(value: Any) -> str:
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # a number of thousands of digits, or lists in lists in lists
        return "a value that is too long"
    return text if len(text) <= 60 else text[:57] + "..."
