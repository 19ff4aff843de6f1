"""What npu-smi answers on this node: the table of chips, the topology, the lists, and each board.

A tool that is missing, hangs or fails is itself an answer (`NpuSmiAnswer`); the facts made of it are then unavailable
for the reason that it gives.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TypeVar

from npudoctor.facts import npu_smi
from npudoctor.facts.dcmi.answer import DCMI, LibraryAnswer, answer_or_none
from npudoctor.facts.dcmi.pages import table
from npudoctor.facts.node.container_mounts import ELSEWHERE, NPU_SMI
from npudoctor.facts.node.device_access import DeviceAccess
from npudoctor.facts.node.device_nodes import device_nodes
from npudoctor.facts.node.slices import template_of
from npudoctor.facts.npu_smi import NpuList, NpuMap, NpuSmiFailure, NpuSmiInfo, Topology
from npudoctor.facts.npu_smi.failure import line_of_failure
from npudoctor.facts.npu_smi.truncation import is_cut, lacks_processes
from npudoctor.records import record, replace
from npudoctor.sdk import (
    Because,
    Completed,
    Host,
    Maintenance,
    NotApplicable,
    Options,
    ParseError,
    Unavailable,
    probe,
)

TOOL = "npu-smi"
_UNFINISHED = "driver package may not be completely installed"


@record(frozen=True, kw_only=True)
class NpuSmiAnswer:
    """How `npu-smi info` went. `reason` says in a clause why the table is missing, None where it was read.

    `path` is where the tool lies; `seconds` is wall time; `limit_s` what it was given; `failure` is a message of the
    tool that is known; `text` is all that it printed; `warning` is what it prints below its table where the driver's
    installer did not finish. `ended_early`: its table ends before it is whole.
    """

    found: bool
    reason: str | None = None
    because: Because = Because.FAILED
    path: str | None = None
    timed_out: bool = False
    seconds: float = 0.0
    limit_s: float = 10.0
    returncode: int | None = None
    text: str = ""
    failure: NpuSmiFailure | None = None
    info: NpuSmiInfo | None = None
    warning: str | None = None
    ended_early: bool = False

    @property
    def last_line(self) -> str:
        """The last line that it printed, for evidence."""
        return _last_line(self.text) or "nothing"


def _last_line(text: str) -> str:
    return next((line.strip()[:160] for line in reversed(text.splitlines()) if line.strip()), "")


@probe(of_the_moment=True)
def npu_smi_answer(host: Host, options: Options) -> NpuSmiAnswer:
    """From `npu-smi info`; unavailable only where the tool was not run.

    Profile quick takes the answer of the driver's library for it.
    """
    limit = options.tool_timeout_s
    if options.profile == "quick" and (told := answer_or_none(host, options)) is not None:
        with contextlib.suppress(Unavailable):
            return NpuSmiAnswer(found=True, info=table(told), limit_s=limit)
    path = None
    with contextlib.suppress(Unavailable):
        path = host.which(TOOL)
    try:
        done = host.run([TOOL, "info"], timeout=limit)
    except Unavailable as why:
        if why.because is Because.NOT_RECORDED or isinstance(why, Maintenance):
            raise
        found = why.because is not Because.ABSENT
        path = path or _usual_place(host)
        return NpuSmiAnswer(found=found, path=path, reason=why.reason, because=why.because, limit_s=limit)
    text = done.stdout + done.stderr
    info, reason, failure, ended_early = None, None, None, False
    if done.timed_out:
        reason = f"`npu-smi info` did not answer within {min(limit, done.seconds) or limit:g} s"
    else:
        try:
            info = npu_smi.parse_info(done.stdout)
            if is_cut(done.stdout, info) or (lacks_processes(info) and _more_nodes(host, info)):
                reason, ended_early = _why_cut(done, info), True
                info = None
        except ParseError as problem:
            failure = npu_smi.parse_failure(text)
            reason = _why_no_table(done, failure, problem)
    return NpuSmiAnswer(
        found=True,
        reason=reason,
        because=Because.TIMED_OUT if done.timed_out else Because.FAILED,
        path=path,
        timed_out=done.timed_out,
        seconds=done.seconds,
        limit_s=limit,
        returncode=done.returncode,
        text=text,
        failure=failure,
        info=info,
        warning=next((line.strip() for line in text.splitlines() if _UNFINISHED in line), None),
        ended_early=ended_early,
    )


def _usual_place(host: Host) -> str | None:
    """Where the tool lies, though it may not be executed."""
    for path in (NPU_SMI, *ELSEWHERE[NPU_SMI]):
        with contextlib.suppress(Unavailable):
            if host.stat(path).kind == "file":
                return path
    return None


def _more_nodes(host: Host, info: NpuSmiInfo) -> bool:
    """Whether there are device nodes of chips that the table, which seems to lack its end, does not show."""
    with contextlib.suppress(Unavailable):
        return len(device_nodes(host).cards) > len(info.npus)
    return False


def _why_cut(done: Completed, info: NpuSmiInfo) -> str:
    ended = f"; it was ended by signal {-done.returncode}" if done.returncode and done.returncode < 0 else ""
    if done.truncated:
        ended = "; it printed more than 8 MiB"
    if info.idle_npus is not None:
        return f"`npu-smi info` stopped in the middle of its table of processes{ended}"
    chips = f"{len(info.npus)} {'chip' if len(info.npus) == 1 else 'chips'}"
    return f"`npu-smi info` stopped in the middle of its table, after {chips}{ended}"


def _why_no_table(done: Completed, failure: NpuSmiFailure | None, problem: ParseError) -> str:
    if failure is not None:
        said = line_of_failure(done.stdout + done.stderr) or _last_line(done.stdout + done.stderr)
        return f"`npu-smi info` failed: {said}"
    if done.truncated:
        return "`npu-smi info` printed more than 8 MiB, and no table of chips"
    if done.returncode is not None and done.returncode < 0:
        return f"`npu-smi info` was ended by signal {-done.returncode}"
    if done.returncode:
        last = _last_line(done.stdout + done.stderr)
        return f"`npu-smi info` failed with exit status {done.returncode}: {last or 'it printed nothing'}"
    if not (done.stdout + done.stderr).strip():
        return "`npu-smi info` printed nothing"
    return f"`npu-smi info` printed unexpected output: {problem}"


@probe
def npu_smi_info(
    answer: NpuSmiAnswer | None,
    access: DeviceAccess | None,
    library: LibraryAnswer | None,
    options: Options,
    host: Host,
) -> NpuSmiInfo:
    """The table of chips, from the driver's library, else as npu-smi prints it.

    Where the tool fails because this user may not reach the NPUs, that is the cause.
    """
    why = None
    if library is not None:
        try:
            found = table(library)
            return replace(found, tool_version=answer.info.tool_version) if answer and answer.info else found
        except Unavailable as problem:
            why = problem
    if options.chips_from == DCMI:
        text = "libdcmi.so gave no answer, and with --chips-from dcmi npu-smi is not used"
        raise why or Unavailable(text, because=Because.FAILED)
    if answer is None:
        answer = npu_smi_answer.function(host, options)  # raises why there is none
    if answer.info is not None:
        return answer.info
    blocked_by = "driver.access" if stopped_by_access(answer, access) else None
    reason = answer.reason or "`npu-smi info` gave no table"
    raise Unavailable(reason, because=answer.because, blocked_by=blocked_by, reported_by="driver.npu-smi")


def stopped_by_access(answer: NpuSmiAnswer, access: DeviceAccess | None) -> bool:
    """Whether npu-smi fails in the way that it does where device nodes are closed to this user, or missing."""
    if answer.info is not None or access is None or not (access.denied or access.missing):
        return False
    refused = answer.failure is not None and answer.failure.ret == -8005
    return refused or "ermission denied" in answer.text


P = TypeVar("P")


def _page(host: Host, options: Options, parse: Callable[[str], P], *words: str) -> P:
    """What one more call of npu-smi says; Unavailable with the reason where that is no answer."""
    done = host.run([TOOL, *words], timeout=options.tool_timeout_s)
    return page_of(done, " ".join((TOOL, *words)), parse)


def page_of(done: Completed, command: str, parse: Callable[[str], P]) -> P:
    """What a call of npu-smi printed, as read; Unavailable with the reason where it is no answer.

    The exit status says little: a page that is not supported ends with 0, one that has values may end with another.
    """
    if done.timed_out:
        raise Unavailable(f"`{command}` did not answer within {done.seconds:.3g} s", because=Because.TIMED_OUT)
    try:
        return parse(done.stdout)
    except ParseError as problem:
        text = done.stdout + done.stderr
        failure, said = npu_smi.parse_failure(text), line_of_failure(text)
        if failure is None:
            reason = f"`{command}` printed unexpected output: {problem}"
            raise Unavailable(reason, because=Because.FAILED) from None
    if failure.cause == "not_supported_in_container":
        raise NotApplicable(f"`{command}` does not work in a container or a virtual machine: {said}")
    if said is None:
        raise Unavailable(f"`{command}` failed: it printed only its usage", because=Because.FAILED)
    if failure.cause in ("not_supported", "command_not_understood"):
        raise NotApplicable(f"`{command}` is not supported by this product, or not for a vNPU: {said}")
    because = Because.NO_RIGHT if failure.cause == "permission_denied" else Because.FAILED
    raise Unavailable(f"`{command}` failed: {said}", because=because)


@probe
def topology(host: Host, options: Options, info: NpuSmiInfo) -> Topology:
    """From `npu-smi info -t topo`."""
    if info.npus and all(template_of(chip.name) for chip in info.npus):
        raise NotApplicable("vNPUs have no links to each other")
    found = _page(host, options, npu_smi.parse_topology, "info", "-t", "topo")
    rows = sum(1 for row in found.matrix if len(row) == len(found.devices))
    if rows < len(found.devices):
        problem = f"its matrix has {rows} whole rows for {len(found.devices)} devices"
        raise Unavailable(f"`npu-smi info -t topo` printed an incomplete page: {problem}", because=Because.FAILED)
    return found


@probe(of_the_moment=True)
def npu_list(host: Host, options: Options, _: NpuSmiInfo) -> NpuList:
    """From `npu-smi info -l`."""
    return _page(host, options, npu_smi.parse_list, "info", "-l")


@probe(of_the_moment=True)
def npu_map(host: Host, options: Options, _: NpuSmiInfo) -> NpuMap:
    """From `npu-smi info -m`."""
    return _page(host, options, npu_smi.parse_map, "info", "-m")


@record(frozen=True)
class NpuSmiVersion:
    """The version that the tool gives itself; the driver's is in its table."""

    version: str


@probe
def npu_smi_version(host: Host, options: Options, _: NpuSmiInfo) -> NpuSmiVersion:
    """From `npu-smi -v`."""
    return NpuSmiVersion(_page(host, options, npu_smi.parse_tool_version, "-v").version)
