"""What npu-smi prints instead of an answer, and the cause that it stands for."""

from __future__ import annotations

import re
from collections.abc import Sequence

from npudoctor.facts.cells import lines_of, refusal
from npudoctor.records import record
from npudoctor.sdk import ParseError

_LONGEST = 1 << 16
_RET = r"(?i)\b(?:ret|err)(?:\s+is|\s*[=:])\s*(-?(?:0|[1-9][0-9]{0,8}))(?![0-9])"
_BY_TEXT = (
    (r"because the device is used", "device_occupied"),
    (r"get board type failed", "board_type_unavailable"),
    (r"^\s*Invalid (card|chip|device|npu|phy) ?id\b|^\s*There is no NPU (card|chip)", "card_not_found"),
    (r"error while loading shared libraries|cannot open shared object file", "library_missing"),
    (r"command not found|npu-smi: not found|npu-smi: No such file", "tool_missing"),
    (
        r"permission denied|operation not permitted|^\s*no permission|executed only by (the root|an admin)"
        r"|executed by (a )?non-root",
        "permission_denied",
    ),
    (
        r"cannot be executed on a ((common |VM-based )?container|VM)\b|not support\w* in (a )?(container|docker)",
        "not_supported_in_container",
    ),
    (
        r"^\s*(Th(is|e) (current )?(device|card|chip|product)|NPU) .*do[es]{2} not support"
        r"|^\s*This device dose not support"
        r"|^\s*This command (is|does) not support|^\s*The vnpu .*does not support",
        "not_supported",
    ),
    (
        r"^\s*Command or option is not found|^\s*Error parameter (of|in)\b|^\s*Input parameter|^\s*Invalid time\b"
        r"|^\s*(This command must|Must) input\b|^\s*The parameter is invalid|^\s*You must select a card",
        "command_not_understood",
    ),
    (r"^\s*dcmi \w+ initializ\w* failed", "dcmi_inner_error"),
    (
        r"^\s*Failed to (execute npu-smi|query|get|alloc|malloc)\b|^\s*(npu_get_card_device_id|get npu info) failed"
        r"|^\s*show npu card info fail|^\s*Card device info malloc failed|\blist failed\. ret\b",
        "query_failed",
    ),
)
_WORDS = (
    "fail",
    "not",
    "invalid",
    "no ",
    "denied",
    "error",
    "device is used",
    "parameter",
    "must input",
    "only by",
    "usage:",
)
"""A text with none of these reports no failure; most answers end here, and no pattern is ever compiled."""
_BY_CODE = {
    2: "permission_denied",
    5: "dcmi_inner_error",
    6: "timed_out",
    7: "card_not_found",
    8: "card_not_found",
    12: "device_not_ready",
    13: "not_supported_in_container",
    17: "device_upgrading",
    20: "device_occupied",
    255: "not_supported",
}
"""The last three digits of a code of DCMI (-8000 and on) or of npu-smi itself (-9000 and on)."""
_GENERAL = ("dcmi_inner_error", "query_failed")


@record(frozen=True)
class NpuSmiFailure:
    """A refusal of npu-smi; `ret` is the code that it names.

    `cause` is one of dcmi_inner_error, device_occupied, board_type_unavailable, card_not_found, device_not_ready,
    device_upgrading, permission_denied, library_missing, tool_missing, not_supported, not_supported_in_container,
    command_not_understood, timed_out, query_failed.
    """

    cause: str
    ret: int | None = None


_USAGE = r"^\s*Usage: npu-smi\b"
"""npu-smi -t topo prints nothing else where it cannot read the PCI devices in /sys."""


def parse_failure(text: str) -> NpuSmiFailure | None:
    """The failure that a text reports; None where it reports none, as every answer does.

    The first line that names a cause decides; the code may be in another line.
    """
    low = text[:_LONGEST].lower()
    if not any(word in low for word in _WORDS):
        return None
    lines = lines_of(text[:_LONGEST])
    if any(line.lstrip().startswith("|") for line in lines):
        return None
    cause = next((cause for line in lines if (cause := _cause_of(line))), None)
    if cause is None:
        usage = any(re.search(_USAGE, line) for line in lines)
        return NpuSmiFailure("command_not_understood") if usage else None
    codes = (said for line in lines if (said := re.search(_RET, line)) and _cause_of(line))
    said = next(codes, None)
    ret = int(said[1]) if said else None
    if cause in _GENERAL and ret is not None:
        cause = _BY_CODE.get(-ret % 1000, cause)
    return NpuSmiFailure(cause, ret)


def _cause_of(line: str) -> str | None:
    return next((cause for pattern, cause in _BY_TEXT if re.search(pattern, line, re.IGNORECASE)), None)


def not_a_page(problem: str, text: str) -> ParseError:
    """The error for a text that is not what was asked for; a failure of the tool is named as such."""
    lines: Sequence[str] = lines_of(text)
    failure = parse_failure(text)
    if failure is None:
        return refusal(problem, lines)
    number = next((place for place, line in enumerate(lines, 1) if _cause_of(line)), None)
    return refusal(f"this is no answer of npu-smi but a failure ({failure.cause})", lines, number)


def line_of_failure(text: str) -> str | None:
    """The line that says most of a failure, for a sentence: one with a code, else the first; None for mere usage."""
    telling = [line.strip() for line in lines_of(text[:_LONGEST]) if _cause_of(line)]
    return next((line for line in telling if re.search(_RET, line)), telling[0] if telling else None)


def failure_of_page(text: str) -> str | None:
    """The line with which npu-smi ends a page that it could not print as a whole; None where there is none."""
    lines = (line.strip() for line in lines_of(text))
    return next((line for line in lines if re.match(r'Failed to (query "|execute npu-smi)', line)), None)
