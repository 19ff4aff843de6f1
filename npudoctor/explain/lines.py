"""Metadata of one line of a log: its rank or process, its time, and its level."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date
from functools import lru_cache

from npudoctor.privacy.credentials import mask
from npudoctor.records import record

_RANKS = (
    re.compile(r"^\W*(?:\[default\d+\]:\s*)?\[rank ?(\d+)\]", re.IGNORECASE),
    re.compile(r"\bRankID:(\d+)"),
    re.compile(r"\[rank ?(\d+)\]", re.IGNORECASE),
    re.compile(r"\([^()]{0,60}\brank=(\d+)"),
    re.compile(r"^\[\d+,(\d+)\]<std(?:err|out)>"),
    re.compile(r"^\[default(\d+)\]:"),
    re.compile(r"\brankId\[(\d+)\]"),
    re.compile(r"\bProcess rank: (\d+)"),
    re.compile(r"\"(?:global_)?rank\": ?(\d+)"),
)
_WORKER = re.compile(
    r"^\W{0,64}(?:[-\d: ]{19} |[A-Za-z]{0,40}(?:Worker|EngineCore)[A-Za-z]{0,40}[ _])?"
    r"((?:[DTPE]P\d+)(?:[ _][DTPE]P\d+)*)\b"
)
_PIDS = (
    re.compile(r"\(PID: ?(\d+)"),
    re.compile(r"\[PID: ?(\d+)"),
    re.compile(r"^\s*\([^()]{0,60}\bpid=(\d+)"),
    re.compile(r"^\W{0,64}\[?\w{1,64}\]?\s?[A-Z_]{1,64}\((\d+),"),
    re.compile(r"^\[?20\d\d-\d\d-\d\d \d\d:\d\d:\d\d[.,\d+:]{0,16}\]? (?:\[[A-Za-z]{1,8}\] )?\[(\d{2,8})\] \["),
)
_MOST_DIGITS = 9
"""Of a rank or a process; Python refuses to read numbers of thousands of digits."""

_NODE_IP = re.compile(r"^\s*\([^()]{0,60}\bpid=\d+, ip=(\d{1,3}(?:\.\d{1,3}){3})\)")
_OUTER = re.compile(r"(?:\s{0,8}\([^()]{0,60}\bpid=\d{1,9}[^()]{0,40}\))+\s{1,8}(?=\([^()]{0,60}\bpid=\d)")
"""The processes that pass on the line of the one in the last brackets, as vLLM and Ray print them."""

_WRAPPED = re.compile(
    r"\S{20,40} std(?:out|err) [FP] "
    r"|\[pod/(?P<pod>[a-z0-9][a-z0-9.-]{0,252})/[a-z0-9.-]{1,63}\] "
    r"|(?P<tailed>[a-z0-9][a-z0-9.-]{0,80}-(?:master|worker|head|launcher|node|server|chief|rank)-?\d{1,4}) "
    r"[a-z][a-z0-9-]{0,62} (?=\S)"
    r"|(?P<node>(?:node|host|server|worker|master)[-_.]?\d[\w.-]{0,40}|\d{1,3}(?:\.\d{1,3}){3}): (?=\S)"
)
"""What a container's log, kubectl and stern, pdsh and the launcher of DeepSpeed put before each line."""

_IN_NAME = (
    (re.compile(r"rank[-_.]?(\d+)", re.IGNORECASE), "rank"),
    (re.compile(r"(?:^|/)(\d+)/std(?:err|out)(?:\.log)?(?:\.[\d-]+)?(?:\.gz)?$"), "rank"),
    (re.compile(r"(?:^|/)(?:slurm-\d+|log|out|err|stdout|stderr)[-_.](\d{1,5})(?:\.(?:log|out|err|txt))?$"), "rank"),
    (re.compile(r"worker[-_.]?(\d+)\.\w+(?:\.[\d-]+)?(?:\.gz)?$", re.IGNORECASE), "rank"),
    (re.compile(r"(?:plog|device)-(\d+)_\d+[^/]*$"), "pid"),
    (re.compile(r"worker-[0-9a-f]{3,60}-[0-9a-f]{8}-(\d+)\.(?:out|err)[^/]*$"), "pid"),
    (re.compile(r"mindie[-_]\w{1,20}_(\d+)_\d{8}[^/]*$"), "pid"),
)
_DATE = re.compile(r"\b(20\d\d)[-/](\d\d)[-/](\d\d)[-T _]{1,2}(\d\d):(\d\d):(\d\d)(?:[.,:](\d{1,6})(?:\.(\d{3}))?)?")
_ZONE = re.compile(r"\d{0,9}(?:Z\b| ?UTC\b| ?(?P<sign>[+-])(?P<hours>[01]\d):?(?P<minutes>[0-5]\d)(?!\d))")
_SHORT_DATE = re.compile(
    r"\b(?:[A-Z]{4,8} (\d\d)-|[EWIF](20\d\d)?(\d{1,2})(?=\d\d ))(\d\d) (\d\d):(\d\d):(\d\d)(?:[.,](\d{1,6}))?"
)
_US_DATE = re.compile(r"\b(\d\d)/(\d\d)/(20\d\d) (\d\d):(\d\d):(\d\d)\b")
"""Month, day and year, as transformers and accelerate print them."""

_SYSLOG = re.compile(r"^(?:<\d+>)?([A-Z][a-z]{2}) {1,2}(\d{1,2}) (\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?\b")
_CTIME = re.compile(
    r"^\[?(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) ([A-Z][a-z]{2}) {1,2}(\d{1,2}) (\d\d):(\d\d):(\d\d) (20\d\d)\b"
)
"""As `dmesg -T` and the C library print a time."""

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_LEVEL = re.compile(
    r"\[(ERROR|CRITICAL|EXCEPTION|FATAL|WARNING|WARN|INFO|EVENT|DEBUG|TRACE)\]"
    r"|\b(ERROR|CRITICAL|FATAL|WARNING|INFO|(?-i:DEBUG))\b[ :]"
    r"|(?:^|[\s\[])([EWIF])(?:\d{3,4}|20\d{6}| 20\d\d-\d\d-\d\d) \d\d:|\[([EW]) [a-z_]+\.\w+:|\b[a-z]{2,24}(W)arning: "
    r"|(?-i:: ([EWI]) [a-z_]+/\w|[\s\d](WARN) |(?:^| )(W): (?=Failed to fetch|Some index|GPG error|The repository))",
    re.IGNORECASE,
)
_GRAVE = {"e": 1.0, "c": 1.0, "f": 1.0, "w": 0.8, "i": 0.3, "d": 0.05, "t": 0.05}
_EVENT = re.compile(r"\bWarning(?: {2,}|\t)[A-Z][A-Za-z]{3,40}(?: {2,}|\t)")
"""An event of Kubernetes, whose most severe kind is a warning."""

PROMPT = r"(?:\([\w.-]{1,40}\) )?(?:\$|(?:ba)?sh-\d\.\d[$#]|\[?[\w.-]{1,40}@[\w.-]{1,60}[: ][^\]$#\n]{0,80}\]?[$#])"
"""What a shell prints before a command."""

_QUOTES = re.compile(
    r"^[^'\"]{0,80}\braise \w[\w.]{1,60}\(|^\s{0,8}\+{1,4} (?!export )\S"
    r"|^#{1,6} (?!.{0,200}(?:[a-z]Error|[a-z]Exception|\[Bug))\S"
    r"|\bprompts?\b['\"]?[:=] ?\[?['\"]|\b[Gg]enerated text: |['\"]role['\"]: ?['\"](?:assistant|user|system)['\"]"
    r"|^[0-9a-f]{7,12} (?:\([^()]{1,80}\) )?"
    r"(?:\[\w|(?:[Ff]ix|[Ff]eat|[Dd]ocs?|[Cc]hore|[Rr]efactor|[Rr]evert|[Mm]erge)\b)"
    r"|^\|\s?\W{0,4}E[A-Z]?\d{4,5}\W{0,4}\s?\||^(?:\d{1,2}\.|[-*]) (?:If|When) "
    r"|^(?:20\d\d-\d\d-\d\dT\S{8,20} )?##\[(?:group|command|section)\]|^Step \d{1,3}/\d{1,3} : [A-Z]"
    r"|^(?:#\d{1,4} |=> (?:[A-Z]{4,8} )?)?\[[^\]]{0,40}\d{1,3}/\d{1,3}\] [A-Z]{3,10} "
    rf"|^{PROMPT} \S"
)
"""What is before words that report nothing: a command that is run, a comment, a prompt, a commit, a guide."""

_IGNORED = re.compile(
    r"\((?:ignored|ignoring|harmless|non-fatal|not fatal|optional|as expected)\b"
    r"|\b(?:can be|safely|please|will be|is) ignored?\b|\bignore (?:this|it|that)\b|\bdefault (?:is used|value is)\b"
    r"|\b[Ii]gnor(?:e|ing) (?:import )?(?:error|exception|warning)"
    r"|, (?:ignored|ignoring)\.?\s{0,4}$|\bkernel packages unavailable: |^(?:\S{1,40} )?mkdir -p failed for path "
    r"|No module named '[\w.]{1,60}', (?:use|using|skip|fall)|^SKIPPED \[\d{1,4}\] "
    r"|\bFailed to import from vllm\._\w{1,8}C? with |\bFailed to apply (?:\w{1,20} ){0,3}patch"
    r"|\bld: warning: lib\S{1,60}, needed by |\bsimulated: |\bexpected by the test\b"
    r"|(?i:\bassertion\W{1,3}(?:0\b|recover))|^\[(?:INFO|DEBUG)\]\s{1,8}(?:[A-Z_]{2,12}\(\d|20\d\d/)"
    r"|^\[nltk_data\] |\bconftest\.\w{1,3}\b|\bcmTC_[0-9a-f]{3,8}\b"
    r"|\bDlsym(?:Ascend|Plugin)?\] Dynamically load symbol "
    r"|\b(?:sshd|\w{0,6}ftpd|crond?|CRON|postfix|smbd|snmpd)(?:\(\w{1,20}\))?\[\d{1,8}\]: "
)
"""What says that a line reports nothing that matters: also probes of configure, symbols that MindSpore can do without,
services beside the job, a fault that is over, and what CANN and MindCluster print for information."""

QUOTED = 0.05
"""The weight of words that report nothing."""
REPLACED = 0.3
"""The most weight of a line that says, or whose next line says, that the program takes something else instead."""

_ADVICE = re.compile(r"Solution:|Possible Cause:|Possible Reason:|Reason: ?1\.|If reserved memory is")

_WRAPPING = re.compile(
    r"Inner Error|TraceBack \(most|Solution:|Possible Cause|Possible Reason|call (?:acl|hccl|ge) api failed"
    r"|Rectify the fault|internal ACL of the system|\bruntime result = -?\d+|collect the plog"
    r"|^\s*File \"|fail(?:ed)?, error code is -?\d+$|^\S{0,200}$",
    re.IGNORECASE,
)
"""Lines around an error of CANN that say nothing of its cause."""

_ASIDE = re.compile(
    r"\[FUNC:.*|\[PID: ?\d+\]|\(PID:[^)]{0,80}\)|20\d\d-\d\d-\d\d-\d\d:\d\d:\d\d[.\d]{0,8}|^\W{0,20}\[ERROR\]"
    r"|\[rank ?\d+\]:?|\bE[A-Z]\d{4}:?|[A-Za-z_]{1,60}\(E[A-Z]\d{4}\):?|\bERR\d{5}\b"
)
_DETAIL = re.compile(r"failed, detail:")


@record(frozen=True)
class Source:
    """The source of a line, as far as it is given."""

    rank: int | None = None
    worker: str | None = None
    pid: int | None = None
    node: str | None = None

    @property
    def known(self) -> bool:
        """Whether any part but the node is known."""
        return (self.rank, self.worker, self.pid) != (None, None, None)

    def shares(self, other: Source) -> bool:
        """Whether the other may be the same: one node, and the same rank, worker or process."""
        own = ((self.rank, other.rank), (self.worker, other.worker), (self.pid, other.pid))
        return self.node == other.node and any(one is not None and one == two for one, two in own)

    @property
    def label(self) -> str:
        """As text: `rank 3`, `worker TP0`, `process 118 of node-1`; nothing where unknown."""
        of = f" of {self.node}" if self.node else ""
        if self.rank is not None:
            return f"rank {self.rank}{of}"
        if self.worker is not None:
            return f"worker {self.worker}{of}"
        if self.pid is not None:
            return f"process {self.pid}{of}"
        return self.node or ""


NOBODY = Source()


@record(frozen=True)
class Moment:
    """A time stamp as a line gives it; some give no year. `second` counts from midnight.

    `zone_s` is the zone that the stamp names, in seconds east of UTC; None where it names none.
    """

    year: int | None
    month: int
    day: int
    second: float
    zone_s: int | None = None

    def key(self, year: int) -> tuple[int, int, int, float]:
        """The sort key of a moment; `year` is used for those without one."""
        return (self.year or year, self.month, self.day, self.second)

    def seconds(self, year: int) -> float:
        """Seconds on a common scale, UTC where the stamp names a zone; the order of days is that of the calendar."""
        try:
            days = date(self.year or year, self.month, self.day).toordinal()
        except ValueError:  # 31 February
            days = date(self.year or year, self.month, 28).toordinal() + self.day - 28
        return days * 86400 + self.second - (self.zone_s or 0)

    def __str__(self) -> str:
        milliseconds = round(self.second * 1e6) // 1000
        minutes, rest = divmod(milliseconds, 60_000)
        date = f"{self.month:02}-{self.day:02}"
        clock = f"{minutes // 60:02}:{minutes % 60:02}:{rest // 1000:02}.{rest % 1000:03}"
        return f"{date if self.year is None else f'{self.year}-{date}'} {clock.removesuffix('.000')}"


@lru_cache(maxsize=512)
def source_of(line: str) -> Source:
    """The source of a line."""
    node, line = _unwrap(line)
    if ip := _NODE_IP.search(line):
        node = ip[1]
    if outer := _OUTER.match(line):
        line = line[outer.end() :]
    rank = _number(_RANKS, line)
    worker = _WORKER.search(line) if rank is None else None
    pid = _number(_PIDS, line)
    return Source(rank, worker[1] if worker else None, pid, node)


def _number(patterns: Iterable[re.Pattern[str]], line: str) -> int | None:
    """The first rank or process that one of the patterns finds; more digits than either can have are none."""
    found = (pattern.search(line) for pattern in patterns)
    return next((int(one[1]) for one in found if one and len(one[1]) <= _MOST_DIGITS), None)


def _unwrap(line: str) -> tuple[str | None, str]:
    """The node that a launcher puts before a line, and the line without what wraps it."""
    found = _WRAPPED.match(line)
    node = next(filter(None, found.groups()), None) if found else None
    return node, line[found.end() :] if found else line


def message_of(line: str) -> str:
    """A line without what a container's log, pdsh or a launcher puts before it."""
    return _unwrap(line)[1]


def source_of_file(name: str) -> Source:
    """The source of a file, by its name: `rank_3.log`, `attempt_0/3/stderr.log`, `plog-118_20250401.log`."""
    for pattern, what in _IN_NAME:
        if found := pattern.search(name):
            return Source(rank=int(found[1])) if what == "rank" else Source(pid=int(found[1]))
    return NOBODY


def moment_of(line: str) -> Moment | None:
    """The time stamp of a line."""
    if found := _DATE.search(line):
        year, month, day, hour, minute, second, fraction, more = found.groups()
        zone = _ZONE.match(line, found.end())
        clock = (hour, minute, second)
        return _moment(int(year), month, day, clock, (fraction or "") + (more or ""), _zone_s(zone))
    if found := _US_DATE.search(line):
        month, day, year, hour, minute, second = found.groups()
        return _moment(int(year), month, day, (hour, minute, second), None)
    if found := _SHORT_DATE.search(line):
        spelled, year, short, day, hour, minute, second, fraction = found.groups()
        return _moment(int(year) if year else None, spelled or short, day, (hour, minute, second), fraction)
    found = _CTIME.search(line)
    if found and found[1] in _MONTHS:
        return _moment(int(found[6]), str(_MONTHS.index(found[1]) + 1), found[2], (found[3], found[4], found[5]), None)
    found = _SYSLOG.search(line)
    if found and found[1] in _MONTHS:
        return _moment(None, str(_MONTHS.index(found[1]) + 1), found[2], (found[3], found[4], found[5]), found[6])
    return None


def _zone_s(found: re.Match[str] | None) -> int | None:
    if found is None:
        return None
    if found["sign"] is None:
        return 0
    seconds = int(found["hours"]) * 3600 + int(found["minutes"]) * 60
    return -seconds if found["sign"] == "-" else seconds


def _moment(
    year: int | None,
    month: str,
    day: str,
    clock: tuple[str, str, str],
    fraction: str | None,
    zone_s: int | None = None,
) -> Moment | None:
    hour, minute, second = map(int, clock)
    if not (1 <= int(month) <= 12 and 1 <= int(day) <= 31 and hour < 24 and minute < 60 and second < 62):
        return None
    clock_s = hour * 3600 + minute * 60 + second + float(f"0.{fraction or 0}")
    return Moment(year, int(month), int(day), clock_s, zone_s)


def gravity_of(line: str) -> float:
    """The weight of a line by its level, 0 to 1; one without a level has weight 1, one that only quotes has little."""
    if _QUOTES.search(line) or _IGNORED.search(line):
        return QUOTED
    found = _LEVEL.search(line)
    if not found:
        return 1.0
    level = next(filter(None, found.groups())).lower()
    if level == "warning" and _EVENT.search(line):
        return 1.0
    return 0.8 if level == "event" else _GRAVE.get("e" if level == "exception" else level[0], 1.0)


def advice_begins(line: str) -> int:
    """The position at which the advice of a line begins, after the report of what happened."""
    found = _ADVICE.search(line)
    return found.start() if found else len(line)


def sentence_of(line: str) -> str | None:
    """What a line of CANN says in plain words, without codes, times and places in the source; None for a mere frame."""
    text = _DETAIL.split(line)[-1]
    text = " ".join(_ASIDE.sub(" ", text).split()).strip(" :,.")
    return in_short(text, 300) if text.count(" ") >= 2 and not _WRAPPING.search(text) else None


def in_short(text: str, most: int) -> str:
    """At most so many characters of a text, cut between two words, so that no name or code is cut in the middle."""
    if len(text) <= most:
        return text
    cut = text.rfind(" ", 0, most - 3)
    if cut <= 0:
        text = mask(text)  # a part of a credential has no shape of one
    return f"{text[: cut if cut > 0 else most - 3]} ..."[:most]
