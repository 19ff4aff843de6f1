"""Legal values of environment variables in a form that a program can judge: a small, closed set of kinds."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from enum import Enum

from npudoctor.records import record


class Kind(str, Enum):
    """What kind of value is legal.

    Judged here: ENUM (one of `values`), ENUM_LIST (several, joined by commas), INTEGER, NUMBER (`minimum`, `maximum`,
    `multiple_of`; `values` are legal besides), IP, DEVICES (rising NPU numbers), REGEX, TEXT (`max_length`), PAIRS
    (`key:value,...`, each key with a rule of its own; unknown keys pass), EXCEPT (anything but `values`), NO_EFFECT
    (nothing reads the variable).
    Judged by a check, with a host: DIRECTORY, DIRECTORIES (joined by colons), FILE (`access`, `must_exist`,
    `absolute`, `no_link`), SAME_PATH (leads where `variable` leads), CONTAINS (a path list that holds `entries`),
    INTERFACE. ANY is never judged; `why` says for what reason.
    """

    ANY = "any"
    ENUM = "enum"
    ENUM_LIST = "enum_list"
    INTEGER = "integer"
    NUMBER = "number"
    IP = "ip"
    DEVICES = "devices"
    REGEX = "regex"
    TEXT = "text"
    PAIRS = "pairs"
    EXCEPT = "except"
    NO_EFFECT = "no_effect"
    DIRECTORY = "directory"
    DIRECTORIES = "directories"
    FILE = "file"
    SAME_PATH = "same_path"
    CONTAINS = "contains"
    INTERFACE = "interface"


@record(frozen=True, kw_only=True)
class Rule:
    """What one value may be.

    `form` says it for a person. `above_minimum`: the minimum itself is illegal. `access` is any of `rwx`. An entry of
    CONTAINS with a bar has alternatives; `entries_with_atb` hold where ATB_HOME_PATH is set. `excludes` are triples: a
    key, its value, the key that may then not be given. `suffixes` are the legal ends of a directory.
    """

    kind: Kind
    values: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    above_minimum: bool = False
    multiple_of: int | None = None
    pattern: str | None = None
    max_length: int | None = None
    form: str | None = None
    why: str | None = None
    access: str = ""
    must_exist: bool = False
    absolute: bool = False
    no_link: bool = False
    suffixes: tuple[str, ...] = ()
    variable: str | None = None
    entries: tuple[str, ...] = ()
    entries_with_atb: tuple[str, ...] = ()
    keys: Mapping[str, Rule] | None = None
    excludes: tuple[tuple[str, str, str], ...] = ()

    def problem(self, value: str) -> str | None:
        """What is wrong with a value, as a clause about it; None where nothing is, or only a host could tell.

        An empty value counts as unset, blanks around a value do not count, nor do capitals in words: the sources call
        neither illegal.
        """
        text = value.strip()
        judge = _JUDGES.get(self.kind)
        return judge(self, text) if judge and text else None


def _enum(rule: Rule, value: str) -> str | None:
    known = value.lower() in (legal.lower() for legal in rule.values)
    return None if known else f"{value!r} is none of {', '.join(rule.values)}"


def _enum_list(rule: Rule, value: str) -> str | None:
    return next(filter(None, (_enum(rule, part.strip()) for part in value.split(","))), None)


def _number(rule: Rule, value: str) -> str | None:
    if value in rule.values:
        return None
    whole = rule.kind is Kind.INTEGER
    if not re.fullmatch(r"[+-]?[0-9]+" if whole else r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)", value):
        return f"{value!r} is not a {'whole ' if whole else ''}number"
    number = int(value) if whole else float(value)
    if rule.minimum is not None and (number < rule.minimum or (rule.above_minimum and number == rule.minimum)):
        return f"{value} is too small; it must be {'above' if rule.above_minimum else 'at least'} {rule.minimum:g}"
    if rule.maximum is not None and number > rule.maximum:
        return f"{value} is too large; it must be at most {_plain(rule.maximum)}"
    if rule.multiple_of and number % rule.multiple_of:
        return f"{value} is no multiple of {rule.multiple_of}"
    return None


def _ip(_: Rule, value: str) -> str | None:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return f"{value!r} is no IPv4 or IPv6 address"
    return None


def _devices(_: Rule, value: str) -> str | None:
    if not re.fullmatch(r"[0-9]+(,[0-9]+)*", value):
        return f"{value!r} is not a list of NPU numbers joined by commas, without blanks"
    numbers = [int(part) for part in value.split(",")]
    if len(set(numbers)) < len(numbers):
        return f"{value!r} names an NPU twice"
    return None if numbers == sorted(numbers) else f"{value!r} is not in rising order"


def _regex(rule: Rule, value: str) -> str | None:
    return None if re.fullmatch(rule.pattern or "", value) else f"{value!r} is not of the form {rule.form}"


def _text(rule: Rule, value: str) -> str | None:
    length, most = len(value), rule.max_length
    return None if most is None or length <= most else f"it is {length} characters long; at most {most} are legal"


def _pairs(rule: Rule, value: str) -> str | None:
    given: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in value.split(","))):
        key, colon, text = (piece.strip() for piece in part.partition(":"))
        if not colon:
            return f"{part!r} is not of the form key:value"
        known = (rule.keys or {}).get(key)
        problem = known.problem(text) if known else None
        if problem:
            return f"{key}: {problem}"
        given[key] = text
    for key, text, other in rule.excludes:
        if given.get(key, "").lower() == text.lower() and other in given:
            return f"{key}:{given[key]} excludes {other}"
    return None


def _except(rule: Rule, value: str) -> str | None:
    return f"{value!r} does not work here; use {rule.form}" if value in rule.values else None


def _no_effect(rule: Rule, _: str) -> str | None:
    return f"it has no effect: {rule.form}"


def _plain(number: float) -> str:
    return str(int(number)) if number == int(number) else str(number)


_JUDGES = {
    Kind.ENUM: _enum,
    Kind.ENUM_LIST: _enum_list,
    Kind.INTEGER: _number,
    Kind.NUMBER: _number,
    Kind.IP: _ip,
    Kind.DEVICES: _devices,
    Kind.REGEX: _regex,
    Kind.TEXT: _text,
    Kind.PAIRS: _pairs,
    Kind.EXCEPT: _except,
    Kind.NO_EFFECT: _no_effect,
}
