"""The NPUs that a job of the target Python sees, and whether each of them computes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from npudoctor import knowledge
from npudoctor.facts.node.chips import Chips, NodeChip
from npudoctor.facts.node.environment import JobEnvironment
from npudoctor.facts.node.holders import CardHolders, State
from npudoctor.facts.npu_smi import NpuSmiInfo
from npudoctor.facts.python.imports import TorchNpuImport
from npudoctor.facts.python.target_python import TargetPython
from npudoctor.facts.system.cpu import Cpu
from npudoctor.records import record
from npudoctor.sdk import (
    Because,
    Host,
    NotApplicable,
    Options,
    ParseError,
    Threshold,
    Unavailable,
    probe,
    probe_on_cards,
)

VISIBLE = "ASCEND_RT_VISIBLE_DEVICES"
FIRST = Threshold("device_math_first_s", 240, "s", "the first product on a device may compile its operator")
NEXT = Threshold("device_math_next_s", 60, "s", "a compiled product of this size takes milliseconds")
_START_S = 30.0


@record(frozen=True)
class JobCards:
    """The chips that a job sees, by the number that it gives them; those that the variable leaves of all."""

    chips: tuple[NodeChip, ...]
    source: str
    variable: str | None = None


@probe
def job_cards(cards: Chips, environment: JobEnvironment | None) -> JobCards:
    """All chips, or those that ASCEND_RT_VISIBLE_DEVICES names, up to the first that is not there."""
    value = environment.non_empty(VISIBLE) if environment is not None else None
    if value is None:
        return JobCards(cards.chips, cards.source)
    chosen: list[NodeChip] = []
    for part in value.split(","):
        number = int(part) if re.fullmatch(r"\s*[0-9]{1,4}\s*", part) else cards.count
        if number >= cards.count or cards.chips[number] in chosen:
            break
        chosen.append(cards.chips[number])
    return JobCards(tuple(chosen), cards.source, value)


@record(frozen=True, kw_only=True)
class CardMath:
    """A small product on one NPU against the CPU's; `skipped` says why there was none. `seconds` is wall time."""

    ok: bool | None
    error: str | None = None
    skipped: str | None = None
    max_abs_error: float | None = None
    seconds: float | None = None


@record(frozen=True)
class DeviceMath:
    """The products by the number that the job gives an NPU; `error` where none could be started."""

    cards: Mapping[int, CardMath]
    error: str | None = None


def parse_math(text: str) -> DeviceMath:
    """Read what in_target/device-math.py prints."""
    lines = [line for line in text.splitlines() if line.lstrip().startswith("{")]
    try:
        said = json.loads(lines[-1] if lines else text)
        cards = {int(number): _card(one) for number, one in said["devices"].items()}
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as problem:
        raise ParseError(f"no device results in the output: {problem}", line_number=1, line=text[:200]) from None
    error = said.get("error")
    return DeviceMath(cards, error if isinstance(error, str) and error and not cards else None)


def _card(said: Mapping[str, Any]) -> CardMath:
    error, skipped = said.get("error"), said.get("skipped")
    ok = said.get("ok")
    if skipped is None and not isinstance(ok, bool):
        raise ValueError("an NPU without a verdict")
    return CardMath(
        ok=None if skipped is not None else ok,
        error=str(error) if error else None,
        skipped=str(skipped) if skipped is not None else None,
        max_abs_error=_number(said.get("max_abs_error")),
        seconds=_number(said.get("seconds")),
    )


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


@probe_on_cards
def device_math(
    host: Host,
    python: TargetPython,
    options: Options,
    imported: TorchNpuImport,
    job: JobCards,
    info: NpuSmiInfo | None,
    holders: CardHolders | None,
    cpu: Cpu | None,
) -> DeviceMath:
    """By a product on each NPU that is idle; what holds an NPU, or memory of it, is left alone."""
    if options.profile != "full":
        raise NotApplicable("only profile full computes on NPUs: add --profile full")
    if not imported.attempt.ok:
        raise Unavailable("torch_npu cannot be imported", blocked_by="python.import-torch-npu")
    if not imported.attempt.device_count:
        raise Unavailable("torch_npu finds no device", blocked_by="python.devices")
    if info is None and host.about.source == "live":
        raise Unavailable("idle NPUs unknown: npu-smi printed no table", blocked_by="driver.npu-smi")
    count = min(len(job.chips), imported.attempt.device_count)
    busy = list(_busy_devices(job.chips[:count], holders)) if info is not None else []
    idle = [number for number in range(count) if number not in busy]
    waves = -(-len(idle) // max(1, len(cpu.allowed or ()) or cpu.logical or 1)) if cpu is not None else len(idle)
    first_s, next_s = FIRST.of(options), NEXT.of(options)
    asked = {
        "NPUDOCTOR_CARDS": ",".join(map(str, idle)),
        "NPUDOCTOR_BUSY": ",".join(map(str, busy)),
        "NPUDOCTOR_FIRST_S": f"{first_s:g}",
        "NPUDOCTOR_NEXT_S": f"{next_s:g}",
    }
    limit_s = _START_S + waves * (first_s + next_s)
    done = host.run_in_target("device-math", python.path, timeout=limit_s, environ=asked)
    if done.timed_out:
        raise Unavailable(f"NPUs timed out after {limit_s:g} s", because=Because.TIMED_OUT)
    return parse_math(done.stdout)


def _busy_devices(chips: Iterable[NodeChip], holders: CardHolders | None) -> Iterable[int]:
    """Those that a process may hold, or whose memory somebody has taken."""
    for number, chip in enumerate(chips):
        rows = holders.on(chip.npu_id, chip.chip_id) if holders is not None else ()
        used, total = chip.memory_used_mb, chip.memory_mb
        taken = used is not None and total is not None and used > knowledge.hardware().idle_limit_mb(total)
        if taken or any(row.state is not State.DEAD for row in rows):
            yield number
