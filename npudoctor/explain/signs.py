"""What the text of a log shows beside known issues: a container, any failure, the place in the program, and packages
of different releases, which only the frames above an exception tell from a mistake of the program."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from enum import IntEnum

from ahocorasick_rs import BytesAhoCorasick

from npudoctor.explain.lines import Source, source_of

_CONTAINER = re.compile(
    rb"^\S{20,40} std(?:out|err) [FP] |^\{\"log\":|\w@[0-9a-f]{12}[: ]|\b[Dd]ocker\b|\bcontainerd\b|\bkube(?:let|ctl)\b"
    rb"|/\.dockerenv|/vllm-workspace/|\b[Kk]ubernetes\b|\bkubepods\b|\bpods?/|\bnerdctl\b|\bpodman\b",
    re.MULTILINE,
)
_ERRORS = (b"ssh exited with exit code ", b"ERROR", b"Traceback", b"Error:", b"FATAL", b"CRITICAL", b"Exception")
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
_PACKAGE = re.compile(
    r"/(?:(?:site|dist)-packages|(?:vllm|sgl)-workspace/[\w.-]{1,60}(?:/python)?|vllm(?:-ascend)?(?=/vllm(?:_ascend)?/))"
    r"/(?P<name>[A-Za-z_]\w{0,60})[/.]"
)
_BELOW = re.compile(
    r"/(?:site|dist)-packages/(?:torch|functorch|mindspore/(?:nn/cell|common|ops)|mmengine/registry|hydra|fire|click|typer|jsonargparse|absl|wrapt"
    r"|decorator|pluggy)\b|/lib(?:64)?/python3?[\d.]{0,8}/(?!site-|dist-)|^<"
)
"""Files of torch, of Python itself and of packages that pass the calls of others on."""

_REFUSED_CALL = re.compile(
    r"TypeError: (?!Ascend|NPU|npu_)(?:[\w.]{1,100}\.)?[A-Z]\w{0,60}(?:\.\w{1,60})?\(\) "
    r"(?:got an unexpected keyword argument|missing \d{1,3} required|takes (?:from )?\d{1,3} )"
    r"|TypeError: [\w.]{1,160}\(\): incompatible function arguments"
    r"|cannot import name '\w{1,80}' from '(?P<package>\w{1,60})"
    r"|(?P<plugin>'(?:Ascend|NPU)[A-Z]\w{1,60}' object has no attribute)"
    r"|(?P<cuda>Torch not compiled with CUDA enabled)"
)
"""What a class or module of another release answers; also CUDA, which transformers asks an old torch for."""

_FAILED_IMPORT = re.compile(r"(?:AttributeError|TypeError): (?!.{0,40}partially initialized|'Namespace')")
"""What the body of a module raises while it is imported, where a name of another package is not as it expects."""

_OWN_CALL = (
    re.compile(r"No module named '(?P<package>[A-Za-z]\w{0,60})\."),
    re.compile(r"TypeError: (?P<plugin>(?:Ascend|NPU)[A-Z]\w{0,60}\.|\w{0,60}_(?:ascend|npu)_\w{0,60}\()"),
    re.compile(r"AttributeError: (?P<plugin>'(?:Ascend|NPU)[A-Z]\w{1,60}' object has no attribute)"),
)
"""A module that a package misses of itself, and a function or class of vllm-ascend."""

_REFUSED_IN_VLLM = re.compile(
    r"\(\) (?:got an unexpected keyword argument|missing \d{1,3} required|takes (?:from )?\d{1,3} )"
    r"|\(\): incompatible function arguments"
)
_OF_VLLM = re.compile(
    r"/vllm(?:_ascend)?/|\(EngineCore|\((?:Vllm)?Worker(?:_|Proc)|\b(?:Ascend|NPU)[A-Z]\w{2,60}\."
    r"|\b(?:\w{0,30}(?:Scheduler|ModelRunner|MetadataBuilder)|InputBatch)\.\w"
    r"|\[(?:core|multiproc_executor|async_llm|patch_\w{1,40})\.py:\d"
)
_VLLM = (None, "vllm", "vllm_ascend")
"""Packages between which a refused call tells nothing: 8 of 13 such reports were of faults of the plug-in."""

_ASK_FOR_CUDA = frozenset({"transformers", "accelerate"})
"""Packages that know NPUs: where they ask for CUDA, they are newer than this torch (transformers 4.50 on torch 2.2)."""

_HAVE_PLUGIN = frozenset({"vllm_omni", "verl", "trl", "swift"})
"""Packages that use the classes of vllm-ascend: what these lack is of another release."""

_COMPILED_PART = re.compile(
    r"(?:No module named|cannot import name '\w{1,60}' from) '(?P<package>\w{1,60})\.(?:_\w{1,60}|version)'"
)
"""A part of a package that only its build makes."""

FROM_SOURCE = "a package imported from its source folder"
"""By what it is found that a source folder hides an installed package."""

CALL_BETWEEN_PACKAGES = "a call between installed packages"
"""By what a package mismatch is found where no expression says it."""

_TRACEBACK = 200
"""The most lines of a traceback that are searched."""


_LEVELS = BytesAhoCorasick([*_ERRORS, *_COMPLAINTS])


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
    found = {number for number, _, _ in _LEVELS.find_matches_as_indexes(block, overlapping=True)}
    if found and min(found) < len(_ERRORS):
        return Complaint.ERROR
    return Complaint.WORD if found else Complaint.NONE


def place_of(above: Iterable[str], source: Source) -> str | None:
    """The last frame outside installed packages, `FILE:LINE`, in the lines above an exception, the nearest first."""
    own = (frame for frame in _frames(above, source) if not _INSTALLED.search(frame["file"]))
    return next((f"{frame['file']}:{frame['line']}" for frame in own), None)


def is_call_between_packages(line: str, above: Iterable[str], source: Source) -> bool:
    """Whether an installed package, and not the program, made the call that another package refuses.

    `above` are the lines above the exception, the nearest first. A package fits its own functions: what it calls
    otherwise is of a release that it was not made for; so is what its modules miss while they are imported.
    """
    refused, failed = _REFUSED_CALL.search(line), _FAILED_IMPORT.search(line)
    if not (refused or failed):
        return False
    nearest = _nearest(above, source)
    name = _package(nearest)
    if nearest is None or name is None:
        return False
    if failed and name != "torch_npu" and nearest.string.rstrip().endswith(", in <module>"):
        return True
    if refused and refused["cuda"]:
        return name in _ASK_FOR_CUDA
    if refused and refused["plugin"]:
        return name in _HAVE_PLUGIN
    return refused is not None and name != refused["package"]


def is_call_within_a_package(line: str, above: Iterable[str], source: Source) -> bool:
    """Whether an installed package refuses what it asks of itself: a fault of this package, whatever the others are."""
    refused = next(filter(None, (one.search(line) for one in _OWN_CALL)), None)
    if refused is None:
        return False
    return _package(_nearest(above, source)) == (refused.groupdict().get("package") or "vllm_ascend")


def is_call_within_vllm(line: str, above: Iterable[str], source: Source) -> bool:
    """Whether vLLM and its plug-in do not agree on a call: their releases may not fit, or the plug-in has a fault."""
    if not _REFUSED_IN_VLLM.search(line):
        return False
    frames = list(_frames(above, source))
    nearest = next((frame for frame in frames if not _BELOW.search(frame["file"])), None)
    if _package(nearest) not in _VLLM:
        return False
    return _OF_VLLM.search(line) is not None or any(_OF_VLLM.search(frame["file"]) for frame in frames)


def is_from_source(line: str, above: Iterable[str], source: Source) -> bool:
    """Whether a package that lacks its compiled part was imported from its source folder."""
    missing = _COMPILED_PART.search(line)
    nearest = _nearest(above, source) if missing else None
    if missing is None or nearest is None or _PACKAGE.search(nearest["file"]):
        return False
    folders = nearest["file"].split("/")[:-1]
    return missing["package"] in folders


def _nearest(above: Iterable[str], source: Source) -> re.Match[str] | None:
    """The last frame that makes a call of its own."""
    return next((frame for frame in _frames(above, source) if not _BELOW.search(frame["file"])), None)


def _package(frame: re.Match[str] | None) -> str | None:
    """The installed package that a frame is in."""
    found = _PACKAGE.search(frame["file"]) if frame else None
    return found["name"] if found else None


def _frames(above: Iterable[str], source: Source) -> Iterator[re.Match[str]]:
    """The frames of the traceback that ends an exception, the last call first."""
    for number, line in enumerate(above):
        if number >= _TRACEBACK:
            break
        frame, begins = _FRAME.search(line), "Traceback (most recent call last)" in line
        if not (frame or begins) or (source.known and not source.shares(source_of(line))):
            continue
        if begins:
            break
        if frame:
            yield frame
