"""The patterns searched in a log: symptoms of known issues, messages, codes, exceptions, and named culprits."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from enum import Enum
from functools import cache

from npudoctor import knowledge
from npudoctor.explain import chinese_messages, code_forms, endings, exceptions, limits
from npudoctor.explain.prefilter import Sieve, words_of
from npudoctor.knowledge import table
from npudoctor.knowledge.tables.errors import normalise, spelled_in
from npudoctor.records import record

_CODE = re.compile(r"(?:\\b)?(?:error code is )?(?:E[A-Z]\d{4}|ERR\d{5}|E\d{5}|\d{6}|0x[0-9A-F]{8})(?:\\b)?")
"""A symptom that is only a code: codes are searched anyway."""

_CODE_WORDS = (
    *(
        "ror Code",
        "etCode",
        "rorCode",
        "rrCode",
        "nnerCode",
        "rrcode",
        "rror code",
        "rr code",
        "rror_code",
        "drvRet",
        "drv ret",
    ),
    *("hcclRet -> ", "hcclResult", "cqe status", "HCCL_E_", "ErrorCode::", "hccn_tool", "HNS_ROCE_"),
    *(
        "_NOT_FOUND",
        "_EXISTS",
        "_FAIL",
        "_EXPIRED",
        "_TIMEOUT",
        "_MISMATCH",
        "_HANDLE",
        "REPLICA_",
        "_REPLICA",
        "OBJECT_",
    ),
    *("INVALID_", "ETCD_", "OPLOG_", "LEASE_", "TENANT_", "_LIMIT", "ILLEGAL_CLIENT", "_OVERFLOW", "UNAVAILABLE_IN_"),
    *("UNABLE_OFFLOAD", "DFS_", "SOCK_E", "OTHERS_E", "ROCE_E", "HCCP_E"),
    *("fault code", "fault_code", "faultCode", "FaultCode", "Fault code", "ealth code", "xception code", "xit code"),
)


def _behind(sign: str) -> str:
    """The number behind a label of codes and a sign, without the sign itself."""
    labels = ("ret", "ret ", "esult", "esult ", "tatus", "tatus ", "rror", "rrno", "rrorNo", "rc", "err")
    return f"(?:{'|'.join(f'(?<={label}{sign})' for label in labels)})" r" ?-?(?:0x[\da-fA-F]|\d)"


_CODE_FORMS = (
    ("E", r"[A-Z]\d{4}|RR(?:OR)?_[A-Z]{2}|RR\d{5}|\d{5}|\d[A-F]\d{3}"),
    ("C", r"[\dBF][\dA-F]{4}"),
    ("M", r"IE\d\d[EWI]"),
    ("I", r"D(?:=0x|\":\")[\dA-Fa-f]{8}\b"),
    ("N", r"o\[0x0{6}"),
    ("[", r"(?<=[rR][nN]o\[)\d|(?<=[Rr]et\[)\d|(?<=[Rr]et \[)\d|(?<=ault \[)\d{8}"),
    ("=", _behind("=")),
    (":", _behind(":")),
    ("-", r"(?<=[ =:\[(]-)[89]\d{3,4}\b"),
    ("W", r"[A-Z\d]\d{4}\b"),
    ("0x", r"[024689AaBb][\dA-Fa-f]{7}\b|7[0-2][\dA-Fa-f]{5}\b"),
    (",", r" (?:runtime )?(?:ret(?:\[| is| ?=|:| -?\d)|result =)"),
    (".", r" ret is"),
    ("U", r"DA_[A-Z]{3}"),
    ("F", r"ault(?: id:)? \[?\d{8}"),
)
_MAYBE_CODE = re.compile(
    r"E[A-Z]?R?\d{4}|[\dA-Fa-f]{8}|[Cc]ode|[Rr]et|esult|failed|hcclRet|MIE\d|W[A-Z\d]\d{4}|rrno|rrNo|err|tatus|rror"
    r"|[A-Z]_[A-Z]|[Ff]ault|alarmID|0x|rc=|UDA_"
)
_MEANINGS = 3
"""The most meanings of one number that a log lists."""

_FORM_WORDS = (
    *("code is ", "code=", "code:", "code [", "code =", "code :", "code(", "code (", "code["),
    *("failed: ", "faults id", "fault id", "faults: ", "fault: "),
    *("urned -", *(f"{before} {digit}" for before in ("urned", "fault", "faults") for digit in range(10))),
)
"""The beginnings of forms of codes that are words."""

_BLAME = (
    re.compile(r"Cluster Exception Location\[IP/ID\]:\s?\[([^\]]{1,300})\]"),
    re.compile(r"Failed to connect agent\[([\d,]+)\]"),
    re.compile(r"fails to connect to dstRank \(([^)]{1,300})\)"),
    re.compile(r"[Nn]otify\b.{0,600}\bremote rank ?:? ?\[(\d{1,6})\]"),
    re.compile(r"\bcrimer rank ?\[([^\]]{1,60})\]"),
)
_SIZE = r"[\d.]{1,20} ?(?:bytes|[KMGT]?i?B)"
_MEMORY = (
    re.compile(
        rf"(?:Tried to allocate (?P<wanted>{_SIZE}).{{0,40}}?)?(?P<total>{_SIZE}) total capacity"
        rf"(?:[;,] (?P<allocated>{_SIZE}) already allocated)?.{{0,80}}?(?P<free>{_SIZE}) free"
        rf".{{0,40}}?(?P<own>{_SIZE}) reserved"
    ),
    re.compile(
        rf"(?:Tried to allocate (?P<wanted>{_SIZE}).{{0,40}}?)?total capacity of (?P<total>{_SIZE}) of which "
        rf"(?P<free>{_SIZE}) is free.{{0,300}}?this process has (?P<own>{_SIZE}) memory in use"
    ),
    re.compile(
        rf"(?:Tried to allocate (?P<wanted>{_SIZE}).{{0,40}}?)?total capacity of (?P<total>{_SIZE}) of which "
        rf"(?P<free>{_SIZE}) is free.{{0,300}}?(?P<active>{_SIZE}) is allocated by PyTorch"
        rf"(?:.{{0,40}}?(?P<idle>{_SIZE}) is reserved)?"
    ),
    re.compile(
        rf"(?P<total>{_SIZE}) total(?: capacity)?[;,] (?P<own>{_SIZE}) already allocated"
        rf".{{0,40}}?(?P<free>{_SIZE}) free"
    ),
    re.compile(r"Free memory on device[^(]{0,40}\((?P<free>[\d.]{1,20})/(?P<total>[\d.]{1,20}) GiB\) on startup"),
)
MEMORY_PATTERNS = frozenset(pattern.pattern for pattern in _MEMORY)
"""The expressions of the messages that say in numbers who holds the memory of a device."""

_NEEDED = (
    re.compile(r"NEEDED_(?P<variable>HCCL_BUFFSIZE).{0,400}?= ?(?P<needed>\d{1,6}) ?MB"),
    re.compile(
        r"(?P<variable>HCCL_BUFFSIZE)\b.{0,80}?(?:at least|needs?|requires?|(?:should|must) be)\D{1,30}"
        r"(?P<needed>\d{1,6}) ?M"
    ),
)
"""The size in MB that a message asks for: moe_distribute_dispatch tiling of the operator library."""

_MEMORY_WORDS = ("total capacity", "B total; ", "Free memory on device")
_BLAME_WORDS = (
    *("Cluster Exception Location", "Failed to connect agent", "fails to connect to dstRank", "remote rank"),
    "crimer rank",
)
_ROOT_CAUSE = "Root Cause (first observed failure)"


class Kind(str, Enum):
    """The kind of a match; BLAME is a culprit named by the log itself."""

    SYMPTOM = "symptom"
    HINT = "hint"
    CODE = "code"
    MESSAGE = "message"
    EXCEPTION = "exception"
    MEMORY = "memory"
    LIMIT = "limit"
    BLAME = "blame"
    ROOT_CAUSE = "root-cause"
    STOP = "stop"
    ENDING = "ending"


@record(frozen=True)
class Found:
    """One thing in a line: `what` is a known issue's id, a code, a message, an exception; `by` the pattern; where.

    `values` are the named groups of the pattern, as the line spells them.
    """

    kind: Kind
    what: str
    by: str
    start: int
    values: tuple[tuple[str, str], ...] = ()


@record(frozen=True)
class _Phrase:
    kind: Kind
    what: str
    expression: str
    words: tuple[str, ...]


class Sought:
    """All patterns."""

    def __init__(self) -> None:
        self._phrases: dict[str, list[_Phrase]] = {}
        for phrase in _phrases():
            for word in phrase.words:
                self._phrases.setdefault(word, []).append(phrase)
        words = (
            *self._phrases,
            *_CODE_WORDS,
            *_FORM_WORDS,
            *_BLAME_WORDS,
            *_MEMORY_WORDS,
            *limits.WORDS,
            *endings.WORDS,
            "Error: ",
            "Exception: ",
            "AssertionError",
            *exceptions.CRASH_WORDS,
            _ROOT_CAUSE,
            *chinese_messages.ENGLISH,
            chinese_messages.UNDEFINED,
        )
        self.sieve = Sieve(words, _CODE_FORMS)
        """A prefilter that passes every line in which `find` could match."""

    def find(self, line: str) -> list[Found]:
        """All matches in a line; the place of one in a line that has Chinese messages is near it."""
        line = chinese_messages.in_english(line)
        return list(
            dict.fromkeys(
                [
                    *_codes(line),
                    *self._matches(line),
                    *_raised_errors(line),
                    *_culprits(line),
                    *_memory(line),
                    *_limits(line),
                    *_stops(line),
                ]
            )
        )

    def _matches(self, line: str) -> Iterator[Found]:
        for word in self.sieve.words_in(line.encode()):
            for phrase in self._phrases.get(word.decode(), ()):
                if match := _compile(phrase.expression).search(line):
                    values = _values(match) or _needed_values(line)
                    yield Found(phrase.kind, phrase.what, phrase.expression, match.start(), values)


def expressions() -> Iterator[tuple[Kind, str, str]]:
    """The expressions that are searched by words: what each is, what it shows, and the expression."""
    for pitfall in knowledge.pitfalls().rows:
        for kind, each in ((Kind.SYMPTOM, (*pitfall.symptoms, *pitfall.general)), (Kind.HINT, pitfall.hints)):
            yield from ((kind, pitfall.id, one) for one in each if not _CODE.fullmatch(one))
    for message in knowledge.errors().texts:
        yield Kind.MESSAGE, message.text, re.escape(message.text)


def _phrases() -> Iterator[_Phrase]:
    for kind, what, expression in expressions():
        words = _words().get(key_of(expression)) or words_of(expression)
        assert words, f"{what}: {expression!r} contains no word for the prefilter"
        yield _Phrase(kind, what, expression, tuple(sorted(words)))


@cache
def _compile(expression: str) -> re.Pattern[str]:
    """Most logs contain the words of a few patterns only: the others are never compiled."""
    return re.compile(expression)


@cache
def _words() -> dict[str, list[str]]:
    """The words of the expressions that this release knows: to parse all of them takes 0.2 s at each start."""
    words: dict[str, list[str]] = table.ours("words")["words"]
    return words


def key_of(expression: str) -> str:
    """The key of an expression in tables/words.json, which `python -m tools.pages` makes."""
    return f"{zlib.crc32(expression.encode()):08x}"


def _codes(line: str) -> Iterator[Found]:
    if not _MAYBE_CODE.search(line):
        return
    places = set()
    for start, spelled in spelled_in(line):
        if _is_known_code(spelled):
            places.add(start)
            yield Found(Kind.CODE, normalise(spelled), normalise(spelled), start)
    for reading in code_forms.codes_in(line):
        for code in reading.codes[:_MEANINGS] if reading.start not in places else ():
            yield Found(Kind.CODE, code.id, code.id, reading.start)


def _raised_errors(line: str) -> Iterator[Found]:
    if raised := exceptions.exception_in(line):
        yield Found(Kind.EXCEPTION, raised.what, raised.name, raised.start)


def _culprits(line: str) -> Iterator[Found]:
    for pattern in _BLAME:
        if blame := pattern.search(line):
            rank = "rank " if "remote rank" in blame[0] else ""
            yield Found(Kind.BLAME, rank + blame[1].strip(","), pattern.pattern, blame.start())
    if (start := line.find(_ROOT_CAUSE)) >= 0:
        yield Found(Kind.ROOT_CAUSE, _ROOT_CAUSE, _ROOT_CAUSE, start)


def _memory(line: str) -> Iterator[Found]:
    if any(word in line for word in _MEMORY_WORDS):
        match = next(filter(None, (pattern.search(line) for pattern in _MEMORY)), None)
        if match:
            yield Found(Kind.MEMORY, "out of device memory", match.re.pattern, match.start(), _values(match))


def _limits(line: str) -> Iterator[Found]:
    for pattern, said, start in limits.limits_in(line):
        yield Found(Kind.LIMIT, said, pattern, start)


def _stops(line: str) -> Iterator[Found]:
    for pattern, by, start in endings.stops_in(line):
        yield Found(Kind.STOP, by, pattern, start)


def _needed_values(line: str) -> tuple[tuple[str, str], ...]:
    match = next(filter(None, (pattern.search(line) for pattern in _NEEDED)), None) if "BUFFSIZE" in line else None
    return _values(match) if match else ()


def _values(match: re.Match[str]) -> tuple[tuple[str, str], ...]:
    return tuple((name, value) for name, value in match.groupdict().items() if value is not None)


def _is_known_code(spelled: str) -> bool:
    """Whether a text with the form of a code is known, or of a known family."""
    errors = knowledge.errors()
    return errors.code(spelled) is not None or (spelled.isupper() and errors.family(spelled) is not None)
