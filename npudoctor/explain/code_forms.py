"""Finds codes in the text of logs and messages; the words around a number choose among the components that share it.

A word such as EI0006 stands for itself. A number is a code only behind a label (`error code is`, `retCode=`, `errno[`,
`ret:`): pids, ports, sizes and steps have other labels. A small number needs a word of its component nearby besides;
code_words holds those words, and what tells a code from a quantity. A fault of eight digits needs a word of faults.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from npudoctor import knowledge
from npudoctor.explain import code_words
from npudoctor.knowledge.tables.codes import EIGHT_HEX, Code, is_numbered
from npudoctor.records import record

_NUMBER = r"-?(?:0x[0-9A-Fa-f]{1,16}|\d{1,10})(?![\w%]|[.:]\d|-\d)"
_LABEL = (
    r"(?:[Ee]rr(?:or)?[ _]?(?:[Cc]ode|[Nn]o|[Nn]um(?:ber)?)?|Err(?:or)?Code|ERROR_CODE|ERRNO|InnerCode"
    r"|drv[ _]?[Rr]et(?:[Cc]ode)?"
    r"|[Rr]et(?:urn(?:ed)?)?[ _]?(?:[Cc]ode|[Vv]alue|[Vv]al)?|RetCode|hccl(?:Ret|Result)|rc|[Rr]esult|[Ss]tatus"
    r"|[Ff]ault[_ ]?[Cc]ode|(?:[Ee]xit |[Hh]ealth |[Ee]vent )?[Cc]odes?|[Ff]ailed|[Ff]ail)"
)
_JOINED = (
    r"(?:\s{0,3}(?:is|was|with|of)?\s{0,3}(?:->|[:=]|,(?= ret)){1,2}\s{0,3}[\[(]?|\s{0,2}[\[(]\s{0,2}"
    r"|\s(?:is|was|with)\s:?\s?)"
)
_LABELLED = re.compile(rf"(?<![A-Za-z])(?P<label>{_LABEL}){_JOINED}(?P<number>{_NUMBER})")
_LOOSE = re.compile(
    r"(?<![A-Za-z])(?P<label>(?:[Ee]xit |error |ret(?:urn)? |[Ff]ault[_ ])?[Cc]ode|[Ee]rr(?:or)?[Cc]ode|error|errno"
    rf"|ret(?:urned)?|hccl(?:Ret|Result))\s(?P<number>{_NUMBER})"
)
_WORD = re.compile(
    r"\b(?:E[A-Z]\d{4,5}|[EW]\d{5}|W[A-Z]\d{4}|ERR\d{5}|MIE\d{2}[EWI][0-9A-F]{6})(?![0-9A-Za-z])"
    r"|\b(?:ACL_ERROR|ACLNN_ERR|RT_ERROR|TS_ERROR|DRV_ERROR|DCMI_ERR|HCCL_E|TSD_ERR|ADMI_ERR|AOE_|LLM_|UDA_|ErrorCode::)"
    r"[A-Z0-9_]{3,80}\b"
)
_SYMBOL = re.compile(r"\b[A-Z][A-Z0-9]{1,30}(?:_[A-Z0-9]{1,30}){1,8}\b")
_PACKED = re.compile(r"errNo\[0x0{6,8}05(?P<sub>[0-9A-Fa-f]{2})(?P<number>[0-9A-Fa-f]{4})\]")
_BITS = r"(?:0x[0-9a-fA-F]{1,16}|0)"
_TUPLE = re.compile(rf"(?i:err(?:or)?[ _]?code)\s{{0,2}}[:=]?\s{{0,2}}(?P<words>\({_BITS}(?:, ?{_BITS}){{2}}\))")
_SWITCH = re.compile(r"\[0x[0-9a-fA-F]{8},\w{0,12},\w{0,8},\w{0,8}\]|(?<=alarmID=)0x[0-9a-fA-F]{8}")
_CQE_STATUS = re.compile(r"(?i:cqe status)\W{1,3}\d{1,4}\b(?!x)")
"""The status of a RoCE completion, a decimal number: no result of HCCL."""
_CQE = re.compile(r"(?i:cqe status)\W{1,3}(?P<number>0x[0-9a-fA-F]{1,4})\b")
_EIGHT = re.compile(
    r"\b0x[0-9A-Fa-f]{8}\b|(?<![\w-])[0-9A-F]{8}(?![\w.-])"
    r"|(?:(?<=ode : )|(?<=ode: )|(?<=ode )|(?<=ode=)|(?<=ode\[))[0-9a-f]{8}(?![\w.-])"
)
_FAULTS = (
    r"(?<![a-z])(?<![Nn]o )(?<!page )[Ff]aults?(?![a-z])(?![- _]?(?:toler|free|inject|handle|domain|count|[:=]? ?0\b))"
)
_FAULT = re.compile(
    rf"{_FAULTS}|[a-z]Faults?\b|(?i:health(?!y|z| ?(?:checks?|probe|ok|status|endpoint|route|server)\b)"
    r"|alarm(?! (?:timer|clock|threshold|history|count)|s?[:=]? ?0\b)|abnormal(?!ly)"
    r"|event[ _]?id(?=\s?[=:]\W{0,4}0x[\da-f]{8}\b)"
    r"|severity\W{1,4}(?!none|ok|normal)\w|(?:err(?:or)?|exception)[ _]?code(?! (?!is)[a-z]))"
)
_OVER = re.compile(r"(?i:\bassertion\W{1,3}(?:0\b|recover)|\bseverity\W{1,3}(?:0|ok)\b|\brecovered\b)")
"""What an event says of itself that reports that a fault is over, or none."""

_ADDRESS = re.compile(
    r"(?i)(?:ptr|pointer|addr(?:ess)?|mem(?:ory)?|buf(?:fer)?|hash|sha\d{0,3}|commit|crc\w{0,3}|checksum|handle|offset|base"
    r"|key|seed|tag|magic|mask|colou?r|uuid|version|build|register|kernel|ctx|context|\bat|\b(?:va|pa|pc|sp|lr)"
    r"|(?:request|task|stream|session|trace|user|model|op|build)[ _]?id)\W{0,4}$"
)
"""What has a number of eight digits that is no fault, right before it."""

_BMC = re.compile(r"(?i:fault[_ ]?code)\W{1,6}(?P<number>[0-9A-F]{8})(?![\w.-])")
_PUBLIC = re.compile(
    rf"(?:{_FAULTS}|(?<=[a-z])Faults?)(?:[ _]?(?:[Cc]ode|[Ii][Dd])s?)?\W{{1,6}}"
    r"(?P<numbers>(?:\d{8,9}['\", ]{1,4}){0,40}\d{8,9})(?![\w.-])"
)
_AROUND = 200


@record(frozen=True)
class Reading:
    """Codes that a place of a text can mean: where it begins, as it is spelled there, and the codes."""

    start: int
    spelled: str
    codes: tuple[Code, ...]


def codes_in(text: str) -> tuple[Reading, ...]:
    """The known codes that a text spells, each place once, in the order of the text."""
    found: dict[int, Reading] = {}
    for reading in _readings(text):
        if reading.codes:
            found.setdefault(reading.start, reading)
    return tuple(found[start] for start in sorted(found))


def meanings(text: str) -> tuple[Code, ...]:
    """The codes that a piece of a message names: by the words around them; where none is chosen, all of a number's.

    Where the words name a component, a number that it does not have is unknown.
    """
    chosen = [code for reading in codes_in(text) for code in reading.codes]
    number = None if chosen else _number_in(text)
    if number:
        named = code_words.named_in(text)
        chosen = [code for code in knowledge.codes().of_text(number) if not named or code.kind in named[1]]
    return tuple(dict.fromkeys(chosen))


def unknown_in(text: str) -> tuple[str, str | None] | None:
    """The unknown number behind a label of a text, and the components that the text names, if any; None without one."""
    number, named = _number_in(text), code_words.named_in(text)
    if not number or meanings(text):
        return None
    big = abs(int(number, 0) if "x" in number else int(number)) >= code_words.BIG
    return (number, named[0] if named else None) if named or big else None


def _number_in(text: str) -> str | None:
    found = _LABELLED.search(text) or _LOOSE.search(text)
    return found["number"] if found and not code_words.is_counted(text[found.end() :]) else None


def _readings(text: str) -> Iterator[Reading]:
    table = knowledge.codes()
    for match in _WORD.finditer(text):
        yield Reading(match.start(), match[0], table.of_text(match[0]))
    for match in _SYMBOL.finditer(text):
        yield Reading(match.start(), match[0], _codes_of_symbol(match[0], text))
    taken = [match.span("words") for match in _TUPLE.finditer(text)] + [m.span() for m in _SWITCH.finditer(text)]
    for match in _TUPLE.finditer(text):
        yield Reading(match.start("words"), match["words"], table.of_text(match["words"]))
    for match in _SWITCH.finditer(text):
        yield Reading(match.start(), match[0], table.of_text(match[0]))
    for match in _PACKED.finditer(text):
        yield Reading(match.start("number"), match["number"], table.of_text(f"HCCL {int(match['number'], 16)}"))
    taken += [match.span() for match in _CQE_STATUS.finditer(text)]
    for match in _CQE.finditer(text):
        yield Reading(match.start("number"), match["number"], table.of_text(f"CQE 0x{match['number'][2:].zfill(2)}"))
    for match in (*_LABELLED.finditer(text), *_LOOSE.finditer(text)):
        if not any(begin <= match.start("number") < end for begin, end in taken):
            yield Reading(match.start("number"), match["number"], _choose_codes(match, text))
    yield from _faults(text)


def _faults(text: str) -> Iterator[Reading]:
    """The faults of eight and nine digits."""
    table = knowledge.codes()
    for match in _EIGHT.finditer(text):
        before = text[max(match.start() - _AROUND, 0) : match.start()]
        around = before + text[match.start() : match.end() + _AROUND]
        if _ADDRESS.search(before) or _OVER.search(around) or not _FAULT.search(around):
            continue
        codes = tuple(code for code in table.of_text(match[0]) if code.kind in EIGHT_HEX - {"server-bmc"})
        yield Reading(match.start(), match[0], codes)
    if "ault" not in text:
        return
    for match in _BMC.finditer(text):
        codes = tuple(code for code in table.of_text(f"0x{match['number']}") if code.kind == "server-bmc")
        yield Reading(match.start("number"), match["number"], codes)
    for match in _PUBLIC.finditer(text):
        for each in re.finditer(r"\d+", match["numbers"]) if not code_words.is_counted(text[match.end() :]) else ():
            codes = tuple(code for code in table.of_text(each[0]) if code.kind in ("public-fault", "dpu-fault"))
            yield Reading(match.start("numbers") + each.start(), each[0], codes)


def _codes_of_symbol(symbol: str, text: str) -> tuple[Code, ...]:
    """The codes of a symbol that other programs may print too, where the text names the component."""
    cues = code_words.SYMBOL_CUES
    found = knowledge.codes().of_symbol(symbol)
    return tuple(code for code in found if code.kind in cues and cues[code.kind].search(text))


def _choose_codes(match: re.Match[str], text: str) -> tuple[Code, ...]:
    """The codes of a number behind a label, as far as the words around it agree."""
    number = match["number"]
    value = int(number, 0) if "x" in number else int(number)
    if value == 0:
        return ()
    table, label = knowledge.codes(), match["label"].replace("_", "").replace(" ", "").lower()
    if label in ("hcclret", "hcclresult"):
        return table.of_text(f"HCCL {value}")
    found = table.of_text(number)
    if label == "errno":  # of Linux
        found = tuple(code for code in found if code.kind != "driver")
    if label.startswith("drvret"):
        return tuple(code for code in found if code.kind == "driver")
    if label in ("exitcode", "returncode", "returned") and 0 < value < 256:
        found += table.of_text(f"hccn_tool {value}")
    before = text[max(match.start() - _AROUND, 0) : match.start()]
    after = text[match.end() : match.end() + _AROUND]
    if "x" in number and not (found and value >= code_words.BIG) and not is_numbered(number[2:].lstrip("0")):
        found += table.bits([value])
    fitting = [code for code in dict.fromkeys(found) if code_words.is_code(code, number, label, before, after)]
    named = [code for code in fitting if code.kind in code_words.CUES]
    return tuple(named if abs(value) >= code_words.BIG and named else fitting)
