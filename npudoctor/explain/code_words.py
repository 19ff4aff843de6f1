"""The words around a number that tell a code from a quantity, and one component from another.

A label such as `error code` announces a code by itself. `result`, `status` and `code` are printed in normal work as
well: behind them a number is a code only where the text reports a failure, or where the label belongs to the component
itself (`atb status=22`). A number before a unit or a noun that is counted is a quantity behind any label.
"""

from __future__ import annotations

import re

from npudoctor.knowledge.tables.codes import Code

BIG = 100_000
"""From here on a number usually belongs to one component alone."""

_FUNCTION = (
    r"(?:is|was|has|as|at|in|on|from|for|when|while|during|by|and|or|with|because|due|returned|after|before|which|that"
    r"|see|this|its|does|fails|occurs|means|indicates|asserted|assertion|recovered|reported|raised)\b"
)
_COUNTED = re.compile(
    r"\s{0,2}(?:/\s?\d|(?:out )?of (?:the )?\d|[<>]=? ?\w|px\b|\]\s?=(?!=)|\]\.[a-z]"
    r"|(?:at|in) (?:step|epoch|iter)|[A-Za-z]{1,8}/s\b"
    r"|%|(?:[KMGTkm]i?B|B|[kKMG]?b(?:yte|it)?|[munµ]?s|sec|min|h|ppm|[KMG]?Hz|T?FLOPS|[MG]bps|W|V|A)\b(?!\()"
    rf"|(?!{_FUNCTION})(?:[a-z]{{2,20}} (?!{_FUNCTION}))?[a-z]{{1,20}}[a-rtv-z]s\b(?![(=])"
    r"|(?:total|ok|done|ready|left|passed|waiting|written|read)\b)"
)
_OF = re.compile(r"\s(?:out )?of\b")
"""Behind a number with a label: `error code: 22 of curl`."""

_ENDED = re.compile(rf"\s{{0,3}}(?:$|[.,;!)\]\[({{}}'\"|<>&\\\n]|{_FUNCTION}(?! (?:step|epoch|iter)))")

_WEAK = frozenset({"result", "status", "code", "codes", "returned"})
"""Labels, without case and spaces, that are printed in normal work as well."""

_COMPLAINT = re.compile(
    r"(?<!^0 )(?<![,;:=(] 0 )(?<!\band 0 )(?<!\bno )(?<!without )"
    r"(?i:\bfail(?:ed|ure|s|ing)?\b(?!\s?[:=]?\s?0\b| over\b| rat(?:e|io)| \d{1,9} times)"
    r"|(?<![A-Za-z])err(?:or)?\b(?![ _-]?(?:rate|count|bar|budget|free|corre))(?!\s?[:=]\s?0\b)"
    r"|exception|\bunable\b|\bcannot\b|\binvalid\b|\babort|\bfatal\b|\balarm|(?<![a-z])fault\b|\babnormal)"
    r"|[a-z]Err(?:or)?\b|\b[EWF]\d{4,8} \d\d:"
)
_MEASURED = re.compile(
    r"(?i)(?<![a-z])(?:loss|[cw]er|word|char(?:acter)?|pixel|mean|m[sa]e|rms\w{0,3}|squared?s?|sum|total|max(?:imum)?|min(?:imum)?|abs(?:olute)?"
    r"|rel(?:ative)?|train(?:ing)?|valid\w{0,6}|val|eval\w{0,6}|test|quanti[sz]ation|rounding|numeric\w{0,3}|prediction"
    r"|reprojection|reconstruction|regression|average|avg|epoch)[ _]$"
)
"""Words before `error` where it is a measure and no failure."""

_OF_SUBJECT = re.compile(r"(?:[^\Ws]|ss|us|[Oo]ps|\)) $")
"""A subject in the singular before `failed`, so that the number behind it is no count."""

_SURE = re.compile(r"err(?:or)?(?:code|no|num(?:ber)?)|innercode|retcode|faultcode|drvret(?:code)?")
"""Labels behind which a large number is never a quantity."""

_NAMED_BEFORE = re.compile(r"(?:[\])]|\.\w{1,8}:\d{1,6}\]?|\s-{1,2}\w{1,10})?[:,\s]{0,2}$")

CUES: dict[str, re.Pattern[str]] = {
    "hccl-return": re.compile(r"hccl", re.IGNORECASE),
    "driver": re.compile(r"(?i)\bdrv|\bhal[A-Z]\w|driver|\bdevmm|\bhal "),
    "atb": re.compile(
        r"(?i:\batb\b|\batb[:_]|\boperation_base)"
        r"|[A-Z]\w{1,60}(?:Operation|Runner)(?:_\d{1,6})*\]?:? (?i:setup|execute|infer ?shape|prepare)"
    ),
    "aoe": re.compile(r"(?i)\baoe"),
    "ascend-dmi": re.compile(r"(?i)ascend[- ]?dmi"),
    "mooncake-engine": re.compile(r"(?i)transfer[_ ]?engine|mooncake.{0,40}transfer|transfer_task"),
    "mooncake-store": re.compile(r"(?i)mooncake(?!.{0,40}transfer)|mooncake.{0,20}store|master_client|client_service"),
    "hccn-tool": re.compile(r"(?i)hccn"),
    "hccn-tool-950": re.compile(r"(?i)hccn"),
    "mcu-health": re.compile(r"(?i)\bmcu\b|health"),
    "task-scheduler": re.compile(r"(?i:task|stream|\bts\b|rtsq)|, ?\[[a-z ]{2,60}\]"),
    "aicore-error": re.compile(r"(?i)ai ?core|aivec|core ?id|errcode|vector core|fixp|\bmte\b"),
    "server-bmc": re.compile(r"(?i)bmc|fault_?code"),
    "rdma-cqe": re.compile(r"(?i)\bcqe\b"),
}
"""Words of the components whose numbers are small."""

_OWN_STATUS = frozenset({"atb", "aoe", "ascend-dmi", "hccn-tool", "hccn-tool-950"})
"""Components with small numbers whose `status` is a code right behind their name, as it is of those without."""

_OWN_STATUS_CUE = re.compile(
    r"(?i:\batb|\baoe|ascend[- ]?dmi|hccn(?:[_ ]tool)?|\bhccp|\bra_\w{2,40}|\bacl\b|\bruntime)"
    r"|\b(?:Ra|rt|aclrt|aclnn|aclop|acl|ge)[A-Z]\w{2,60}(?:\([^)]{0,80}\))?"
)

_GRAPH_ENGINE = re.compile(r"\bGE\b|\bge::|(?i:graph ?engine)")
_API = frozenset({"acl", "acl-runtime", "acl-rtc", "aclnn", "ge", "dvpp", "runtime-internal"})
_NAMES: tuple[tuple[re.Pattern[str], str, frozenset[str]], ...] = (
    (CUES["hccl-return"], "HCCL", frozenset({"hccl-return"})),
    (re.compile(r"(?i)\bdrv|\bhal[A-Z]\w|\bdriver\b"), "the driver", frozenset({"driver"})),
    (CUES["atb"], "ATB", frozenset({"atb"})),
    (CUES["aoe"], "AOE", frozenset({"aoe"})),
    (CUES["ascend-dmi"], "Ascend DMI", frozenset({"ascend-dmi"})),
    (
        re.compile(r"(?i)mooncake|transfer[_ ]?engine"),
        "Mooncake",
        frozenset({"mooncake-engine", "mooncake-store", "transport"}),
    ),
    (CUES["hccn-tool"], "hccn_tool", frozenset({"hccn-tool", "hccn-tool-950"})),
    (re.compile(r"(?i)\bmcu\b"), "the board controller", frozenset({"mcu-health"})),
    (re.compile(r"(?i)\bi?bmc\b"), "the BMC", frozenset({"server-bmc"})),
    (re.compile(r"(?i)\bdcmi|\bdsmi"), "DCMI", frozenset({"dcmi"})),
    (CUES["rdma-cqe"], "RoCE completions", frozenset({"rdma-cqe"})),
    (_GRAPH_ENGINE, "the graph engine", frozenset({"ge"})),
    (re.compile(r"(?i)\bhccp\b"), "HCCP", frozenset({"hccp"})),
    (re.compile(r"0x\w{1,4}, ?\[[a-z ]{2,60}\]|(?i:rtsq|task scheduler)"), "TS", frozenset({"task-scheduler"})),
    (re.compile(r"(?i)ai ?core|aivec|core ?id"), "the AI Core", frozenset({"aicore-error", "task-scheduler"})),
    (re.compile(r"\b(?:aclrt|aclnn|aclop|acl|rt)[A-Z]\w|(?i:\bacl\b)"), "acl and runtime", _API),
)
"""Words that name a component, how it is called in a sentence, and the kinds of its codes."""

SYMBOL_CUES: dict[str, re.Pattern[str]] = {
    **{kind: CUES[kind] for kind in ("atb", "mooncake-engine", "hccn-tool-950", "driver")},
    "mooncake-store": re.compile(r"(?i)mooncake|master_client|client_service"),
    "hccp": re.compile(r"(?i)hccp|\bra_|\brs_"),
    "dcmi": re.compile(r"(?i)dcmi"),
    "rdma-cqe": re.compile(r"HNS_ROCE"),
    "transport": re.compile(r"(?i)adxl|hixl|llm_?datadist"),
    "ge": _GRAPH_ENGINE,
}
"""Words of the components whose symbols other programs print as well."""


def is_code(code: Code, number: str, label: str, before: str, after: str) -> bool:
    """Whether the words around a number speak for a code of its value.

    `label` is the label in lower case without spaces; `before` ends where it begins, `after` begins behind the number.
    """
    printed = abs(int(number, 0) if "x" in number else int(number))
    if code.kind == "dcmi":
        return (number.startswith("-") or printed >= BIG) and not is_counted(after)
    if not (printed >= BIG and _SURE.fullmatch(label)) and is_counted(after):
        return False
    if (printed < BIG and _OF.match(after)) or not _is_announced(code, label, before, after):
        return False
    cue = CUES.get(code.kind)
    if cue is None:
        return printed >= BIG or (code.kind == "ge" and _GRAPH_ENGINE.search(before) is not None)
    if code.kind == "task-scheduler" and not ("x" in number and label in ("retcode", "errorcode", "errcode")):
        return False
    if code.kind == "aicore-error" and not ("x" in number and label in ("errorcode", "errcode")):
        return False
    if code.kind in ("ascend-dmi", "rdma-cqe") and "x" not in number:
        return False
    if code.kind == "server-bmc" and len(number) != 10:
        return False
    return cue.search(f"{before} {label} {number}{after}") is not None


def is_counted(after: str) -> bool:
    """Whether a text that begins behind a number makes it a quantity."""
    return _COUNTED.match(after) is not None


def _is_announced(code: Code, label: str, before: str, after: str) -> bool:
    """Whether a label announces a code at this place."""
    if label == "exitcode":
        return code.kind.startswith("hccn")
    if label in ("error", "err"):
        return _MEASURED.search(before) is None
    if label in ("failed", "fail"):
        return _OF_SUBJECT.search(before) is not None
    if label not in _WEAK and not (label == "rc" and code.kind not in CUES):
        return True
    if not _ENDED.match(after):
        return False
    return _COMPLAINT.search(before) is not None or _COMPLAINT.search(after) is not None or _is_own(code, before)


def _is_own(code: Code, before: str) -> bool:
    """Whether a label stands right behind the name of the component."""
    if code.kind in CUES and code.kind not in _OWN_STATUS:
        return False
    named = [match.end() for match in _OWN_STATUS_CUE.finditer(before)]
    return bool(named) and _NAMED_BEFORE.fullmatch(before, named[-1]) is not None


def named_in(text: str) -> tuple[str, frozenset[str]] | None:
    """The components that the words of a text name, as a sentence calls them, and the kinds of their codes."""
    named = [(name, kinds) for cue, name, kinds in _NAMES if cue.search(text)]
    if not named:
        return None
    return " or ".join(name for name, _ in named), frozenset().union(*(kinds for _, kinds in named))
