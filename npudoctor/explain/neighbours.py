"""What the lines beside a line of a log say of it: its time, its rank, the frames above it, the sentence below it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from npudoctor.control_characters import visible_lines
from npudoctor.explain.endings import lines_to_prompt
from npudoctor.explain.lines import (
    NOBODY,
    QUOTED,
    Moment,
    Source,
    gravity_of,
    in_short,
    message_of,
    moment_of,
    sentence_of,
    source_of,
)
from npudoctor.explain.patterns import Found, Kind
from npudoctor.privacy.credentials import mask
from npudoctor.records import replace

_NEAR = 6
_TRACEBACK = 200
CRASHED_IMPORT, OUT_OF_HOST_MEMORY, NO_GIT_HISTORY, FAILED_BUILD, OLD_PYTHON = "P071", "P113", "P183", "P114", "P039"
CPU_WHEEL = "P038"
_PINNED = re.compile(rb"depends on torch==(\d+\.\d+(?:\.\d+)?)")
_REQUESTED = re.compile(rb"user requested torch==(\d+\.\d+(?:\.\d+)?)")
FOR_CUDA = frozenset({"P105", "P167"})
NO_LAUNCH = "P126"
_PDSH = re.compile(rb"^pdsh@\S{1,80}: (\S{1,80}): ssh exited")
_CRASH = 30
_IMPORT = re.compile(rb"import torch_npu|torch_npu/__init__\.py")
_CONTAINER = re.compile(rb"^\S{20,40} std(?:out|err) [FP] ")
_COLOR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_REPEATS = re.compile(
    r"^(?!.{0,200}\bERROR\b).{0,400}(?:\bRetrying\b(?!.{0,20}\btotal=0)|FAILED - RETRYING: "
    r"|\b[Ww]ill retry\b|\bretry(?:ing)? (?:in )?\d"
    r"|\b[Tt]rying next host\b|\((?:try|attempt|retry) \d|\b[Aa]ttempt \d{1,3}(?:/| of )\d"
    r"|Failed to connect to the meta server|Unable to connect to GCS at .{0,120}Check that)"
)
_REPEATED_BELOW = re.compile(
    r"\W{0,4}(?:Retrying\b|Trying to resume\b|Warning: Transient problem"
    r"|Connecting to \S{1,200}(?: \(\S{1,200})?\.\.\. )|(?:20\d\d-\S{8,30} )?Ign:\d"
)
"""What a program prints in or below the report of an attempt that it repeats; pip's last one has total=0."""

_BUILD = re.compile(rb"CMake|setuptools|setup\.py|git describe|CalledProcessError|metadata-generation-failed|ninja: ")
_NEWER_SYNTAX = re.compile(rb"^\s{2,40}(?:match [\w.()\[\]]{1,60}:|except\* \w|type \w{1,40} = )")
_FAILURE = re.compile(rb"xception|rror\b|ailed|ailure")
_FALLS_BACK = re.compile(rb"[Ff]all(?:ing|s)? ?back (?:to|on)\b")
_IS_REPLACED = re.compile(rb"[Ff]all(?:ing|s)? ?back (?:to|on)\b|\b(?:is|are) used\b")
_WARNS_OF_REPLACEMENT = re.compile(rb"Warning: .{0,200}[Ff]alling back (?:to|on)\b")
_OTHER_MODULE = re.compile(rb"/var/lib/dkms/(?!\w{0,12}(?:ascend|davinci|npu|drv))\w")
_CMAKE_ERROR = re.compile(rb"^CMake Error")
_LACKS = re.compile(
    rb"(?i:not ?found|find|locate|missing|requir|no such|not exist|not a |version|compil|unable|fail|install|broken)"
    rb"|CMake <|CMakeLists\.txt file"
)
"""Words by which an error of CMake says that this machine lacks something."""
_KILLED_RANK = re.compile(rb"exitcode\s{0,8}: -9\b|traceback\s{0,8}: Signal 9 \(SIGKILL\)")
_FAILED_RANK = re.compile(rb"exitcode\s{0,8}: [1-9]")
_DETAILS = 4
"""Lines above one, in which a warning says that what failed is replaced, and this line is a detail of it."""

_SUMMARY = 60
"""Lines of the summary of torchrun, with a few ranks in it."""

_SHUTDOWN = 300
"""Lines below a stop in which the next command is searched."""

_RANK_BELOW = re.compile(r"^\W{0,64}rank\s{0,16}:\s{0,16}(\d{1,9})\b", re.MULTILINE)
_LISTS_ERRORS = re.compile(r"\bvalidation errors? for \w{1,80}$")
_FIRST_ERROR = re.compile(r"(.{1,400}?) [\[(]type=")
_NAMES_SOURCE = re.compile(r"^\s{0,8}(?:\[[^\]]{1,40}\]|\([^)]{1,60}\)):?(?=\s)")
_ENDED = re.compile(r"^\W{0,64}(exitcode|traceback)\s{0,16}:\s{0,16}(\S.{0,200}?)\s{0,16}$", re.MULTILINE)


def as_text(line: bytes) -> str:
    """A line as text, without colours, and with control characters escaped."""
    text = line.decode("utf-8", "replace")
    return text if text.isprintable() else visible_lines(_COLOR.sub("", text))


def moment_near(lines: list[bytes], number: int, source: Source) -> Moment | None:
    """The time stamp of a nearby line: of the same source, then a following one, as a message precedes its details."""
    near = [*lines[number + 1 : number + 3], *reversed(lines[max(number - _NEAR, 0) : number])]
    texts = [line[:300].decode("utf-8", "replace") for line in near]
    if source.known:
        texts.sort(key=lambda text: not source.shares(source_of(text)))
    return next(filter(None, map(moment_of, texts)), None)


def lines_above(lines: list[bytes], number: int) -> Iterator[str]:
    """The lines above one, the nearest first, as far as a traceback reaches."""
    return map(as_text, reversed(lines[max(number - _TRACEBACK, 0) : number]))


def source_of_traceback(lines: list[bytes], number: int) -> Source:
    """The source of the traceback that ends here; some are named in its first line only."""
    if _bare_line(lines[number])[:1].isspace():
        return NOBODY
    for line in reversed(lines[max(number - _TRACEBACK, 0) : number]):
        if b"Traceback (most recent call last)" in line:
            return source_of(as_text(line[:300]))
        if not _bare_line(line)[:1].isspace():
            break
    return NOBODY


def _bare_line(line: bytes) -> bytes:
    """A line without what a container's log puts before it."""
    return _CONTAINER.sub(b"", line, count=1)


def is_attempt(line: str, lines: list[bytes], number: int) -> bool:
    """Whether a line reports an attempt that the program repeats, by itself or by the line below it."""
    below = as_text(lines[number + 1][:300]) if number + 1 < len(lines) else ""
    return _REPEATS.match(line[:2000]) is not None or _REPEATED_BELOW.match(below) is not None


def is_replaced(lines: list[bytes], number: int) -> bool:
    """Whether the program says in this line or in the next one that it takes something else instead."""
    return any(map(_FALLS_BACK.search, lines[number : number + 2]))


def sentence_beside(line: str, lines: list[bytes], number: int) -> str | None:
    """The first plain sentence of a line and of those below it."""
    below = (as_text(other[:2000]) for other in lines[number + 1 : number + 1 + _NEAR])
    told = (other for other in (line, *below) if gravity_of(other) > QUOTED)
    return next(filter(None, map(sentence_of, told)), None)


def fits(known: str, lines: list[bytes], number: int) -> bool:
    """Whether the lines near one allow this known issue.

    A crash is one of torch_npu where that is imported near it, or the report has the form of torch_npu's guide. What
    reported a failure and was then killed ended itself, as MindIE does, and did not run out of memory; nor did a rank
    that torchrun killed because another one had failed. That a folder is
    no repository stops builds, and no program that asks for its commit.
    A CUDA-only package that is replaced stops nothing, and a module of another device that DKMS builds no NPU.
    Syntax that is invalid is that of a newer Python only where the line is a `match` or the like. That pip has no build
    with +cpu is not the cause where the user asked for another release of torch. A host whose program printed a
    traceback was reached, whatever ssh returns.
    """
    if known == CRASHED_IMPORT:
        near = lines[max(number - _CRASH, 0) : number + _CRASH]
        dumped = number + 1 < len(lines) and lines[number + 1].strip() == b"(core dumped)"
        return dumped or any(map(_IMPORT.search, near))
    if known == NO_GIT_HISTORY and b"ot a git " in lines[number]:
        return any(map(_BUILD.search, lines[max(number - _NEAR, 0) : number + 3 * _NEAR]))
    if known == OLD_PYTHON and b"SyntaxError" in lines[number]:
        return any(map(_NEWER_SYNTAX.search, lines[max(number - 3, 0) : number]))
    if known == CPU_WHEEL and (pinned := _PINNED.search(lines[number])):
        near = lines[max(number - _NEAR, 0) : number + _NEAR]
        return not any(one[1] != pinned[1] for line in near for one in _REQUESTED.finditer(line))
    if known == FAILED_BUILD:
        above = lines[max(number - _CRASH, 0) : number + 1]
        return not any(map(_OTHER_MODULE.search, above)) and not _is_of_the_project(above)
    if known == OUT_OF_HOST_MEMORY and lines[number].strip() == b"Killed":
        return not any(map(_FAILURE.search, lines[max(number - 3, 0) : number]))
    if known == NO_LAUNCH and (host := _PDSH.search(lines[number])):
        above = lines[max(number - _TRACEBACK, 0) : number]
        return not any(line.startswith(host[1] + b": ") and b"Traceback (most" in line for line in above)
    if known in FOR_CUDA:
        above = lines[max(number - _DETAILS, 0) : number]
        return not (_IS_REPLACED.search(lines[number]) or any(map(_WARNS_OF_REPLACEMENT.search, above)))
    if known == OUT_OF_HOST_MEMORY and _KILLED_RANK.search(lines[number]):
        return not _is_ended_by_launcher(lines, number)
    return True


def _is_of_the_project(above: list[bytes]) -> bool:
    """Whether CMake ends with an error that says of nothing that it is missing: one of the project's own files."""
    if not above[-1].startswith(b"-- Configuring incomplete"):
        return False
    errors = [number for number, line in enumerate(above) if _CMAKE_ERROR.search(line)]
    return bool(errors) and not any(map(_LACKS.search, above[errors[0] + 1 : -1]))


def _is_ended_by_launcher(lines: list[bytes], number: int) -> bool:
    """Whether another rank of the summary of torchrun failed by itself, and this one is not named as the first."""
    if any(b"Root Cause" in line for line in lines[max(number - _NEAR - 2, 0) : number]):
        return False
    return any(map(_FAILED_RANK.search, lines[max(number - _SUMMARY, 0) : number + _SUMMARY]))


def with_details(found: Found, lines: list[bytes], number: int) -> Found:
    """A stop with the number of lines up to the next command in the log, where one follows; the headline of torchrun
    with how the rank below it ended; an exception of pydantic with the first error. Anything else as it is."""
    if found.kind is Kind.STOP:
        count = lines_to_prompt(map(as_text, lines[number + 1 : number + 1 + _SHUTDOWN]))
        return found if count is None else replace(found, values=(("lines", str(count)),))
    if found.kind is Kind.ROOT_CAUSE:
        return replace(found, values=tuple(sorted(_ENDED.findall(_text_below(lines, number)))[:4]))
    if found.kind is Kind.EXCEPTION and _LISTS_ERRORS.search(found.what):
        texts = (message_of(mask(as_text(line[:600]))) for line in lines[number + 1 : number + 3])
        below = " ".join(_NAMES_SOURCE.sub("", text, count=1).strip() for text in texts)
        if said := _FIRST_ERROR.match(below):
            return replace(found, what=in_short(f"{found.what}: {said[1]}", 240))
    return found


def rank_below(lines: list[bytes], number: int) -> Source | None:
    """The rank that torchrun names below its headline."""
    found = _RANK_BELOW.search(_text_below(lines, number))
    return Source(rank=int(found[1])) if found else None


def _text_below(lines: list[bytes], number: int) -> str:
    return "\n".join(mask(as_text(line[:300])) for line in lines[number + 1 : number + 2 * _NEAR])
