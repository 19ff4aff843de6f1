"""Finds a check, a fix, a known issue or a code by any usual name, or a known issue by a piece of a message."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from npudoctor import knowledge
from npudoctor.explain import code_forms
from npudoctor.knowledge.tables import codes as codes_table
from npudoctor.knowledge.tables.codes import Code
from npudoctor.knowledge.tables.errors import ErrorCode, spelled_in
from npudoctor.knowledge.tables.pitfalls import Pitfall, is_command
from npudoctor.plugins import Catalog
from npudoctor.sdk import Check, Fix

Topic = Check | Fix | Pitfall | ErrorCode | Code

_PITFALL = re.compile(r"[Pp]0*(\d{1,3})")
_CODE_LIKE = re.compile(
    r"-?(?:0x[0-9A-Fa-f]+|\d+)|(?![Pp]\d)[A-Za-z]{1,3}\d[0-9A-Fa-f]{3,8}|(?i:ERR|MIE|[EW][A-Z])\d{1,8}"
)
_EXIT = re.compile(
    r"(?i)(?:(?:exit(?:ed with)?[ _]?(?:code|status)?|return[ _]?code|rc)[\s:=]{0,3}(?P<code>-?\d{1,3})"
    r"|(?:killed by |ended by )?signal[\s:=]{1,3}(?P<signal>\d{1,2}))\W?"
)
_LETTERS_AND_NUMBER = re.compile(r"(?P<letters>[A-Za-z]{1,20}(?:[ _-][A-Za-z]{1,20})?)[ _-]{0,3}(?P<number>\d{1,20})")
_SYMBOL_AND_NUMBER = re.compile(r"(?P<symbol>[A-Za-z_:]\w*(?:::\w+)*)\W{1,3}-?(?:0x[0-9A-Fa-f]+|\d+)\W?")
_SPOKEN = re.compile(r"\S[\s:]+\S|\.so\b|[A-Z]_[A-Z]|\(\)")
"""What only a piece of a message has, and no name of a check, an issue or a fix."""

_ISSUES = 3
"""The most known issues that a piece of a message names."""

_GROUP = 6
"""The most checks of a group that are named."""


class Unknown(Exception):
    """Unknown name; the text suggests the nearest one."""


def find(name: str, catalog: Catalog) -> Topic:
    """The check, fix, known issue or code of this name, in any usual spelling; of several meanings the first.

    Raises Unknown.
    """
    return find_all(name, catalog)[0]


def find_all(name: str, catalog: Catalog) -> tuple[Topic, ...]:
    """The same with every meaning of a number that several components share; raises Unknown."""
    text = name.strip()
    named: tuple[Topic | None, ...] = (
        catalog.checks.get(text.partition("/")[0]),
        catalog.fixes.get(text),
        _pitfall(text),
    )
    found: tuple[Topic, ...] = tuple(one for one in named if one) or codes(text) or issues(text)
    if not found:
        raise Unknown(_nearest(text, catalog))
    return found


def _pitfall(text: str) -> Pitfall | None:
    number = _PITFALL.fullmatch(text)
    return knowledge.pitfalls().pitfall(f"P{int(number[1]):03}") if number else None


def code(text: str) -> ErrorCode | None:
    """A frequent code by its number, its symbol, or a piece of a message that contains it."""
    return next((one for one in codes(text) if isinstance(one, ErrorCode)), None)


def codes(text: str) -> tuple[ErrorCode | Code, ...]:
    """Every meaning of a code, by its number, its symbol, or a piece of a message whose words choose among them.

    A code of both tables is the row of errors.json. A number alone is an exit code first, where it is one of a shell.
    """
    errors = knowledge.errors()
    ended = _EXIT.fullmatch(text)
    number = _exit_code(text, ended)
    exit_code = errors.code(f"exit code {number}") if number is not None else None
    if ended:
        return (exit_code,) if exit_code else ()
    by_symbol = (row for row in errors.codes if row.name and row.name.upper() == text.upper())
    own = errors.code(text) or next(by_symbol, None)
    every = knowledge.codes().of_text(text) or (() if own else code_forms.meanings(text))
    found = [exit_code, own, *(errors.code(one.id) or one for one in every)]
    if not any(found):
        found = [errors.code(spelled) for _, spelled in spelled_in(text)]
    return tuple(dict.fromkeys(filter(None, found)))


def _exit_code(text: str, ended: re.Match[str] | None) -> int | None:
    """The exit code of a shell for `exit code 137`, `signal 9`, 137, or -9, as Python prints a signal."""
    if ended and ended["signal"]:
        return 128 + int(ended["signal"])
    bare = re.fullmatch(r"(?i:(?:error|code)\s)?(-?\d{1,3})", text)
    number = ended["code"] if ended else bare[1] if bare else None
    return None if number is None else 128 - int(number) if number.startswith("-") else int(number)


def is_exit(text: str) -> bool:
    """Whether a text tells how a process ended: `exit code 137`, `killed by signal 9`."""
    return _EXIT.fullmatch(text) is not None


def issues(text: str) -> tuple[Pitfall, ...]:
    """The known issues that a piece of a message shows, by the rules for logs, the likeliest first."""
    if not _SPOKEN.search(text):
        return ()
    from npudoctor.explain import diagnosis, scan

    scanner = scan.Scanner()
    scanner.read("", [f"{text}\n".encode("utf-8", "replace")])
    return tuple(one.pitfall for one in diagnosis.diagnose(scanner).suspects[:_ISSUES])


def _nearest(text: str, catalog: Catalog) -> str:
    """What is unknown, and for a word the nearest known spelling; another number is another code."""
    errors = knowledge.errors()
    if ended := _EXIT.fullmatch(text):
        ssh = ", or of ssh that could not connect" if ended["code"] == "255" else ""
        return f"{text!r} is of the program itself{ssh}: its last lines say more; explain them by --log FILE"
    near = _of_same_number(text)
    if not near and (unknown := _unknown_code(text)):
        return unknown
    if other := _other_name(text.lower(), catalog):
        return f"{text!r} is {other}"
    names = [*catalog.checks, *catalog.fixes]
    if re.fullmatch(r"\s*[Pp]\d.*", text):  # a known issue is a letter and a number: near to every code
        names += [row.id for row in knowledge.pitfalls().rows]
    symbols = [name for name in sorted(knowledge.codes().symbols) if _digits(name) == _digits(text)]
    if "_" in text and text.isupper():  # a symbol is no name of a check
        near = near or _close(text, symbols, 0.8)
    near = near or _close(text, names, 0.8 if "." in text else 0.5)
    near = near or _close(text, [row.code for row in errors.codes if _digits(row.code) == _digits(text)], 0.8)
    near = near or _close(text, symbols, 0.5)
    if not near and re.search(r"\S\s+\S", text):
        return (
            f"no known issue has this piece of a message: {text!r}; put the lines around it into a file for "
            "`npudoctor explain --log FILE`, or pipe them into `--log -`"
        )
    hint = f"did you mean {' or '.join(near)}?" if near else "see `npudoctor list`"
    return f"unknown name {text!r}; {hint}"


def _unknown_code(text: str) -> str | None:
    """What to say of a text that is a code by its form; None for other texts."""
    bare = text.strip("[](){}<>,.;:")
    family = codes_table.component_in(bare) or knowledge.errors().family(bare)
    if family or _CODE_LIKE.fullmatch(bare):
        of = f" of {family}" if family else ""
        return f"unknown code {text!r}{of}; the line that prints it says more: explain the whole line, or --log FILE"
    symbol = _SYMBOL_AND_NUMBER.fullmatch(bare)
    if symbol and knowledge.codes().of_text(symbol["symbol"]):
        return f"unknown code {text!r}: no table has this name with this number; explain one of the two alone"
    if unknown := code_forms.unknown_in(text):
        number, component = unknown
        of = f" of {component}" if component else ""
        return f"unknown code {number!r}{of}; put the lines around it into a file for `npudoctor explain --log FILE`"
    return None


def _of_same_number(text: str) -> list[str]:
    """The code that has the letters and the number of a text, but other zeros or signs between them."""
    wanted = _letters_and_number(text)
    known = [row.code for row in knowledge.errors().codes] + [row.id for row in knowledge.codes().rows]
    return [code for code in known if wanted and _letters_and_number(code) == wanted][:1]


def _letters_and_number(text: str) -> tuple[str, str] | None:
    found = _LETTERS_AND_NUMBER.fullmatch(text)
    return (re.sub(r"[ _-]", "", found["letters"]).upper(), found["number"].lstrip("0")) if found else None


def _digits(text: str) -> str:
    return re.sub(r"\D", "", text).lstrip("0")


def _other_name(text: str, catalog: Catalog) -> str | None:
    """What a name is that is none to explain: a fact, a finding of a fleet, a group of checks."""
    if text in {probe.name for probe in catalog.probes.values()}:
        return f"a fact; see `npudoctor facts {text}`"
    if text.startswith("fleet."):
        return "a finding of `npudoctor fleet check`; its report says what it means and what to do"
    if group := [id for id in catalog.checks if id.startswith(f"{text}.")]:
        more = ", …" if len(group) > _GROUP else ""
        return f"a group of checks; explain one of them: {', '.join(group[:_GROUP])}{more}"
    return None


def _close(text: str, names: Iterable[str], cutoff: float) -> list[str]:
    """The nearest of the names, whatever its case; nothing where the similarity (0 to 1) is below the cutoff."""
    import difflib

    folded = {each.lower(): each for each in names}
    return [folded[each] for each in difflib.get_close_matches(text.lower(), folded, n=1, cutoff=cutoff)]


def pitfalls_of(topic: Check | ErrorCode) -> tuple[Pitfall, ...]:
    """The known issues that a check detects, or that a code belongs to, the likelier first."""
    table = knowledge.pitfalls()
    if isinstance(topic, Check):
        return tuple(pitfall for pitfall in table.rows if topic.id in pitfall.foreseen_by)
    named = (table.pitfall(id) for id in topic.pitfalls)
    return tuple(dict.fromkeys(filter(None, (*named, *table.with_code(topic.code)))))


def checks_for(pitfalls: Iterable[Pitfall], checks: Mapping[str, Check]) -> tuple[Check, ...]:
    """The installed checks that detect one of these."""
    return tuple(dict.fromkeys(checks[id] for pitfall in pitfalls for id in pitfall.foreseen_by if id in checks))


def facts_of(check: Check, catalog: Catalog) -> tuple[str, ...]:
    """The names of a check's facts, as in `npudoctor facts`."""
    probes = catalog.probes
    return tuple(probes[need.fact].name for need in check.needs if need.fact in probes)


def mended_by(pitfall: Pitfall) -> tuple[tuple[str, bool], ...]:
    """The steps of a fix, each with whether it is a command."""
    return tuple((step, is_command(step)) for step in pitfall.fix)
