"""The exception that a line of a log reports, behind whatever programs, launchers and people put before it."""

from __future__ import annotations

import re

from npudoctor.explain.lines import in_short, message_of
from npudoctor.records import record

_BEFORE = re.compile(
    r"\s*(?:\[[^\]]{0,60}\]|\([^)]{0,60}\)|(?:ERROR|CRITICAL|FATAL)(?: -)?(?=[\s:])|[#>|\u2502\u2551]{1,6}(?=\s)"
    r"|(?:20\d\d-)?\d\d-\d\d[ T]\d\d:\d\d:\d\d\S{0,12}(?: -)?|[\w./-]{1,80}\.(?:py|cc|cpp):\d{1,6}\]"
    r"|\d{1,5}:?(?=\s)|[\w.-]{1,60}\s{1,20}\|(?=\s)|E(?=\s))\s?:?"
)
"""One of the pieces that precede an exception on its line: rank, time, place, level, number, container, quotation."""

_ESCAPED_NEWLINE = re.compile(r"\\n")
_MOST_BEFORE = 16
"""The most such pieces; one after the other, so that no line takes more than linear time."""

_EXCEPTION = re.compile(
    r"\s*(?P<name>(?:[A-Za-z_]\w{0,80}\.){0,12}[A-Z]\w{0,80}(?:Error|Exception))(?:: (?P<said>.*)|\s*$)"
)
_IN_CHINESE = re.compile(
    r"[\u3001-\u303f\u4e00-\u9fff\uff00-\uffef]\s?(?P<name>[A-Z]\w{0,80}(?:Error|Exception)): (?P<said>.*)"
)
_CRASH = re.compile(
    r"\b(?P<name>Fatal Python error: (?:Segmentation fault|Bus error)"
    r"|(?:Segmentation fault|Bus error)(?= \(core dumped\))"
    r"|SIG(?:SEGV|BUS|ABRT|FPE|ILL) received(?= at time=))"
)
_CRASH_BY_KERNEL = re.compile(
    r"\b(?:python[\d.]{0,6}|pt_main_thread|pt_\w{1,20}|ray::[\w.]{1,30}|[Vv][Ll][Ll][Mm]\S{0,30}|mindie\w{0,30}|torchrun|msrun"
    r"|atc(?:\.bin)?|msame|\w{1,20}_test)\[\d{1,9}\]:? (?:segfault at |general protection fault |trap invalid opcode "
    r"|unhandled (?:level \d|alignment fault|exception: DABT)).{0,160}?(?: in (?P<library>[^\s\[]{1,80})\[|\s*$)"
)
BY_KERNEL = "a crash that the kernel reports"
"""By what such a crash is found: one of a program whose name is one of a job."""

_WRAPPERS = re.compile(
    r"(?:ChildFailedError|RayTaskError|ProcessRaisedException|ProcessExitedException|EngineDeadError)"
)
_POINTS_ELSEWHERE = re.compile(
    r"[Ss]ee (?:the )?(?:root cause|stack trace|error|log\w{0,2}|traceback)s? .{0,40}(?:above|root cause)"
    r"|in a background process|check the stack trace above"
)
"""The text of an exception that only says that another one, printed before it, is the cause."""


CRASH_WORDS = (
    *("core dumped", "Fatal Python error: ", " received at time=", "]: segfault at ", "]: unhandled "),
    *("] general protection fault ", "] trap invalid opcode "),
)
"""Words of which every line has one that reports a crash, for the prefilter."""


@record(frozen=True)
class Raised:
    """An exception: its class without the module, the class with its text in short, and where in the line it begins."""

    name: str
    what: str
    start: int


def exception_in(line: str) -> Raised | None:
    """The exception or crash that a line reports; None for one that only wraps another or points to it."""
    if any(word in line for word in CRASH_WORDS):
        if crash := _CRASH.search(line):
            return Raised(crash["name"], crash["name"], crash.start())
        if crash := _CRASH_BY_KERNEL.search(line):
            where = f" in {crash['library']}" if crash["library"] else ""
            return Raised(BY_KERNEL, f"Segmentation fault{where}", crash.start())
    if not ("rror: " in line or "xception: " in line or line.rstrip().endswith("AssertionError")):
        return None
    found = _find(line, len(line) - len(message_of(line)))
    if found is None or _WRAPPERS.search(found["name"]) or _POINTS_ELSEWHERE.search(found["said"] or ""):
        return None
    name = found["name"].rpartition(".")[2]
    said = found["said"].partition("\\n")[0] if found["said"] else ""
    return Raised(name, f"{name}: {in_short(said, 120)}".strip() if said else name, found.start("name"))


def _find(line: str, start: int) -> re.Match[str] | None:
    """The exception that a line reports from a place on, behind what precedes it or a newline that is spelled out."""
    for begin in (start, *(escaped.end() for escaped in _ESCAPED_NEWLINE.finditer(line, start))):
        for _ in range(_MOST_BEFORE):
            if raised := _EXCEPTION.match(line, begin):
                return raised
            before = _BEFORE.match(line, begin)
            if before is None:
                break
            begin = before.end()
    return _IN_CHINESE.search(line, start)
