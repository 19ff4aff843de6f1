"""How far a job came, and how its log ends: progress, success, or a stop from outside.

What a log complained of before its job made progress or ended well stopped nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from ahocorasick_rs import BytesAhoCorasick

from npudoctor.explain.lines import PROMPT
from npudoctor.records import record

_LAST = 15
"""Lines at the end of a log, without empty ones, in which a report of success counts."""

_WELL = re.compile(
    r"\b(?:exit(?:ed|ing)?|return(?:ed)?|finished|completed|ended)\b(?: \w{1,12}){0,2}[ _](?:code|status)"
    r"\s?[:=(]?\s?0\b"
    r"|\b(?:exit|return)_?(?:code|status)[\"']?\s?[:=]\s?0\b|\brc\s?=\s?0\b|(?<!\()\bcode=exited, status=0/SUCCESS"
    r"|\btrain_runtime\b|\*{5} (?:train|eval|predict) metrics \*{5}"
    r"|\b[Ss]uccessfully (?:installed|built|tagged|uninstalled|created|converted|exported|saved|deployed"
    r"|completed|finished|compiled|upgraded|pushed|verified)\b"
    r"|\b(?:installed|built|finished|completed|started|deployed|compiled|converted|exported|saved|upgraded|verified"
    r"|executed|run) successfully\b|\binstalled on platform \[\w{2,12}\] successfully\b"
    r"|BUILD SUCCESS|Finished: SUCCESS|\[SUCCESS\]|\b(?:ATC|AMCT|OMG) run success"
    r"|\b(?:un)?install(?:ed|ation)? success|\bupgraded? success"
    r"|^\[100%\] Built target |^={3,} .{0,60}\b\d{1,6} passed\b|^\d{1,6} passed\b"
    r"|^#\d{1,4} (?:DONE \d|.{1,120}\bdone$)|^OK(?: \(.{1,60}\))?$"
    r"|\bAll (?:tests|checks) passed\b|\bTraining completed\. Do not forget to share"
    r"|Application startup complete|Uvicorn running on|The server is fired up|Daemon start success|server is ready"
    r"|(?:^|< |: )HTTP/1\.[01] 200\b"
    r"|\"(?!GET /(?:health|metrics|ping|ready|live|v1/models))[A-Z]{3,6} \S{1,300} HTTP/1\.[01]\" 200\b"
    r"|\bPrompt executed in \d|\bAlready save model in\b"
    r"|\bServing Benchmark Result|\b(?:Mean|Median|P99) (?:TTFT|TPOT|ITL)\b"
    r"|\b(?:Request|Output token|Total [Tt]oken) throughput\b|^Throughput: "
    r"|\|\s{1,40}COMPLETED\b|\bState\s?: COMPLETED\b"
    r"|\bllama_perf\w{0,24}: +(?:eval|total) time = |\bunload model success|^iperf Done\.|\bjob completed: success"
    r"|\bCOMPLETED {1,20}0:0\b|^\S{1,100} successfully rolled out$"
    r"|\u5b89\u88c5\u6210\u529f|\u6784\u5efa\u6210\u529f|\u8f6c\u6362\u6210\u529f|\u6267\u884c\u6210\u529f|\u90e8\u7f72\u6210\u529f"
    r"|\u542f\u52a8\u6210\u529f"
)
"""What programs, installers, schedulers, build tools and servers print where they did what they were to do."""

_SAID = re.compile(
    r"\b(?:[Tt]rain(?:ing)?|[Ff]ine-?tun(?:e|ing)|[Ee]valuation|[Ii]nference|[Cc]onversion|[Dd]eployment|[Bb]enchmark"
    r"|[Ii]nstall(?:ation)?|[Uu]pgrade|[Bb]uild|[Tt]ests?|[Jj]ob|[Pp]ipeline|[Ww]orkflow|[Ss]tep|[Rr]un"
    r"|[Tt]ask|[Ss]etup|[Ee]xport)"
    r"(?: \S{1,80}){0,2}? (?:is |was |has |been |all )*"
    r"(?:completed?|finished|done(?! (?:by|on|for|when) )|succeeded|SUCCEEDED|successful(?:ly)?|passed|success)\b"
    r"|\bTrain(?:ing)? end(?:ed|s)?\b"
    r"|\b(?:[Ff]inished|[Cc]ompleted) (?:training|fine-?tuning|evaluation|inference|installing|conversion|export)\b"
    r"|^(?:All |\w{1,20} )?[Dd]one(?:[.!,]|$)|\bAll (?:done|jobs finished)\b"
    r"|\u8bad\u7ec3\u5b8c\u6210|\u5168\u90e8\u5b8c\u6210"
)
"""What scripts also print at their end, whatever happened before."""

_STEP_OF_SLURM = re.compile(r"\bCOMPLETED {1,20}0:0\b")
_FAILED_STEP = re.compile(r"\b(?:FAILED|TIMEOUT|CANCELLED|OUT_OF_ME\w{0,3}|NODE_FAIL)\b.{0,20}\b\d{1,3}:\d{1,3}\b")
"""A row of sacct: the last one is the step `extern`, which ends well whatever the job did."""

_APART = 30
"""Lines between a failure and the last words of a script from which the script went on after it."""

_FAILS = re.compile(
    r"\b(?:rc|(?:code|status))\s?[:=(]?\s?-?[1-9]|"
    r"(?<!0 )(?<!no )(?<!without )(?:[Ee]rror|ERROR|[Ee]rrors|xception|atal|FATAL|[Ff]ailed|[Ff]ailure|FAILED"
    r"|FAILURE)\b(?!s? ?[:=] ?0)"
    r"|BackOff\b|\b(?:OOMKilled|Evicted|Pending|NotReady|Unhealthy|Unschedulable)\b"
    r"|\bKilled\b|\b[Aa]bort|core dumped|[Rr]efused|[Dd]enied|[Tt]imed out|\bnot found|\bNo such|panic"
    r"|\u5931\u8d25|\u9519\u8bef|\u5f02\u5e38"
)
_PROGRESS = re.compile(
    rb"(?:\b|_)(?<!acket )[Ll]oss(?:_[A-Za-z]{1,3}){0,2}(?:['\"]| is)?\s{0,8}[:=]?\s{0,8}[('\"]?-?\d{1,6}\.\d"
    rb"|\bAvg prompt throughput: (?!0\.0 )\d|\bgen throughput \(token/s\): (?!0\.0+\b)\d"
    rb"|\"POST /\S{0,40}(?:completions|generate|embeddings|rerank|infer\w{0,8}|invocations|predict\w{0,6}|speech"
    rb"|images)\S{0,40} HTTP/1\.\d\" 200\b|\bper step time: \d|\belapsed time per iteration\b.{0,20}\d"
    rb"|\bApplication startup complete|\bThe server is fired up|\bDaemon start success"
    rb"|(?<!=)={3,} (?:\d{1,6} (?:passed|skipped|warnings?|xfailed|xpassed|deselected)(?:, )?){1,6} in \d"
    rb"|\"key\": ?\"(?:train_loss|tracked_stats|eval_accuracy|(?:block|epoch|eval)_stop)\""
    rb"|(?<![\w.])(?!0+\.?0{0,6} )\d{1,7}(?:\.\d{1,9})? ?"
    rb"(?:samples?|images?|imgs|examples|sequences|tokens?)/s(?:ec(?:ond)?)?\b"
    rb"|\b(?:samples?|images?|imgs|examples|sequences|tokens|global_step)/s(?:ec(?:ond)?)?\s{0,4}[:=]\s{0,4}(?!0\.0)\d"
)
"""What training and serving print when a step or a request is done, and servers when they are ready."""

_OF_PROGRESS = BytesAhoCorasick(
    [
        *(b"loss", b"prompt throughput: ", b"gen throughput (", b'" 200', b"per step time: ", b"time per iteration"),
        *(b"startup complete", b"server is fired up", b"Daemon start success", b"Loss", b'"key": "', b" passed"),
        *(b"ple/s", b"ples/s", b"age/s", b"ages/s", b"mgs/s", b"nces/s", b"ken/s", b"kens/s", b"step/s"),
    ]
)
"""Words of which every line of progress has one."""

_TRIED = 200
"""The most lines of a block with one of these words that are searched."""

_COMMAND = re.compile(rf"^{PROMPT} ?\S")
_SHOWS_EARLIER_LINES = re.compile(rf"^{PROMPT} ?(?:sudo )?(?:tail|head|e?grep|less|more|sed|awk)\b")
_ASKS_FOR_STATUS = re.compile(rf"^{PROMPT} ?echo \$\?\s{{0,4}}$")
_ONLY_LOOKS = re.compile(
    rf"^{PROMPT} ?(?:sudo )?(?:ping|curl|wget|ls|cat|nc|which|npu-smi|hccn_tool|dmesg|id|df|free)\b"
)
_STATUS_OF_ANOTHER = re.compile(r"\|(?!\|)|&\s{0,4}$")
"""A pipeline, of which the shell keeps the status of the last program, and a command in the background."""

_OUTPUT = 60
"""Lines above one in which the command that printed it is searched."""

_STOPPED = (
    (
        re.compile(r"(?:^|[\s:\])])KeyboardInterrupt\b(?!:)|^\^C(?!.{0,80}[$#] )|\b[Ii]nterrupted by (?:the )?user\b"),
        "an interrupt (Ctrl-C)",
    ),
    (
        re.compile(r"\bSIGINT\b(?!.{0,40}(?:handler|ignor))|SignalException: .{0,60}\bsignal: 2\b"),
        "an interrupt (Ctrl-C)",
    ),
    (
        re.compile(
            r"Received 15 death signal|SignalException: .{0,60}\bsignal: 15\b|\b[Rr]eceived signal 15\b"
            r"|(?i:\b(?:received|caught|got) (?:signals?[ .])?SIGTERM\b"
            r"|\bSIGTERM\W{1,3}(?:was )?(?:received|caught))"
        ),
        "SIGTERM",
    ),
    (re.compile(r"^\s{0,4}Terminated\s{0,4}$"), "SIGTERM"),
    (
        re.compile(r"CANCELLED AT .{0,40}DUE TO TIME LIMIT|\breason[\"']?[:=] ?[\"']?DeadlineExceeded"),
        "a time limit of the scheduler",
    ),
    (
        re.compile(r"CANCELLED AT .{0,40}DUE TO PREEMPTION|\bPreempted\b.{0,80}\b(?:by|to|preemption)\b"),
        "the scheduler: another job went first",
    ),
    (re.compile(r"^(?:20\d\d-\S{8,24} )?Post job cleanup\.|^\S{0,24}Cleaning up project directory and file based"), ""),
    (re.compile(r"srun: error: Node failure on|DUE TO NODE FAILURE"), "the scheduler: a node of the job failed"),
    (
        re.compile(r"\*\*\* JOB \d{1,12} ON \S{1,80} CANCELLED AT (?!.{0,40}DUE TO NODE)"),
        "the scheduler: the job was cancelled",
    ),
    (
        re.compile(
            r"The operation was cancell?ed\.|Job failed: cancell?ed|(?i:\b(?:cancell?ed|stopped) by (?:the )?user\b)"
        ),
        "a user: the job was cancelled",
    ),
)
WORDS = (
    *("KeyboardInterrupt", "^C", "nterrupted by ", "SIGINT", "SignalException: ", "death signal", "eceived signal 15"),
    *(
        "SIGTERM",
        "Terminated",
        "CANCELLED AT ",
        "DeadlineExceeded",
        "Preempted",
        "operation was cancel",
        "failed: cancel",
    ),
    *("by user", "by the user", "Post job cleanup.", "Cleaning up project dir", "Node failure on", "TO NODE FAILURE"),
)
"""Words of which every line has one that shows that somebody stopped the job, for the prefilter."""


@record(frozen=True)
class Ending:
    """The report of success at the end of a text: its line, counted from the end, 0 for the last, and its text.

    What is reported `apart` lines before it stopped nothing.
    """

    line_from_end: int
    text: str
    apart: int = 0


def good_ending(text: str) -> Ending | None:
    """The last report of success in the last lines of a log, if no line behind it reports a failure."""
    seen = 0
    lines = text.split("\n")
    while lines and not lines[-1].strip():
        lines.pop()
    if len(lines) > 1 and lines[-1].strip() == "0" and _ASKS_FOR_STATUS.search(lines[-2][:400]):
        command = _command_in(reversed(lines[-2 - _OUTPUT : -2]))
        if _ONLY_LOOKS.match(command) or _STATUS_OF_ANOTHER.search(command):
            return None
        return Ending(text.count("\n") - len(lines) + 1, lines[-1])
    for number, line in enumerate(reversed(text.split("\n"))):
        if not line.strip() or (not seen and _COMMAND.match(line[:400])):
            continue
        seen += 1
        if seen > _LAST or _FAILS.search(line[:2000]):
            return None
        is_sure = _WELL.search(line[:2000]) is not None
        if is_sure or _SAID.search(line[:2000]):
            above = text.split("\n")[-1 - number - _OUTPUT : -1 - number]
            if _STEP_OF_SLURM.search(line[:2000]) and any(map(_FAILED_STEP.search, above[-_LAST:])):
                return None
            return None if _is_of_earlier(reversed(above)) else Ending(number, line, 0 if is_sure else _APART)
    return None


def _is_of_earlier(above: Iterable[str]) -> bool:
    """Whether a line was printed by a command that shows a part of an earlier log; `above`: the nearest line first."""
    return _SHOWS_EARLIER_LINES.match(_command_in(above)) is not None


def _command_in(above: Iterable[str]) -> str:
    """The beginning of the first of these lines that shows a command; nothing without one."""
    return next((line for line in (line[:400] for line in above) if _COMMAND.match(line)), "")


def lines_to_prompt(below: Iterable[str]) -> int | None:
    """How many lines after a stop a prompt with another command follows."""
    return next((number for number, line in enumerate(below, 1) if _COMMAND.match(line[:400])), None)


def first_progress(text: bytes) -> int | None:
    """Where the first line begins that reports progress, in a block of whole lines."""
    tried: Counter[int] = Counter()
    searched = 0
    for word, at, _ in _OF_PROGRESS.find_matches_as_indexes(text, overlapping=True):
        if at < searched or tried[word] == _TRIED:
            continue
        tried[word] += 1
        begin, end = text.rfind(b"\n", 0, at) + 1, text.find(b"\n", at)
        searched = end if end >= 0 else len(text)
        if _PROGRESS.search(text[begin : min(searched, begin + 2000)]) and not _is_of_earlier(_above(text, begin)):
            return begin
    return None


def _above(text: bytes, begin: int) -> Iterator[str]:
    for line in reversed(text[max(begin - _OUTPUT * 200, 0) : begin].split(b"\n")[-_OUTPUT:]):
        yield line.decode("utf-8", "replace")


def stops_in(line: str) -> Iterator[tuple[str, str, int]]:
    """What stopped the job from outside, as a line says: the expression, by what, and where in the line it begins."""
    if any(word in line for word in WORDS):
        for pattern, by in _STOPPED:
            if match := pattern.search(line):
                yield pattern.pattern, by, match.start()
