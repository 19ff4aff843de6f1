"""Whether this node can train: what a few seconds of real training over all cards showed."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from npudoctor import knowledge
from npudoctor.facts.smoke import STAGES, SmokeFailure, SmokeRun
from npudoctor.sdk import Because, Evidence, Finding, NotApplicable, Severity, Unavailable, check

BEFORE = (
    *("npu.present", "container.devices", "driver.installed", "driver.access", "cann.installed", "cann.environment"),
    *("env.visible-devices", "python.torch", "python.torch-npu", "python.pairing", "python.import-torch"),
    *("python.import-torch-npu", "python.devices"),
)
"""Whose error explains why no rank could do its work."""

TOLERANCE = {"fp32": 0.002, "fp16": 0.02, "bf16": 0.05}
"""How far, relative to the reference, a loss may lie off it."""

TOLERANCE_910 = 0.02
"""The same for fp32 on the 910, whose products are made in fp16."""

STRAGGLER_SHARE, STRAGGLER_S = 1.2, 0.002
EFFICIENCY = 0.75
"""Below 6 times the speed on 8 cards."""

MEMORY_MB = 100
"""What a rank takes at the least on its card: the context alone is more."""

_TRIED = "what the ranks of `npudoctor smoke` reported"


def _judged(run: SmokeRun, stage: str) -> Iterator[Finding]:
    """The findings on the ranks that broke in this stage; raises Unavailable where the run never came so far."""
    if stage not in run.planned:
        raise NotApplicable(f"this run has no stage {stage}")
    broken = run.broken_in
    if broken is None:
        if any(stage not in done for done in run.stages.values()) or len(run.stages) == 0:
            raise Unavailable(f"the run ended before {stage}", because=Because.TIMED_OUT)
        return
    if broken == stage:
        yield from _failures(run, stage)
    elif STAGES.index(broken) < STAGES.index(stage):
        raise Unavailable(f"the run broke in {broken}", blocked_by=f"smoke.{broken}")


def _failures(run: SmokeRun, stage: str) -> Iterator[Finding]:
    blamed = [one for one in run.failures if one.first]
    waited = [one.rank for one in run.failures if not one.first]
    if not blamed:
        one = run.failures[0]
        yield _finding([one], f"all ranks are stuck in {one.doing or stage}, and none is ahead of the others", stage)
        return
    groups: dict[str, list[SmokeFailure]] = {}
    for one in blamed:
        groups.setdefault(_said(one) or str(one.rank), []).append(one)
    for group in groups.values():
        who = _named(group) if len(group) < run.world_size or run.world_size == 1 else f"all {len(group)} ranks"
        others = f" ({_ranks(waited)} only waited)" if waited else ""
        yield _finding(group, f"{who} {_what(group[0])}{others}", stage)


def _named(group: Sequence[SmokeFailure]) -> str:
    names = [f"rank {one.rank}" + (f" on {one.card}" if one.card else "") for one in group]
    return ", ".join(names)


def _said(one: SmokeFailure) -> str:
    """The first line of its complaint, without the numbers that differ from rank to rank."""
    return re.sub(r"\d+", "", (one.message or "").partition("\n")[0])


def _ranks(ranks: Sequence[int]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {', '.join(map(str, sorted(ranks)))}"


def _what(one: SmokeFailure) -> str:
    where = f" in {one.stage}" + (f", at {one.doing}" if one.doing else "")
    if one.cause == "signal":
        return f"was ended by {one.signal}{where}"
    if one.cause == "exit":
        return f"exited{'' if one.exit_code is None else f' with status {one.exit_code}'}{where} without a word"
    if one.cause == "no-start":
        return f"ended before it could report{where}"
    if one.cause == "hang":
        return f"hangs{where}" + (" (it is stopped)" if one.state == "T" else "")
    if one.cause == "world-size":
        return f"cannot take part: {one.message}"
    return f"failed{where}: {(one.message or '').splitlines()[0][:160]}"


def _finding(group: Sequence[SmokeFailure], summary: str, stage: str) -> Finding:
    one = group[0]
    known = [pitfall for id in one.pitfalls if (pitfall := knowledge.pitfalls().pitfall(id)) is not None]
    evidence = [Evidence(source=f"rank {one.rank} in {stage}", expected="comes through", actual=_heard(one))]
    if one.last_line:
        evidence.append(Evidence(source=f"last line of the log of rank {one.rank}", actual=one.last_line))
    if one.stack:
        frames = [line.strip() for line in one.stack.splitlines() if line.strip().startswith("File")]
        evidence.append(Evidence(source=f"stack of rank {one.rank}", actual=" < ".join(frames[:4])))
    if one.codes:
        evidence.append(Evidence(source=f"error codes of rank {one.rank}", actual=", ".join(one.codes)))
    foreseen = list(dict.fromkeys(id for pitfall in known for id in pitfall.foreseen_by))
    foreseen = [id for id in foreseen if not id.startswith("smoke.")]
    commands = (f"npudoctor check {' '.join(foreseen[:3])}",) if foreseen else ()
    return Finding(
        subject=one.card if one.card and len(group) == 1 else "host",
        summary=summary,
        detail=f"{known[0].title}. {known[0].cause}" if known else "; ".join(one.codes) or one.message,
        hint=(known[0].fix[0] if known and known[0].fix else _advice(one)),
        commands=(*commands, "npudoctor smoke --keep-logs ./smoke-logs"),
        evidence=tuple(evidence),
        pitfall=known[0].id if known else None,
    )


def _heard(one: SmokeFailure) -> str:
    since = f"last heard of {one.since_s:g} s before" if one.since_s is not None else "never heard of"
    return f"{one.cause}, {since}"


def _advice(one: SmokeFailure) -> str:
    if one.signal == "SIGKILL":
        return "Somebody or the kernel killed it: look for the out-of-memory killer in `dmesg`, and at cgroup limits."
    if one.signal in ("SIGSEGV", "SIGABRT", "SIGBUS"):
        return "A library crashed: `npudoctor check python cann` looks for versions that do not fit each other."
    if one.cause == "hang":
        return "The stack shows where it stands; the kept logs and ~/ascend/log/debug/plog hold what it said before."
    return "The kept logs, and ~/ascend/log/debug/plog of this process, hold the rest; see `npudoctor explain --log`."


def _soft(run: SmokeRun) -> Severity:
    """A warning on cards; on the CPU only the machinery is tested."""
    return Severity.WARNING if run.device == "npu" else Severity.INFO


def _subject(run: SmokeRun, rank: int) -> str:
    return run.cards.get(rank, "host")


@check("smoke.launch", tags=("smoke",), profile="full", after=BEFORE)
def all_ranks_start(run: SmokeRun) -> Iterator[Finding]:
    """All ranks of the smoke run start and import torch.

    A job whose ranks do not all start waits for the missing ones until its time is up.
    """
    yield from _judged(run, "launch")
    if run.left_behind:
        pids = ", ".join(map(str, run.left_behind))
        yield Finding(
            summary=f"processes of the smoke run cannot be ended: {pids}",
            detail="A process that the kernel cannot end waits for a driver or a file system that does not answer.",
            evidence=(Evidence(source="/proc", expected="none", actual=pids),),
        )


@check("smoke.rendezvous", tags=("smoke",), profile="full", after=("smoke.launch",))
def the_ranks_find_each_other(run: SmokeRun) -> Iterator[Finding]:
    """The ranks of the smoke run find each other and build their communicator.

    Here ports, interfaces, host names and the links of the cards are used for the first time.
    """
    yield from _judged(run, "rendezvous")


@check("smoke.collectives", tags=("smoke",), profile="full", after=("smoke.rendezvous",))
def collectives_are_right(run: SmokeRun) -> Iterator[Finding]:
    """Collectives give the right values on every rank, in each data type that the product has.

    The values are compared, since a stub library, or a broken link, returns success with the wrong data.
    """
    yield from _judged(run, "collectives")
    if not run.wrong:
        return
    first = run.wrong[0]
    ranks = sorted({one.rank for one in run.wrong})
    slots = sorted({slot for one in run.wrong for slot in one.slots})
    evidence = tuple(
        Evidence(source=f"{one.operation} {one.dtype} on rank {one.rank}", expected=one.expected, actual=one.actual)
        for one in run.wrong[:4]
    )
    idle = [one for one in run.wrong if one.operation == "arithmetic"]
    if idle and len(idle) == len(run.stages):
        yield Finding(
            summary=f"arithmetic on the cards does nothing: 3 + 1 gives {idle[0].actual}, and no error is raised",
            detail="Kernels return success without computing. CANN's stub libraries, made to link against, behave so.",
            hint="Put the real libraries first on LD_LIBRARY_PATH: the driver's lib64 and CANN's lib64, not devlib.",
            commands=("npudoctor check cann.libraries cann.ops cann.environment",),
            evidence=evidence,
        )
        return
    if all(one.unchanged for one in run.wrong):
        yield Finding(
            summary="collectives return success and leave the data as it was",
            detail="Nothing was computed or sent. CANN's stub libraries, which exist to link against, behave so.",
            hint="Put the real libraries first on LD_LIBRARY_PATH: the driver's lib64 and CANN's lib64, not devlib.",
            commands=("npudoctor check cann.libraries cann.environment",),
            evidence=evidence,
        )
        return
    blamed = slots or (ranks if len(ranks) < run.world_size else [])
    what = f"{first.operation} {first.dtype} gives {first.actual}, not {first.expected}"
    does = "brings wrong values into" if slots else "gets wrong values from"
    for rank in blamed:
        yield Finding(
            subject=_subject(run, rank),
            summary=f"rank {rank} {does} collectives: {what}",
            hint="Leave this card out of jobs until it is repaired; its health and links may say more.",
            commands=("npudoctor check npu python.device-math --profile full",),
            evidence=evidence,
        )
    if not blamed:
        yield Finding(
            summary=f"collectives give wrong values on every rank: {what}",
            detail="The result is the same on all ranks, so it does not tell which one brought the wrong part.",
            hint="Halve the cards with --cards until one is left that makes it wrong.",
            commands=("npudoctor smoke --cards 0,1",),
            evidence=evidence,
        )


@check("smoke.bandwidth", tags=("smoke",), profile="full", after=("smoke.rendezvous", "smoke.collectives"))
def bandwidth_is_what_the_links_give(run: SmokeRun) -> Iterator[Finding]:
    """All-reduce is as fast as the links between the cards let it be.

    A single link that fell back makes every step of every job wait for it.
    """
    yield from _judged(run, "bandwidth")
    smoke = knowledge.baselines().smoke
    limits = smoke.threshold(run.family or "", run.world_size) if run.device == "npu" else None
    rows = [row for row in run.bandwidth if row.size_bytes >= smoke.min_judged_mib << 20]
    if limits is None or not rows:
        return
    best = max(rows, key=lambda row: row.bus_gb_s)
    if best.bus_gb_s < limits[0]:
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


@check("smoke.training", tags=("smoke",), profile="full", after=("smoke.rendezvous", "smoke.collectives"))
def the_model_learns(run: SmokeRun) -> Iterator[Finding]:
    """A small model trained over all cards learns: its loss is finite and falls.

    This is the whole path of a job: data, forward, backward, gradients over all cards, optimizer.
    """
    yield from _judged(run, "training")
    bad = [(losses.index(None), rank) for rank, losses in run.losses.items() if None in losses]
    if bad:
        step = min(bad)[0]
        ranks = [rank for at, rank in sorted(bad) if at == step]
        yield Finding(
            subject=_subject(run, ranks[0]) if len(ranks) == 1 else "host",
            summary=f"the loss of {_ranks(ranks)} is not finite at step {step}",
            detail="From there on the gradients of all ranks are spoilt." if len(ranks) < run.world_size else None,
            hint="A card that computes NaN where others do not is suspect; test it alone with device math.",
            commands=("npudoctor check python.device-math --profile full",),
            evidence=(Evidence(source=_TRIED, expected="finite losses", actual=f"not finite from step {step} on"),),
        )
        return
    mean = [loss for loss in run.mean_losses() if loss is not None]
    quarter = max(1, len(mean) // 4)
    if len(mean) < 4:
        return
    early, late = sum(mean[:quarter]) / quarter, sum(mean[-quarter:]) / quarter
    if not late < early:
        yield Finding(
            summary=f"the loss does not fall: {early:.4f} at first, {late:.4f} at last",
            detail="Gradients or the optimizer's step are wrong; kernels may return without computing.",
            hint="See whether single cards compute right.",
            commands=("npudoctor check python.device-math cann.libraries cann.ops --profile full",),
            evidence=(Evidence(source=_TRIED, expected=f"below {early:.4f}", actual=f"{late:.4f}"),),
        )


@check("smoke.in-sync", tags=("smoke",), profile="full", after=("smoke.rendezvous", "smoke.training"))
def the_ranks_stay_in_sync(run: SmokeRun) -> Iterator[Finding]:
    """After training all ranks hold the same parameters bit by bit, and each saw data of its own.

    Ranks that drift apart train as many models as there are cards; ranks that see the same data waste all but one.
    """
    yield from _judged(run, "in-sync")
    digests = run.of_all("digest")
    common = max(set(digests.values()), key=list(digests.values()).count, default=None)
    odd = [rank for rank, digest in digests.items() if digest != common]
    if odd:
        alone = len(odd) < len(digests) / 2
        yield Finding(
            subject=_subject(run, odd[0]) if len(odd) == 1 and alone else "host",
            summary=f"{_ranks(odd)} holds other parameters than the rest"
            if alone
            else "the ranks hold different parameters after training",
            detail="Every rank applied the same averaged gradients to the same beginning; the result must be the same.",
            hint="See whether this card computes right, alone and in collectives.",
            commands=("npudoctor check python.device-math --profile full",),
            evidence=tuple(
                Evidence(source=f"digest of the parameters of rank {rank}", expected=common, actual=digest)
                for rank, digest in sorted(digests.items())[:4]
            ),
        )
    yield from _shards(run)


def _shards(run: SmokeRun) -> Iterator[Finding]:
    seen: dict[int, int] = {}
    for rank, samples in run.of_all("samples").items():
        for sample in samples:
            if sample in seen and seen[sample] != rank:
                yield Finding(
                    summary=f"ranks {seen[sample]} and {rank} saw the same data",
                    hint="The ranks do not know their numbers; see what the launcher sets RANK to.",
                    evidence=(Evidence(source=_TRIED, expected="shards without overlap", actual=f"sample {sample}"),),
                )
                return
            seen[sample] = rank


@check("smoke.parity", tags=("smoke",), profile="full", after=("smoke.rendezvous", "smoke.training"))
def the_result_is_that_of_the_cpu(run: SmokeRun) -> Iterator[Finding]:
    """The losses are those of the same training on the CPU, within what the data type allows.

    Published runs on Atlas A2 stay within 0.05 % of a GPU; more than the tolerance is a wrong kernel or a sick card.
    """
    yield from _judged(run, "parity")
    reference, mean = run.reference(), run.mean_losses()
    if not reference:
        raise Unavailable("no reference was computed")
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
            severity=_soft(run),
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
    yield from _judged(run, "scaling")
    steps = run.of_all("local_step_s")
    for rank, seconds in sorted(steps.items()):
        others = [other for one, other in steps.items() if one != rank]
        usual = sorted(others)[len(others) // 2] if others else seconds
        if seconds > STRAGGLER_SHARE * usual and seconds > usual + STRAGGLER_S:
            yield Finding(
                severity=_soft(run),
                subject=_subject(run, rank),
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
            severity=_soft(run),
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


def efficiency_of(run: SmokeRun) -> float | None:
    """Step time of rank 0 alone over the slowest rank's together; None where it was not measured."""
    alone, together = run.measured.get((0, "alone_s")), run.of_all("together_s")
    return alone / max(together.values()) if alone and together else None


@check("smoke.memory-seen", tags=("smoke",), profile="full", after=("smoke.rendezvous", "smoke.training"))
def every_card_takes_part(run: SmokeRun) -> Iterator[Finding]:
    """npu-smi shows memory taken on every card that took part.

    A rank on the wrong card, or a job that runs on one card of eight, shows here and nowhere else.
    """
    yield from _judged(run, "memory-seen")
    if not run.card_memory:
        raise Unavailable("npu-smi could not be asked during the run")
    for rank, card in sorted(run.cards.items()):
        before, during = run.card_memory.get(card, (None, None))
        if during is None or before is None:
            continue
        if during - before < MEMORY_MB:
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
