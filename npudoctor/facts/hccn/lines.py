"""The lines of hccn_tool: keys and values, behind the device that they speak of, and the messages instead of them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from npudoctor.facts.cells import lines_of, refusal
from npudoctor.records import record
from npudoctor.sdk import ParseError

_LONGEST = 1 << 16
_PAIR = r"\s*(?:\[(?:devid|device|dev_id) *([0-9]{1,5})\]\s*)?([A-Za-z][\w /-]{0,40}?)\s*:\s*(.*)"
_BY_TEXT = (
    (r"command not found|hccn_tool: not found|hccn_tool: No such file", "tool_missing"),
    (r"error while loading shared libraries|cannot open shared object file", "library_missing"),
    (
        r"Device ID is out of the valid range|device is not exist|No such device|invalid (device|phy|logic) ?id"
        r"|Option \[-i \S{1,12}\] is (out of range|invalid)",
        "hccn_device_id_invalid",
    ),
    (
        r"hccn_tool is busy|I2c is busy|Get lock failed|device is occupied|^[ \t]{0,64}Traceroute is running"
        r"|optical module initializing|^[ \t]{0,64}Roce perftest is doing",
        "hccn_busy",
    ),
    (r"permission denied|operation not permitted|no permission|cmd run permission", "permission_denied"),
    (r"because no (ip|gateway) was preset|no ip and router set", "not_configured"),
    (r"^[ \t]{0,64}(The|This|Command|Cmd|Current)\b.{0,300}(not support|unsupported)", "not_supported"),
    (r"cmd line execute timeout|execute time ?out", "timed_out"),
    (r"Link status is down", "link_down"),
    (r"Optical module is not present", "optical_absent"),
    (r"Control link unreachable", "control_link_unreachable"),
    (r"Get device health status failed", "device_unhealthy"),
    (
        r"^[ \t]{0,64}(Cmd|Command) (line )?(is )?(error|invalid)|invalid (option|parameter|cmd)|^[ \t]{0,64}usage\b"
        r"|^[ \t]{0,64}The total count of (input parameters|options) is wrong"
        r"|^[ \t]{0,64}Get (invalid (major|input)|unknown option)"
        r"|you input is out of the valid range|^[ \t]{0,64}(Unknown option|Parse cmd option failed|Please specify a )"
        r"|^[ \t]{0,64}Option \S.{0,100} (is required|duplicated|not allowed|out of range|is invalid|conflict)",
        "command_invalid",
    ),
    (
        r"^[ \t]{0,64}(Cmd|Command) execute[d]? fail|^[ \t]{0,64}Execute failed|^[ \t]{0,64}Get device info failed",
        "command_failed",
    ),
)


@record(frozen=True)
class HccnFailure:
    """A refusal of hccn_tool.

    `cause` is one of hccn_device_id_invalid, hccn_busy, permission_denied, not_configured, not_supported, timed_out,
    link_down, optical_absent, control_link_unreachable, device_unhealthy, command_invalid, command_failed,
    tool_missing, library_missing.
    """

    cause: str


def parse_failure(text: str) -> HccnFailure | None:
    """The failure that a text reports; None where it reports none, as every answer does."""
    lines = "\n".join(lines_of(text[:_LONGEST]))
    for pattern, cause in _BY_TEXT:
        if re.search(pattern, lines, re.IGNORECASE | re.MULTILINE):
            return HccnFailure(cause)
    return None


@record(frozen=True)
class Pair:
    """One line `key: value`; `key` in lower case, `device` as the line itself names it. Elsewhere only `failed`."""

    key: str
    value: str
    device: int | None = None


def pairs_of(text: str) -> list[Pair]:
    """The lines of a text that have a key; keys are compared in lower case with single blanks."""
    found = []
    for line in lines_of(text):
        if pair := re.fullmatch(_PAIR, line, re.ASCII):
            device = int(pair[1]) if pair[1] else None
            found.append(Pair(" ".join(pair[2].lower().split()), pair[3].rstrip(), device))
    return found


def rows_of(text: str) -> list[dict[str, str]]:
    """The rows of the tables that 950 draws, one for each port, by the titles of their columns in lower case."""
    rows: list[dict[str, str]] = []
    titles: list[str] = []
    for line in lines_of(text):
        row = line.strip()
        if not (row.startswith("|") and row.endswith("|") and len(row) > 1):
            continue
        cells = [cell.strip() for cell in row[1:-1].split("|")]
        if cells[:3] == ["NPU", "UDie", "Port"]:
            titles = [cell.lower() for cell in cells]
        elif len(cells) == len(titles):
            rows.append(dict(zip(titles, cells, strict=True)))
    return rows


def is_elided(text: str) -> bool:
    """Whether somebody left out lines, so that the place of an answer no longer says whose it is."""
    return any(line.strip() in ("...", "…", "......") for line in lines_of(text))


def not_an_answer(query: str, text: str) -> ParseError:
    """The error for a text that is no answer to `hccn_tool -QUERY`; a failure is named as such."""
    lines: Sequence[str] = lines_of(text)
    failure = parse_failure(text)
    if failure is not None:
        return refusal(f"this is no answer of hccn_tool but a failure ({failure.cause})", lines)
    return refusal(f"this is not an answer of hccn_tool -{query}", lines)
