"""How fast and how exactly this node trains: bandwidth, parity with the CPU, scaling, and which NPUs were used."""

from __future__ import annotations

import math
from collections.abc import Iterator

from npudoctor import knowledge
from npudoctor.facts.node.chips import Chips
from npudoctor.facts.node.smoke import SmokeRun
from npudoctor.sdk import Evidence, Finding, NotApplicable, Unavailable, check

from ._smoke import judge_stage, soft, subject_of
from .messages import smoke as messages

TOLERANCE = {"fp32": 0.002, "fp16": 0.02, "bf16": 0.05}
"""How far a loss may differ from the reference, relative to it."""

TOLERANCE_910 = 0.02
"""The same for fp32 on the 910, whose products are made in fp16."""

EARLIER_SHARE = 0.8
"""Of what earlier runs reached."""

STRAGGLER_SHARE, STRAGGLER_S = 1.2, 0.002
EFFICIENCY = 0.75
"""Below 6 times the speed on 8 NPUs."""

MEMORY_MB = 100
"""The least that a rank allocates on its NPU: the context alone is more."""


@check("smoke.bandwidth", tags=("smoke",), profile="full", after=("smoke.rendezvous", "smoke.collectives"))
def bandwidth_is_what_the_links_give(run: SmokeRun) -> Iterator[Finding]:
    """All-reduce bandwidth.

    A single slow link makes every step of every job wait for it.
    """
    yield from judge_stage(run, "bandwidth")
    if not run.bandwidth:
        raise NotApplicable(messages.NO_BANDWIDTH.text())
    smoke = knowledge.baselines().smoke
    limits = smoke.threshold(run.family or "", run.world_size) if run.device == "npu" else None
    rows = [row for row in run.bandwidth if row.size_bytes >= smoke.min_judged_mib << 20]
    if not rows:
        return
    best = max(rows, key=lambda row: row.bus_gb_s)
    usual = run.earlier_bus_gb_s
    source = messages.BUS_BANDWIDTH.text(size_mib=best.size_bytes >> 20)
    if usual is not None and best.bus_gb_s < EARLIER_SHARE * usual:
        yield messages.BELOW_EARLIER.finding(
            reached=best.bus_gb_s,
            usual=usual,
            commands=("npudoctor check npu.fabric npu.links npu.throttled",),
            evidence=(
                Evidence(
                    source=source,
                    expected=messages.AT_LEAST_OF.text(share=EARLIER_SHARE, usual=usual),
                    actual=f"{best.bus_gb_s:.1f} GB/s",
                ),
            ),
        )
    if limits is not None and best.bus_gb_s < limits[0]:
        yield messages.BELOW_LIMIT.finding(
            reached=best.bus_gb_s,
            ranks=run.world_size,
            limit=limits[0],
            detail=smoke.note,
            commands=("npudoctor check npu.topology npu.fabric npu.links",),
            evidence=(
                Evidence(
                    source=source,
                    expected=messages.AT_LEAST_GB_S.text(limit=limits[0]),
                    actual=f"{best.bus_gb_s:.1f} GB/s",
                ),
            ),
        )


@check("smoke.parity", tags=("smoke",), profile="full", after=("smoke.rendezvous", "smoke.training"))
def the_result_is_that_of_the_cpu(run: SmokeRun) -> Iterator[Finding]:
    """Losses equal to those on the CPU.

    The tolerance depends on the data type. Published runs on Atlas A2 stay within 0.05 % of a GPU; more than the
    tolerance is a wrong kernel or a faulty NPU.
    """
    yield from judge_stage(run, "parity")
    reference, mean = run.reference(), run.mean_losses()
    if not reference:
        raise Unavailable(messages.REFERENCE_ELSEWHERE.text())
    tolerance = TOLERANCE[run.dtype]
    if run.dtype == "fp32" and run.family == "910":
        tolerance = TOLERANCE_910
    worst, step = 0.0, 0
    for place, (loss, expected) in enumerate(zip(mean, reference, strict=False)):
        off = math.inf if loss is None else abs(loss - expected) / max(abs(expected), 0.05 * reference[0])
        if off > worst:
            worst, step = off, place
    if worst > tolerance:
        actual = mean[step]
        yield messages.OFF_REFERENCE.finding(
            severity=soft(run),
            percent=100 * worst,
            step=step,
            limit_percent=100 * tolerance,
            commands=("npudoctor check python.device-math --profile full",),
            evidence=(
                Evidence(
                    source=messages.MEAN_LOSS.text(step=step),
                    expected=f"{reference[step]:.6f}",
                    actual=messages.NOT_FINITE_VALUE.text() if actual is None else f"{actual:.6f}",
                ),
            ),
        )


@check("smoke.scaling", tags=("smoke",), profile="full", after=("smoke.rendezvous", "smoke.training"))
def no_rank_is_slow(run: SmokeRun) -> Iterator[Finding]:
    """Scaling over all ranks, and stragglers.

    In synchronous training every NPU waits for the slowest one at each step.
    """
    yield from judge_stage(run, "scaling")
    steps = run.of_all("local_step_s")
    for rank, seconds in sorted(steps.items()):
        others = [other for one, other in steps.items() if one != rank]
        usual = sorted(others)[len(others) // 2] if others else seconds
        if seconds > STRAGGLER_SHARE * usual and seconds > usual + STRAGGLER_S:
            yield messages.SLOW_RANK.finding(
                severity=soft(run),
                subject=subject_of(run, rank),
                rank=rank,
                own_ms=1e3 * seconds,
                usual_ms=1e3 * usual,
                commands=("npudoctor check npu.throttled npu.temperature npu.pcie npu.affinity system.cpu",),
                evidence=(
                    Evidence(
                        source=messages.STEPS_ALONE.text(),
                        expected=f"{1e3 * usual:.2f} ms",
                        actual=f"{1e3 * seconds:.2f} ms",
                    ),
                ),
            )
    efficiency = efficiency_of(run)
    if efficiency is not None and run.size == "large" and run.world_size > 1 and efficiency < EFFICIENCY:
        yield messages.INEFFICIENT.finding(
            severity=soft(run),
            ranks=run.world_size,
            speedup=run.world_size * efficiency,
            commands=("npudoctor check npu.affinity npu.topology",),
            evidence=(
                Evidence(
                    source=messages.EFFICIENCY.text(),
                    expected=messages.AT_LEAST.text(limit=EFFICIENCY),
                    actual=f"{efficiency:.2f}",
                ),
            ),
        )
    if not steps:
        raise Unavailable(messages.TOO_FEW_STEPS.text())


def efficiency_of(run: SmokeRun) -> float | None:
    """Step time of rank 0 alone over the slowest rank's together; None where it was not measured."""
    alone, together = next(iter(run.of_all("alone_s").values()), None), run.of_all("together_s")
    return alone / max(together.values()) if alone and together else None


WHY_NOT_TESTED = ("npu.health", "npu.count", "npu.ecc", "npu.temperature", "npu.processes", "env.visible-devices")
"""Checks that tell why an NPU takes no part."""


@check(
    "smoke.memory-seen",
    tags=("smoke",),
    profile="full",
    after=("smoke.rendezvous", "smoke.training"),
    explained_by=WHY_NOT_TESTED,
)
def every_card_takes_part(run: SmokeRun, chips: Chips | None) -> Iterator[Finding]:
    """Memory in use on every NPU of the run.

    A rank on the wrong NPU, or a job that runs on one NPU of eight, is visible here and nowhere else.
    """
    yield from judge_stage(run, "memory-seen")
    if not run.card_memory:
        raise Unavailable(messages.NPU_SMI_SILENT.text())
    for chip in chips.chips if chips else ():
        if chip.subject not in run.cards.values():
            yield messages.NOT_TESTED.finding(subject=chip.subject, symptom=True, commands=("npudoctor smoke",))
    for rank, card in sorted(run.cards.items()):
        before, during = run.card_memory.get(card, (None, None))
        if during is None or before is None:
            continue
        pid = run.pids.get(rank)
        elsewhere = [other for other, pids in run.card_pids.items() if pid in pids and other != card]
        if elsewhere and pid not in run.card_pids.get(card, ()):
            yield messages.OTHER_NPU.finding(
                subject=card,
                rank=rank,
                used=elsewhere[0],
                commands=("npu-smi info", "npudoctor check env.visible-devices npu.count"),
                evidence=(Evidence(source=messages.PROCESS_ROW.text(pid=pid), expected=card, actual=elsewhere[0]),),
            )
        elif during - before < MEMORY_MB:
            yield messages.NO_MEMORY.finding(
                subject=card,
                rank=rank,
                commands=("npu-smi info", "npudoctor check env.visible-devices npu.count"),
                evidence=(
                    Evidence(
                        source=messages.MEMORY_ROW.text(npu=card),
                        expected=messages.MORE_MEMORY.text(added=MEMORY_MB, before=before),
                        actual=messages.MEMORY.text(memory_mb=during),
                    ),
                ),
            )
