"""Finds codes in the text of logs and messages; the words around a number choose among the components that share it.

A word such as EI0006 stands for itself. A number is a code only behind a label (`error code is`, `retCode=`, `errno[`,
`ret:`): pids, ports, sizes and steps have other labels. A small number needs a word of its component nearby besides.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from npudoctor import knowledge
from npudoctor.knowledge.tables.codes import EIGHT_HEX, Code
from npudoctor.records import record

_NUMBER = r"-?(?:0x[0-9A-Fa-f]{1,16}|\d{1,10})(?![\w%]|[.:]\d|-\d)"
_LABEL = (
    r"(?:[Ee]rr(?:or)?[ _]?(?:[Cc]ode|[Nn]o|[Nn]um(?:ber)?)?|Err(?:or)?Code|ERROR_CODE|ERRNO|InnerCode"
    r"|drv[ _]?[Rr]et(?:[Cc]ode)?"
    r"|[Rr]et(?:urn(?:ed)?)?[ _]?(?:[Cc]ode|[Vv]alue|[Vv]al)?|RetCode|hcclRet|rc|[Rr]esult|[Ss]tatus"
    r"|[Ff]ault[_ ]?[Cc]ode|(?:[Ee]xit |[Hh]ealth |[Ee]vent )?[Cc]odes?|[Ff]ailed|[Ff]ail)"
)
_JOINED = (
    r"(?:\s{0,3}(?:is|was|with|of)?\s{0,3}(?:->|[:=]|,(?= ret)){1,2}\s{0,3}[\[(]?|\s{0,2}[\[(]\s{0,2}"
    r"|\s(?:is|was|with)\s:?\s?)"
)
_LABELLED = re.compile(rf"(?<![A-Za-z])(?P<label>{_LABEL}){_JOINED}(?P<number>{_NUMBER})")
_LOOSE = re.compile(
    rf"(?<![A-Za-z])(?P<label>(?:[Ee]xit |error )?[Cc]ode|error|errno|ret(?:urned)?)\s(?P<number>{_NUMBER})"
)
_WORD = re.compile(
    r"\b(?:E[A-Z]\d{4,5}|[EW]\d{5}|W[A-Z]\d{4}|ERR\d{5}|MIE\d{2}[EWI][0-9A-F]{6})(?![0-9A-Za-z])"
    r"|\b(?:ACL_ERROR|ACLNN_ERR|RT_ERROR|TS_ERROR|DRV_ERROR|DCMI_ERR|HCCL_E|TSD_ERR|ADMI_ERR|AOE_|LLM_|UDA_|ErrorCode::)"
    r"[A-Z0-9_]{3,80}\b"
)
_PACKED = re.compile(r"errNo\[0x0{6,8}05(?P<sub>[0-9a-f]{2})(?P<number>[0-9a-f]{4})\]")
_BITS = r"(?:0x[0-9a-fA-F]{1,16}|0)"
_TUPLE = re.compile(rf"(?i:err(?:or)?[ _]?code)\s{{0,2}}[:=]?\s{{0,2}}(?P<words>\({_BITS}(?:, ?{_BITS}){{2}}\))")
_SWITCH = re.compile(r"\[0x[0-9a-fA-F]{8},\w{0,12},\w{0,8},\w{0,8}\]|(?<=alarmID=)0x[0-9a-fA-F]{8}")
_CQE = re.compile(r"(?i:cqe status)\W{1,3}(?P<number>0x[0-9a-fA-F]{1,4})\b")
_EIGHT = re.compile(r"\b0x[0-9A-Fa-f]{8}\b|(?<![\w-])[0-9A-F]{8}(?![\w-])")
_PUBLIC = re.compile(r"(?<![\w.-])\d{8,9}(?![\w.-])")
_FAULT = re.compile(r"(?i)fault|health|alarm|event|error ?code|exception code|\bnpu\b|hbm|device")
_BIG = 100_000
_AROUND = 200

_CUES: dict[str, re.Pattern[str]] = {
    "hccl-return": re.compile(r"hccl", re.IGNORECASE),
    "driver": re.compile(r"(?i)\bdrv|\bhal[A-Z]\w|driver|\bdevmm|\bhal "),
    "atb": re.compile(r"(?i)\batb\b|\batb[:_]"),
    "aoe": re.compile(r"(?i)\baoe"),
    "ascend-dmi": re.compile(r"(?i)ascend[- ]?dmi"),
    "mooncake-engine": re.compile(r"(?i)transfer[_ ]?engine|mooncake.{0,40}transfer|transfer_task"),
    "mooncake-store": re.compile(r"(?i)mooncake|master_client|client_service"),
    "hccn-tool": re.compile(r"(?i)hccn"),
    "hccn-tool-950": re.compile(r"(?i)hccn"),
    "mcu-health": re.compile(r"(?i)\bmcu\b|health"),
    "task-scheduler": re.compile(r"(?i:task|stream|\bts\b|rtsq)|, ?\[[a-z ]{2,60}\]"),
    "aicore-error": re.compile(r"(?i)ai ?core|aivec|core id|errcode|vector core|fixp|\bmte\b"),
    "server-bmc": re.compile(r"(?i)bmc|fault_?code"),
}
"""Words of the components whose numbers are small."""


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
    """The codes that a piece of a message names: by the words around them; where none is chosen, all of a number's."""
    chosen = [code for reading in codes_in(text) for code in reading.codes]
    if not chosen and (number := _LABELLED.search(text) or _LOOSE.search(text)):
        chosen = list(knowledge.codes().of_text(number["number"]))
    return tuple(dict.fromkeys(chosen))


def _readings(text: str) -> Iterator[Reading]:
    table = knowledge.codes()
    for match in _WORD.finditer(text):
        yield Reading(match.start(), match[0], table.of_text(match[0]))
    taken = [match.span("words") for match in _TUPLE.finditer(text)] + [m.span() for m in _SWITCH.finditer(text)]
    for match in _TUPLE.finditer(text):
        yield Reading(match.start("words"), match["words"], table.of_text(match["words"]))
    for match in _SWITCH.finditer(text):
        yield Reading(match.start(), match[0], table.of_text(match[0]))
    for match in _PACKED.finditer(text):
        yield Reading(match.start("number"), match["number"], table.of_text(f"HCCL {int(match['number'], 16)}"))
    for match in _CQE.finditer(text):
        yield Reading(match.start("number"), match["number"], table.of_text(f"CQE 0x{match['number'][2:].zfill(2)}"))
    for match in (*_LABELLED.finditer(text), *_LOOSE.finditer(text)):
        if any(begin <= match.start("number") < end for begin, end in taken):
            continue
        around = text[max(match.start() - _AROUND, 0) : match.end() + _AROUND]
        yield Reading(match.start("number"), match["number"], _choose_codes(match["number"], match["label"], around))
    for match in _EIGHT.finditer(text):
        if match[0][1] in "xX" or _FAULT.search(text, max(match.start() - _AROUND, 0), match.start() + _AROUND):
            codes = tuple(code for code in table.of_text(match[0]) if code.kind in EIGHT_HEX - {"server-bmc"})
            yield Reading(match.start(), match[0], codes)
    if "fault" in text or "Fault" in text:
        for match in _PUBLIC.finditer(text):
            codes = tuple(code for code in table.of_text(match[0]) if code.kind in ("public-fault", "dpu-fault"))
            yield Reading(match.start(), match[0], codes)


def _choose_codes(number: str, label: str, around: str) -> tuple[Code, ...]:
    """The codes of a number behind a label, as far as the words around it agree."""
    value = int(number, 0) if "x" in number else int(number)
    if value == 0:
        return ()
    table, name = knowledge.codes(), label.replace("_", "").replace(" ", "").lower()
    if name == "hcclret":
        return table.of_text(f"HCCL {value}")
    if name.startswith("drvret"):
        return tuple(code for code in table.of_text(number) if code.kind == "driver")
    found = table.of_text(number)
    if name in ("exitcode", "returncode", "returned") and 0 < value < 256:
        found += table.of_text(f"hccn_tool {value}")
    return tuple(code for code in found if _fits(code, number, name, around))


def _fits(code: Code, number: str, label: str, around: str) -> bool:
    """Whether the words around a number speak for a code of its value."""
    if code.kind == "dcmi":
        return number.startswith("-") or abs(int(number, 0)) >= _BIG
    cue = _CUES.get(code.kind)
    if cue is None:
        return code.value is None or abs(code.value) >= _BIG
    if code.kind == "task-scheduler" and not ("x" in number and label in ("retcode", "errorcode", "errcode")):
        return False
    if code.kind == "aicore-error" and "x" not in number:
        return False
    if code.kind == "server-bmc" and len(number) != 10:
        return False
    return cue.search(around) is not None
