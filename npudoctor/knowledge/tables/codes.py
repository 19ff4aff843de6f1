"""All error and fault codes of Ascend systems by component, and their printed forms: the typed form of codes.json.

A code is found by its value: decimal, hexadecimal, signed or unsigned. Several components share small numbers, so that
one number has several meanings; npudoctor.explain.code_forms chooses by the text around it. errors.json says of some
two hundred codes what to check, and which known issues they belong to.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

from npudoctor.knowledge import table
from npudoctor.records import record

PREFIXES: Mapping[str, str] = {
    "hccl-return": "HCCL",
    "driver": "driver",
    "atb": "ATB",
    "aoe": "AOE",
    "ascend-dmi": "Ascend-DMI",
    "rdma-cqe": "CQE",
    "task-scheduler": "TS",
    "mooncake-engine": "Mooncake-engine",
    "mooncake-store": "Mooncake-store",
    "hccn-tool": "hccn_tool",
    "hccn-tool-950": "hccn_tool-950",
    "mcu-health": "MCU",
    "aicore-error": "AICore",
    "server-bmc": "BMC",
}
"""What is before a code whose number alone belongs to several components."""

EIGHT_HEX = frozenset({"health", "blackbox", "server-bmc", "dvpp", "transport"})
"""Kinds printed as eight hexadecimal digits, also without 0x."""

_BARE_HEX = EIGHT_HEX | {"runtime-internal"}
_NUMBER = re.compile(r"(?P<sign>-?)(?:0x(?P<hex>[0-9a-f]{1,16})|(?P<decimal>\d{1,20}))", re.IGNORECASE)
_WORD = r"(0x[0-9a-f]{1,16}|0)"
_WORDS = re.compile(rf"\(\s*{_WORD}\s*,\s*{_WORD}\s*,\s*{_WORD}\s*\)", re.IGNORECASE)
_SWITCH = re.compile(r"\[?(0x[0-9a-f]{8})(?:,(\w{0,12}),(\w{0,8}),(\w{0,8})\]?)?", re.IGNORECASE)
_HALF, _WHOLE = 1 << 31, 1 << 32
_BRACKETS = " []{}()<>\"'`.,;:!"
_PARTS = re.compile(r"(?:(?<!:):(?!:)|[\s(),=\[\]])+")
_ZEROS = re.compile(r"0\d{7}")
_PACKED = re.compile(r"0x0{8}05[0-9a-f]{2}([0-9a-f]{4})", re.IGNORECASE)
"""A return value of HCCL with its module and sub-module, as `errNo[…]` prints it."""

_RARE = frozenset({"rdma-cqe", "ascend-dmi", "server-bmc"})
"""Kinds that are printed in hexadecimal, so that a number without digits of its own rarely means them."""

_BIT_DIGITS, _BITS = 6, 2
"""The fewest digits and the most bits of a number that is read as an error word of an AI Core without other words."""


@record(frozen=True, kw_only=True)
class Code:
    """One code of one component.

    `code` is its usual spelling, `symbol` its name in the sources, `meaning` None where none is published. A
    `generic` code is never a cause by itself. `action` is the fault class of the public device plug-in, `severity` that
    of a chip's health table, `maps_to` the codes as which it surfaces, `exit_code` the low byte that a shell sees.
    """

    code: str
    kind: str
    component: str | None
    sources: tuple[str, ...]
    symbol: str | None = None
    meaning: str | None = None
    generic: bool = False
    action: str | None = None
    severity: str | None = None
    maps_to: tuple[str, ...] = ()
    exit_code: int | None = None
    confidence: str = "high"

    @property
    def id(self) -> str:
        """The spelling that belongs to this component alone; that of errors.json for codes of both tables."""
        if self.kind == "health":
            return self.code[2:].upper()
        prefix = PREFIXES.get(self.kind)
        return f"{prefix} {self.code}" if prefix and not self.code[0].isalpha() else self.code

    @property
    def value(self) -> int | None:
        """Its number; None for a word."""
        found = _NUMBER.fullmatch(self.code) if self.kind != "public-fault" else None
        return _value(found) if found else None

    @property
    def is_hex(self) -> bool:
        """Whether its usual spelling is hexadecimal."""
        return self.code.lower().startswith("0x")


@record(frozen=True, kw_only=True)
class Codes:
    """The whole table."""

    as_of: str
    rows: tuple[Code, ...]

    def of_text(self, text: str) -> tuple[Code, ...]:
        """Every code that a text without surroundings can mean, usual spellings first; nothing for an unknown one.

        A number and a symbol side by side, `ERROR_RT_FAIL(4)`, are the code that has both.
        """
        text = " ".join(text.split())
        bare = text.strip(_BRACKETS)
        return self._of_name(text) or (self._of_name(bare) if bare != text else ()) or self._of_pair(bare)

    def _of_name(self, text: str) -> tuple[Code, ...]:
        """The codes of one number or one symbol."""
        kinds, rest = _split_prefix(text)
        if kinds:
            return tuple(code for code in self.of_text(rest) if code.kind in kinds) or self._by_exit(rest, kinds)
        if words := _WORDS.fullmatch(text):
            return self.bits([int(word, 0) for word in words.groups()])
        found = self.of_symbol(text.rpartition("::")[2])
        if found or not (number := _NUMBER.fullmatch(text)):
            return found or self._bare_hex(text) or self._switch(text)
        if _ZEROS.fullmatch(text) and (found := self._bare_hex(text)):
            return found
        value, digits = _value(number), len(number["hex"] or number["decimal"])
        near = self.of_value(value, is_hex=bool(number["hex"]), digits=digits)
        if packed := _PACKED.fullmatch(text):
            near = (*self.of_text(f"HCCL {int(packed[1], 16)}"), *near)
        if near:
            return near
        negative = self.of_value(-value, is_hex=False, digits=0)
        known = tuple(code for code in negative if code.kind in ("dcmi", "hccp"))
        return known or self._bare_hex(text) or self._switch(text) or self._bits_of(number)

    def _of_pair(self, text: str) -> tuple[Code, ...]:
        """The codes that have both the number and the symbol of a text that is made of the two."""
        parts = _PARTS.split(text)
        if len(parts) != 2 or all(map(_NUMBER.fullmatch, parts)):
            return ()
        first, second = map(self._of_name, parts)
        return tuple(code for code in first if code in second)

    def of_symbol(self, symbol: str) -> tuple[Code, ...]:
        """The codes of a symbol, or of a code without a number as value, in any case."""
        return self._words.get(symbol.upper(), ())

    def of_value(self, value: int, *, is_hex: bool, digits: int) -> tuple[Code, ...]:
        """The codes of a number, printed in hexadecimal or decimal, with so many digits."""
        found = (code for code in self._values.get(value, ()) if is_hex or code.kind != "aicore-error")
        wide = is_hex and digits == 8

        def order(code: Code) -> tuple[bool, bool, bool, bool]:
            wanted = code.kind == "hccl-return"
            return (
                wide and code.kind not in EIGHT_HEX,
                code.kind in _RARE and not wide,
                not wanted,
                code.is_hex != is_hex,
            )

        return tuple(sorted(found, key=order))

    def _bits_of(self, number: re.Match[str]) -> tuple[Code, ...]:
        """The faults of an AI Core whose bits a long hexadecimal number has, where it can be no code of its own."""
        word = number["hex"] or ""
        if len(word) < _BIT_DIGITS or is_numbered(word) or _value(number).bit_count() > _BITS:
            return ()
        return self.bits([_value(number)])

    def bits(self, words: Iterable[int]) -> tuple[Code, ...]:
        """The faults of an AI Core by its three error words; several bits can be set."""
        wanted = [(place, 1 << bit) for place, word in enumerate(words) for bit in range(64) if word >> bit & 1]
        return tuple(self._bits[one] for one in wanted or [(0, 0)] if one in self._bits)

    def of_id(self, id: str) -> Code | None:
        """The code of an `id`, as `Code.id` spells it."""
        return self._ids.get(id)

    def _by_exit(self, text: str, kinds: frozenset[str]) -> tuple[Code, ...]:
        if not text.isdigit():
            return ()
        return tuple(code for code in self.rows if code.kind in kinds and code.exit_code == int(text))

    def _bare_hex(self, text: str) -> tuple[Code, ...]:
        """The codes of hexadecimal digits without 0x: eight of them, or those of the runtime, which lose a zero."""
        if not re.fullmatch(r"[0-9A-Fa-f]{7,8}", text):
            return ()
        found = self.of_value(int(text, 16), is_hex=True, digits=len(text))
        return tuple(code for code in found if code.kind in (_BARE_HEX if len(text) == 8 else {"runtime-internal"}))

    def _switch(self, text: str) -> tuple[Code, ...]:
        found = _SWITCH.fullmatch(text.replace(" ", ""))
        if not found:
            return ()
        wanted = [part.lower() for part in found.groups()[1:]] if found[2] is not None else []
        rows = [code for code in self.rows if code.kind == "switch-fault"]
        return tuple(
            code
            for code in rows
            if code.code[1:11].lower() == found[1].lower()
            and all(
                part in ("", own) for part, own in zip(wanted, code.code[1:-1].lower().split(",")[1:], strict=False)
            )
        )

    @cached_property
    def _words(self) -> dict[str, tuple[Code, ...]]:
        found: dict[str, tuple[Code, ...]] = {}
        for code in self.rows:
            names = {code.code.upper()} if code.value is None else set()
            if code.symbol:
                names |= {code.symbol.upper(), code.symbol.upper().rpartition("::")[2]}
            for name in names:
                found[name] = (*found.get(name, ()), code)
        return found

    @cached_property
    def symbols(self) -> frozenset[str]:
        """All symbols, as the sources spell them."""
        return frozenset(code.symbol for code in self.rows if code.symbol)

    @cached_property
    def _values(self) -> dict[int, tuple[Code, ...]]:
        found: dict[int, tuple[Code, ...]] = {}
        for code in self.rows:
            value = code.value if code.kind != "aicore-error" else _first_word(code)
            for each in () if value is None else _same(value):
                found[each] = (*found.get(each, ()), code)
        return found

    @cached_property
    def _bits(self) -> dict[tuple[int, int], Code]:
        found = {}
        for code in self.rows:
            if code.kind == "aicore-error" and (words := _WORDS.fullmatch(code.code)):
                place, word = next(
                    ((place, int(word, 0)) for place, word in enumerate(words.groups()) if int(word, 0)), (0, 0)
                )
                found[place, word] = code
        return found

    @cached_property
    def _ids(self) -> dict[str, Code]:
        return {code.id: code for code in self.rows}


def _value(found: re.Match[str]) -> int:
    number = int(found["hex"], 16) if found["hex"] else int(found["decimal"])
    return -number if found["sign"] else number


def _same(value: int) -> tuple[int, ...]:
    """A value as signed and as unsigned number of 32 and of 64 bits."""
    if value < 0:
        return value, value + _WHOLE, value + (1 << 64)
    return (value, value - _WHOLE) if _HALF <= value < _WHOLE else (value,)


def _first_word(code: Code) -> int | None:
    """The number of a fault of the AI Core whose bit is in the first word, which some lines print alone."""
    words = _WORDS.fullmatch(code.code)
    return int(words[1], 0) if words and int(words[1], 0) else None


def is_numbered(digits: str) -> bool:
    """Whether a hexadecimal number has the form of a numbering scheme of its own: inner numbers, and eight digits."""
    return len(digits) == 8 or (len(digits) == 7 and digits[0] == "7")


def component_in(text: str) -> str | None:
    """The component of a text such as `HCCL 99`, `hccl-99` or `ATB77`, whatever the number; None for other texts."""
    found = re.fullmatch(r"(?P<name>[A-Za-z][A-Za-z_ -]*?)[ _-]?-?(?:0x[0-9A-Fa-f]+|\d+)", text)
    kinds = _split_prefix(f"{found['name']} 0")[0] if found else frozenset()
    if not kinds:
        return None
    return PREFIXES[min(kinds)].partition("-")[0] if len(kinds) > 1 else PREFIXES[min(kinds)]


def _split_prefix(text: str) -> tuple[frozenset[str], str]:
    """The kinds that a text names before the number, and the number."""
    name, _, rest = text.partition(" ")
    folded = name.lower().replace("_", "").replace("-", "")
    kinds = frozenset(
        kind for kind, prefix in PREFIXES.items() if prefix.lower().replace("_", "").replace("-", "") == folded
    )
    if folded in ("hccn", "hccntool"):
        kinds |= {"hccn-tool", "hccn-tool-950"}
    if folded == "mooncake":
        kinds |= {"mooncake-engine", "mooncake-store"}
    return (kinds, rest) if rest else (frozenset(), "")


def load() -> Codes:
    """Read codes.json; its columns are explained in its head."""
    data = table.ours("codes")
    sources: list[str] = data["sources"]
    return Codes(
        as_of=data["as_of"],
        rows=tuple(_code(kind, row, sources) for kind, rows in data["groups"].items() for row in rows),
    )


def _code(kind: str, row: list[Any], sources: list[str]) -> Code:
    code, symbol, component, meaning, places = row[:5]
    more = dict(row[5]) if len(row) > 5 else {}
    if "maps_to" in more:
        more["maps_to"] = tuple(more["maps_to"])
    named = tuple(sources[place] for place in places)
    return Code(code=code, kind=kind, component=component, symbol=symbol, meaning=meaning, sources=named, **more)
