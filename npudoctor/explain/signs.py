"""What the text of a log shows beside known issues: a container, any failure, and the place in the program."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import IntEnum

from npudoctor.explain.lines import Source, source_of

_CONTAINER = re.compile(
    rb"^\S{20,40} std(?:out|err) [FP] |^\{\"log\":|\w@[0-9a-f]{12}[: ]|\b[Dd]ocker\b|\bcontainerd\b|\bkube(?:let|ctl)\b"
    rb"|/\.dockerenv|/vllm-workspace/|\b[Kk]ubernetes\b|\bkubepods\b|\bpods?/|\bnerdctl\b|\bpodman\b",
    re.MULTILINE,
)
_ERRORS = (b"ERROR", b"Traceback", b"Error:", b"FATAL", b"CRITICAL", b"Exception")
_COMPLAINTS = (
    *(
        b"rror",
        b"xception",
        b"atal",
        b"illed",
        b"Killing",
        b"fail",
        b"Fail",
        b"bort",
        b"dumped",
        b"annot ",
        b"nable to",
    ),
    *(b"ot found", b"o such", b"enied", b"efused", b"imed out", b"imeout", b"WARN", b"arning", b"panic"),
)
_FRAME = re.compile(r"File \"(?P<file>[^\"]{1,400})\", line (?P<line>\d{1,7})\b")
_INSTALLED = re.compile(
    r"/(?:site|dist)-packages/|/lib(?:64)?/python\d|^<|/usr/local/Ascend/|/\.?(?:conda|venv)/|/bin/(?:torchrun|accelerate)$"
)
_TRACEBACK = 200
"""The most lines of a traceback that are searched."""


class Complaint(IntEnum):
    """Whether a log has a level or exception of an error, a word of a failure or a warning only, or neither."""

    NONE = 0
    WORD = 1
    ERROR = 2


def of_container(block: bytes) -> bool:
    """Whether the beginning of a log shows that it was written in a container."""
    return _CONTAINER.search(block) is not None


def complaint_of(block: bytes) -> Complaint:
    """The most severe word in a part of a log."""
    if any(word in block for word in _ERRORS):
        return Complaint.ERROR
    return Complaint.WORD if any(word in block for word in _COMPLAINTS) else Complaint.NONE


def place_of(above: Iterable[str], source: Source) -> str | None:
    """The last frame outside installed packages, `FILE:LINE`, in the lines above an exception, the nearest first."""
    for number, line in enumerate(above):
        if number >= _TRACEBACK:
            break
        if source.known and not source.shares(source_of(line)):
            continue
        if "Traceback (most recent call last)" in line:
            break
        frame = _FRAME.search(line)
        if frame and not _INSTALLED.search(frame["file"]):
            return f"{frame['file']}:{frame['line']}"
    return None
