"""What npu-smi prints instead of an answer, and the cause that it stands for."""

from __future__ import annotations

import re

from npudoctor.facts.cells import lines_of
from npudoctor.records import record

_LONGEST = 1 << 16
_RET = r"(?i)ret(?:\s+is|\s*[=:])\s*(-?(?:0|[1-9][0-9]{0,8}))(?![0-9])"
_BY_TEXT = (
    (r"because the device is used", "device_occupied"),
    (r"get board type failed", "board_type_unavailable"),
    (r"^\s*Invalid (card|chip|device|npu) ?id\b|^\s*There is no NPU card", "card_not_found"),
    (r"error while loading shared libraries|cannot open shared object file", "library_missing"),
    (r"command not found|npu-smi: not found|npu-smi: No such file", "tool_missing"),
    (r"permission denied|operation not permitted|^\s*no permission", "permission_denied"),
    (r"cannot be executed on a VM|not support\w* in (a )?(container|docker)", "not_supported_in_container"),
    (
        r"^\s*(This (device|card|chip)|NPU) .*do[es]{2} not support|^\s*This command (is|does) not support",
        "not_supported",
    ),
    (r"^\s*Command or option is not found|^\s*Error parameter of|^\s*Input parameter", "command_not_understood"),
    (r"^\s*dcmi \w+ initializ\w* failed", "dcmi_inner_error"),
    (r"^\s*Failed to execute npu-smi|^\s*Failed to (query|get) ", "query_failed"),
)
_WORDS = ("fail", "not", "invalid", "no ", "denied", "error", "device is used", "parameter")
"""A text with none of these tells of no failure; most answers end here, and no pattern is ever compiled."""
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


def parse_failure(text: str) -> NpuSmiFailure | None:
    """The failure that a text tells of; None where it tells of none, as every answer does."""
    low = text[:_LONGEST].lower()
    if not any(word in low for word in _WORDS):
        return None
    lines = lines_of(text[:_LONGEST])
    if any(line.lstrip().startswith("|") for line in lines):
        return None
    for line in lines:
        cause = next((cause for pattern, cause in _BY_TEXT if re.search(pattern, line, re.IGNORECASE)), None)
        if cause:
            said = re.search(_RET, line)
            ret = int(said[1]) if said else None
            if cause in _GENERAL and ret is not None:
                cause = _BY_CODE.get(-ret % 1000, cause)
            return NpuSmiFailure(cause, ret)
    return None
