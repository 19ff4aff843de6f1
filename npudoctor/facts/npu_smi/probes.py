"""What npu-smi answers on this node: the table of chips, the topology, the lists, and each board.

A tool that is missing, hangs or fails is itself an answer (`NpuSmiAnswer`); the facts made of it are then unavailable
for the reason that it gives.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from npudoctor.facts import npu_smi
from npudoctor.facts.node.device_access import DeviceAccess
from npudoctor.facts.node.device_nodes import device_nodes
from npudoctor.facts.npu_smi import Board, NpuList, NpuMap, NpuSmiFailure, NpuSmiInfo, Topology
from npudoctor.facts.npu_smi.truncation import is_cut, lacks_processes
from npudoctor.records import dataclass
from npudoctor.sdk import (
    STANDARD_PLACES,
    Because,
    Completed,
    Host,
    NotApplicable,
    Options,
    ParseError,
    Unavailable,
    ask_each,
    probe,
)

TOOL = "npu-smi"


@dataclass(frozen=True, slots=True, kw_only=True)
class NpuSmiAnswer:
    """How `npu-smi info` went. `reason` says in a clause why there is no table, None where there is one.

    `path` is where the tool lies; `seconds` is wall time; `limit_s` what it was given; `failure` is a message of the
    tool that is known; `text` is all that it printed.
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

    @property
    def last_line(self) -> str:
        """The last line that it printed, for evidence."""
        return _last_line(self.text) or "nothing"


def _last_line(text: str) -> str:
    return next((line.strip()[:160] for line in reversed(text.splitlines()) if line.strip()), "")


@probe
def npu_smi_answer(host: Host, options: Options) -> NpuSmiAnswer:
    """From `npu-smi info`; unavailable only where nobody has looked."""
    limit = options.tool_timeout_s
    path = None
    with contextlib.suppress(Unavailable):
        path = host.which(TOOL)
    try:
        done = host.run([TOOL, "info"], timeout=limit)
    except Unavailable as why:
        if why.because is Because.NOT_RECORDED:
            raise
        found = why.because is not Because.ABSENT
        path = path or _usual_place(host)
        return NpuSmiAnswer(found=found, path=path, reason=why.reason, because=why.because, limit_s=limit)
    text = done.stdout + done.stderr
    info, reason, failure = None, None, None
    if done.timed_out:
        reason = f"`npu-smi info` did not answer within {min(limit, done.seconds) or limit:g} s"
    else:
        try:
            info = npu_smi.parse_info(done.stdout)
            if is_cut(done.stdout, info) or (lacks_processes(info) and _more_nodes(host, info)):
                reason = _why_cut(done, info)
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
    )


def _usual_place(host: Host) -> str | None:
    """Where the tool lies, though it may not be executed."""
    for place in STANDARD_PLACES[TOOL]:
        with contextlib.suppress(Unavailable):
            if host.stat(f"{place}/{TOOL}").kind == "file":
                return f"{place}/{TOOL}"
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
    chips = f"{len(info.npus)} {'chip' if len(info.npus) == 1 else 'chips'}"
    return f"`npu-smi info` stopped in the middle of its table, after {chips}{ended}"


def _why_no_table(done: Completed, failure: NpuSmiFailure | None, problem: ParseError) -> str:
    if failure is not None:
        return f"`npu-smi info` failed: {_last_line(done.stdout + done.stderr)}"
    if done.truncated:
        return "`npu-smi info` printed more than 8 MiB, and no table of chips"
    if done.returncode is not None and done.returncode < 0:
        return f"`npu-smi info` was ended by signal {-done.returncode}"
    if done.returncode:
        last = _last_line(done.stdout + done.stderr)
        return f"`npu-smi info` failed with exit status {done.returncode}: {last or 'it printed nothing'}"
    if not (done.stdout + done.stderr).strip():
        return "`npu-smi info` printed nothing"
    return f"`npu-smi info` printed what npudoctor does not understand: {problem}"


@probe
def npu_smi_info(answer: NpuSmiAnswer, access: DeviceAccess | None) -> NpuSmiInfo:
    """The table of chips; where the tool fails because this user may not reach the cards, that is the cause."""
    if answer.info is not None:
        return answer.info
    blocked_by = "driver.access" if stopped_by_access(answer, access) else None
    reason = answer.reason or "`npu-smi info` gave no table"
    raise Unavailable(reason, because=answer.because, blocked_by=blocked_by, reported_by="driver.npu-smi")


def stopped_by_access(answer: NpuSmiAnswer, access: DeviceAccess | None) -> bool:
    """Whether npu-smi fails in the way that it does where the device nodes are closed to this user."""
    if answer.info is not None or access is None or not access.denied:
        return False
    refused = answer.failure is not None and answer.failure.ret == -8005
    return refused or "ermission denied" in answer.text


def _page(host: Host, options: Options, *words: str) -> str:
    """What one more call of npu-smi prints; Unavailable with the reason where that is no answer."""
    done = host.run([TOOL, *words], timeout=options.tool_timeout_s)
    return answer_of(done, " ".join((TOOL, *words)))


def answer_of(done: Completed, command: str) -> str:
    """What a call of npu-smi printed; Unavailable with the reason where that is no answer."""
    if done.timed_out:
        raise Unavailable(f"`{command}` did not answer within {done.seconds:.3g} s", because=Because.TIMED_OUT)
    failure = npu_smi.parse_failure(done.stdout + done.stderr)
    if failure is None:
        return done.stdout
    said = _last_line(done.stdout + done.stderr)
    if failure.cause in ("not_supported", "not_supported_in_container", "command_not_understood"):
        raise NotApplicable(f"`{command}` is not answered by this product: {said}")
    raise Unavailable(f"`{command}` failed: {said}", because=Because.FAILED)


@probe
def topology(host: Host, options: Options, _: NpuSmiInfo) -> Topology:
    """From `npu-smi info -t topo`."""
    found = npu_smi.parse_topology(_page(host, options, "info", "-t", "topo"))
    rows = sum(1 for row in found.matrix if len(row) == len(found.devices))
    if rows < len(found.devices):
        problem = f"its matrix has {rows} whole rows for {len(found.devices)} devices"
        raise Unavailable(f"`npu-smi info -t topo` printed half a page: {problem}", because=Because.FAILED)
    return found


@probe
def npu_list(host: Host, options: Options, _: NpuSmiInfo) -> NpuList:
    """From `npu-smi info -l`."""
    return npu_smi.parse_list(_page(host, options, "info", "-l"))


@probe
def npu_map(host: Host, options: Options, _: NpuSmiInfo) -> NpuMap:
    """From `npu-smi info -m`."""
    return npu_smi.parse_map(_page(host, options, "info", "-m"))


@dataclass(frozen=True, slots=True)
class NpuSmiVersion:
    """The version that the tool gives itself; the driver's is in its table."""

    version: str


@probe
def npu_smi_version(host: Host, options: Options, _: NpuSmiInfo) -> NpuSmiVersion:
    """From `npu-smi -v`."""
    return NpuSmiVersion(npu_smi.parse_tool_version(_page(host, options, "-v")).version)


@dataclass(frozen=True, slots=True)
class Boards:
    """The board page of every NPU by its id; one whose page failed is left out, with the reason in `failed`."""

    by_npu: Mapping[int, Board]
    failed: Mapping[int, Unavailable]


@probe
def boards(host: Host, options: Options, info: NpuSmiInfo) -> Boards:
    """From `npu-smi info -t board -i N` for every NPU; not in profile quick, which asks no card by itself."""
    if options.profile == "quick":
        raise NotApplicable("profile quick asks no card by itself")
    ids = tuple(dict.fromkeys(chip.npu_id for chip in info.npus))
    commands = [(TOOL, "info", "-t", "board", "-i", str(npu_id)) for npu_id in ids]
    found: dict[int, Board] = {}
    failed: dict[int, Unavailable] = {}
    answers = ask_each(host, commands, timeout=options.tool_timeout_s)
    for npu_id, command, answer in zip(ids, commands, answers, strict=True):
        try:
            if isinstance(answer, Unavailable):
                raise answer
            found[npu_id] = npu_smi.parse_board(answer_of(answer, " ".join(command)))
        except Unavailable as why:
            failed[npu_id] = why
        except ParseError as problem:
            failed[npu_id] = Unavailable(f"`{' '.join(command)}`: {problem}", because=Because.FAILED)
    return Boards(found, failed)


@dataclass(frozen=True, slots=True)
class HealthPages:
    """The health pages of the chips that are not OK, by NPU and chip; those that could not be had are missing."""

    by_chip: Mapping[tuple[int, int | None], npu_smi.Health]


@probe
def health_pages(host: Host, options: Options, info: NpuSmiInfo) -> HealthPages:
    """From `npu-smi info -t health -i N` (`-c C` where a card has several chips), only for chips that are not OK."""
    sick = [chip for chip in info.npus if chip.health is not None and chip.health.upper() != "OK"]
    if options.profile == "quick":
        raise NotApplicable("profile quick asks no card by itself")
    found = {}
    for chip in sick:
        several = sum(other.npu_id == chip.npu_id for other in info.npus) > 1
        words = ("-c", str(chip.chip_id)) if several and chip.chip_id is not None else ()
        with contextlib.suppress(Unavailable, ParseError):
            page = _page(host, options, "info", "-t", "health", "-i", str(chip.npu_id), *words)
            found[chip.npu_id, chip.chip_id] = npu_smi.parse_health(page)
    return HealthPages(found)
