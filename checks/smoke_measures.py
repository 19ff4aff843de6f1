"""How fast and how exactly this node trains: bandwidth, parity with the CPU, scaling, and which cards took part."""

from __future__ import annotations

import math
from collections.abc import Iterator

from npudoctor import knowledge
from npudoctor.facts.node.smoke import SmokeRun
from npudoctor.sdk import Evidence, Finding, Severity, Unavailable, check

from ._smoke import judged, soft, subject_of

TOLERANCE = {"fp32": 0.002, "fp16": 0.02, "bf16": 0.05}
"""How far, relative to the reference, a loss may lie off it."""

TOLERANCE_910 = 0.02
"""The same for fp32 on the 910, whose products are made in fp16."""

EARLIER_SHARE = 0.8
"""Of what earlier runs reached."""

STRAGGLER_SHARE, STRAGGLER_S = 1.2, 0.002
EFFICIENCY = 0.75
"""Below 6 times the speed on 8 cards."""

MEMORY_MB = 100
"""What a rank takes at the least on its card: the context alone is more."""


@check("smoke.bandwidth", tags=("smoke",), profile="full", after=("smoke.rendezvous", "smoke.collectives"))
def bandwidth_is_what_the_links_give(run: SmokeRun) -> Iterator[Finding]:
    """All-reduce is as fast as the links between the cards let it be.

    A single link that fell back makes every step of every job wait for it.
    """
    yield from judged(run, "bandwidth")
    smoke = knowledge.baselines().smoke
    limits = smoke.threshold(run.family or "", run.world_size) if run.device == "npu" else None
    rows = [row for row in run.bandwidth if row.size_bytes >= smoke.min_judged_mib << 20]
    if not rows:
        return
    best = max(rows, key=lambda row: row.bus_gb_s)
    usual = run.earlier_bus_gb_s
    if usual is not None and best.bus_gb_s < EARLIER_SHARE * usual:
        yield Finding(
            severity=Severity.WARNING,
            summary=f"all-reduce reaches {best.bus_gb_s:.1f} GB/s; earlier runs on these cards reached {usual:.1f}",
            hint="Something has changed since: compare links and error counters, and what else runs on this node.",
            commands=("npudoctor check npu.fabric npu.links npu.throttled",),
            evidence=(
                Evidence(
                    source=f"all-reduce of {best.size_bytes >> 20} MiB, bus bandwidth",
                    expected=f"at least {EARLIER_SHARE:g} of {usual:.1f} GB/s",
                    actual=f"{best.bus_gb_s:.1f} GB/s",
                ),
            ),
        )
    if limits is not None and best.bus_gb_s < limits[0]:
        yield Finding(
            severity=Severity.WARNING,
            summary=f"all-reduce over {run.world_size} cards reaches {best.bus_gb_s:.1f} GB/s, under {limits[0]:g}",
            detail=smoke.note,
            hint="Look for the odd link: `npudoctor check npu` compares links, topology and error counters.",
            commands=("npudoctor check npu.topology npu.fabric npu.links",),
            evidence=(
                Evidence(
                    source=f"all-reduce of {best.size_bytes >> 20} MiB, bus bandwidth",
                    expected=f"at least {limits[0]:g} GB/s",
                    actual=f"{best.bus_gb_s:.1f} GB/s",
                ),
            ),
        )


@check("smoke.parity", tags=("smoke",), profile="full", after=("smoke.rendezvous", "smoke.training"))
def the_result_is_that_of_the_cpu(run: SmokeRun) -> Iterator[Finding]:
    """The losses are those of the same training on the CPU, within what the data type allows.

    Published runs on Atlas A2 stay within 0.05 % of a GPU; more than the tolerance is a wrong kernel or a sick card.
    """
    yield from judged(run, "parity")
    reference, mean = run.reference(), run.mean_losses()
    if not reference:
        raise Unavailable("rank 0 computes the reference, and it is on another node")
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
        yield Finding(
            severity=soft(run),
            summary=f"the loss is {100 * worst:.2g} % off the CPU's at step {step}; {100 * tolerance:.2g} % is allowed",
            hint="See whether single cards compute right; compare with one card: npudoctor smoke --cards 0.",
            commands=("npudoctor check python.device-math --profile full",),
            evidence=(
                Evidence(
                    source=f"mean loss at step {step}",
                    expected=f"{reference[step]:.6f}",
                    actual="not finite" if actual is None else f"{actual:.6f}",
                ),
            ),
        )


@check("smoke.scaling", tags=("smoke",), profile="full", after=("smoke.rendezvous", "smoke.training"))
def no_rank_is_slow(run: SmokeRun) -> Iterator[Finding]:
    """No rank is slower than the others, and all together are as many times as fast as one, or nearly so.

    In synchronous training every card waits for the slowest one at each step.
    """
    yield from judged(run, "scaling")
    steps = run.of_all("local_step_s")
    for rank, seconds in sorted(steps.items()):
        others = [other for one, other in steps.items() if one != rank]
        usual = sorted(others)[len(others) // 2] if others else seconds
        if seconds > STRAGGLER_SHARE * usual and seconds > usual + STRAGGLER_S:
            yield Finding(
                severity=soft(run),
                subject=subject_of(run, rank),
                summary=f"rank {rank} takes {1e3 * seconds:.1f} ms for a step, the others {1e3 * usual:.1f} ms",
                detail="All ranks wait for it at every step.",
                hint="Look at the card's clock and temperature, and at what else runs on its CPUs.",
                commands=("npudoctor check npu.throttled npu.temperature npu.pcie npu.affinity system.cpu",),
                evidence=(
                    Evidence(
                        source="median of 20 steps by itself",
                        expected=f"{1e3 * usual:.2f} ms",
                        actual=f"{1e3 * seconds:.2f} ms",
                    ),
                ),
            )
    efficiency = efficiency_of(run)
    if efficiency is not None and run.size == "large" and run.world_size > 1 and efficiency < EFFICIENCY:
        yield Finding(
            severity=soft(run),
            summary=f"{run.world_size} ranks are {run.world_size * efficiency:.1f} times as fast as one",
            hint="See the bandwidth table, and whether the ranks are bound to the CPUs near their cards.",
            commands=("npudoctor check npu.affinity npu.topology",),
            evidence=(
                Evidence(
                    source="step time of one rank alone over that of all together",
                    expected=f"at least {EFFICIENCY:g}",
                    actual=f"{efficiency:.2f}",
                ),
            ),
        )
    if not steps:
        raise Unavailable("20 steps of a rank by itself did not fit into the time: no rank can be called slow")


def efficiency_of(run: SmokeRun) -> float | None:
    """Step time of rank 0 alone over the slowest rank's together; None where it was not measured."""
    alone, together = next(iter(run.of_all("alone_s").values()), None), run.of_all("together_s")
    return alone / max(together.values()) if alone and together else None


@check("smoke.memory-seen", tags=("smoke",), profile="full", after=("smoke.rendezvous", "smoke.training"))
def every_card_takes_part(run: SmokeRun) -> Iterator[Finding]:
    """npu-smi shows memory taken on every card that took part.

    A rank on the wrong card, or a job that runs on one card of eight, shows here and nowhere else.
    """
    yield from judged(run, "memory-seen")
    if not run.card_memory:
        raise Unavailable("npu-smi could not be asked during the run")
    for rank, card in sorted(run.cards.items()):
        before, during = run.card_memory.get(card, (None, None))
        if during is None or before is None:
            continue
        pid = run.pids.get(rank)
        elsewhere = [other for other, pids in run.card_pids.items() if pid in pids and other != card]
        if elsewhere and pid not in run.card_pids.get(card, ()):
            yield Finding(
                severity=Severity.WARNING,
                subject=card,
                summary=f"rank {rank} trained on {elsewhere[0]}, not on {card}",
                hint="Compare ASCEND_RT_VISIBLE_DEVICES with npu-smi's numbers.",
                commands=("npu-smi info", "npudoctor check env.visible-devices npu.count"),
                evidence=(Evidence(source=f"npu-smi info, process {pid}", expected=card, actual=elsewhere[0]),),
            )
        elif during - before < MEMORY_MB:
            yield Finding(
                severity=Severity.WARNING,
                subject=card,
                summary=f"npu-smi shows no memory taken on {card} while rank {rank} trained on it",
                detail="The rank may have trained on another card, or on the CPU.",
                hint="Compare ASCEND_RT_VISIBLE_DEVICES with npu-smi's numbers.",
                commands=("npu-smi info", "npudoctor check env.visible-devices npu.count"),
                evidence=(
                    Evidence(
                        source=f"npu-smi info, memory in use on {card}",
                        expected=f"at least {MEMORY_MB} MB more than {before:g} MB",
                        actual=f"{during:g} MB",
                    ),
                ),
            )
