"""Whether this node can train: what a few seconds of real training on all NPUs showed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from npudoctor.facts.node.smoke import SmokeRun
from npudoctor.sdk import Evidence, Finding, check

from ._smoke import judge_stage, subject_of
from .messages import smoke as messages

BEFORE = (
    *("npu.present", "container.devices", "driver.installed", "driver.access", "cann.installed", "cann.environment"),
    *("env.visible-devices", "python.torch", "python.torch-npu", "python.pairing", "python.import-torch"),
    *("python.import-torch-npu", "python.devices"),
)
"""Checks whose error explains why no rank could work."""


@check("smoke.launch", tags=("smoke",), profile="full", after=BEFORE)
def all_ranks_start(run: SmokeRun) -> Iterator[Finding]:
    """Start of all ranks of the smoke run.

    A job whose ranks do not all start waits for the missing ones until it times out.
    """
    yield from judge_stage(run, "launch")
    if run.left_behind:
        yield messages.LEFT_BEHIND.finding(
            pids=run.left_behind,
            count=len(run.left_behind),
            evidence=(
                Evidence(
                    source="/proc",
                    expected=messages.NONE.text(),
                    actual=", ".join(map(str, run.left_behind)),
                ),
            ),
        )


@check("smoke.rendezvous", tags=("smoke",), profile="full", after=("smoke.launch",))
def the_ranks_find_each_other(run: SmokeRun) -> Iterator[Finding]:
    """Rendezvous of all ranks of the smoke run.

    The ranks build their communicator. Ports, interfaces, host names and links between NPUs are used for the first
    time.
    """
    yield from judge_stage(run, "rendezvous")


@check("smoke.collectives", tags=("smoke",), profile="full", after=("smoke.rendezvous",))
def collectives_are_right(run: SmokeRun) -> Iterator[Finding]:
    """Results of collectives on every rank.

    Values are compared in each data type of the product: a stub library or a broken link returns success with wrong
    data.
    """
    yield from judge_stage(run, "collectives")
    if not run.wrong:
        return
    first = run.wrong[0]
    ranks = sorted({one.rank for one in run.wrong})
    slots = sorted({slot for one in run.wrong for slot in one.slots})
    evidence = tuple(
        Evidence(
            source=messages.RESULT_ON_RANK.text(operation=one.operation, dtype=one.dtype, rank=one.rank),
            expected=one.expected,
            actual=one.actual,
        )
        for one in run.wrong[:4]
    )
    idle = [one for one in run.wrong if one.operation == "arithmetic"]
    if idle and len(idle) == len(run.stages):
        yield messages.NO_ARITHMETIC.finding(
            actual=idle[0].actual,
            commands=("npudoctor check cann.libraries cann.ops cann.environment",),
            evidence=evidence,
        )
        return
    if all(one.unchanged for one in run.wrong):
        yield messages.NO_EFFECT.finding(
            commands=("npudoctor check cann.libraries cann.environment",), evidence=evidence
        )
        return
    blamed = slots or (ranks if len(ranks) < run.world_size else [])
    params: dict[str, Any] = {
        "operation": first.operation,
        "dtype": first.dtype,
        "actual": first.actual,
        "expected": first.expected,
    }
    message = messages.WRONG_INPUT if slots else messages.WRONG_RESULT
    for rank in blamed:
        yield message.finding(
            subject=subject_of(run, rank),
            rank=rank,
            commands=("npudoctor check npu python.device-math --profile full",),
            evidence=evidence,
            **params,
        )
    if not blamed:
        yield messages.WRONG_EVERYWHERE.finding(commands=("npudoctor smoke --cards 0,1",), evidence=evidence, **params)


@check("smoke.training", tags=("smoke",), profile="full", after=("smoke.rendezvous", "smoke.collectives"))
def the_model_learns(run: SmokeRun) -> Iterator[Finding]:
    """Training loss finite and falling.

    A small model is trained on all NPUs, the whole path of a job: data, forward, backward, gradients, optimizer.
    """
    yield from judge_stage(run, "training")
    bad = [(losses.index(None), rank) for rank, losses in run.losses.items() if None in losses]
    if bad:
        step = min(bad)[0]
        ranks = [rank for at, rank in sorted(bad) if at == step]
        invalid = messages.GRADIENTS_LOST.text() if len(ranks) < run.world_size else None
        yield messages.NOT_FINITE.finding(
            subject=subject_of(run, ranks[0]) if len(ranks) == 1 else "host",
            ranks=ranks,
            count=len(ranks),
            step=step,
            detail=invalid,
            commands=("npudoctor check python.device-math --profile full",),
            evidence=(
                Evidence(
                    source=messages.RANKS_REPORTED.text(),
                    expected=messages.FINITE_LOSSES.text(),
                    actual=messages.NOT_FINITE_FROM.text(step=step),
                ),
            ),
        )
        return
    mean = [loss for loss in run.mean_losses() if loss is not None]
    quarter = max(1, len(mean) // 4)
    if len(mean) < 4:
        return
    early, late = sum(mean[:quarter]) / quarter, sum(mean[-quarter:]) / quarter
    if not late < early:
        yield messages.LOSS_NOT_FALLING.finding(
            early=early,
            late=late,
            commands=("npudoctor check python.device-math cann.libraries cann.ops --profile full",),
            evidence=(
                Evidence(
                    source=messages.RANKS_REPORTED.text(),
                    expected=messages.BELOW.text(early=early),
                    actual=f"{late:.4f}",
                ),
            ),
        )


@check("smoke.in-sync", tags=("smoke",), profile="full", after=("smoke.rendezvous", "smoke.training"))
def the_ranks_stay_in_sync(run: SmokeRun) -> Iterator[Finding]:
    """Parameters equal and data distinct on all ranks.

    Ranks out of sync train as many models as there are NPUs; ranks that receive the same data waste all but one.
    """
    yield from judge_stage(run, "in-sync")
    digests = run.of_all("digest")
    common = max(set(digests.values()), key=list(digests.values()).count, default=None)
    odd = [rank for rank, digest in digests.items() if digest != common]
    if odd:
        evidence = tuple(
            Evidence(source=messages.DIGEST.text(rank=rank), expected=common, actual=digest)
            for rank, digest in sorted(digests.items())[:4]
        )
        commands = ("npudoctor check python.device-math --profile full",)
        if len(odd) < len(digests) / 2:
            yield messages.RANKS_DIFFER.finding(
                subject=subject_of(run, odd[0]) if len(odd) == 1 else "host",
                ranks=sorted(odd),
                count=len(odd),
                commands=commands,
                evidence=evidence,
            )
        else:
            yield messages.ALL_RANKS_DIFFER.finding(commands=commands, evidence=evidence)
    yield from _shards(run)


def _shards(run: SmokeRun) -> Iterator[Finding]:
    seen: dict[int, int] = {}
    for rank, samples in run.of_all("samples").items():
        for sample in samples:
            if sample in seen and seen[sample] != rank:
                yield messages.SAME_DATA.finding(
                    first=seen[sample],
                    second=rank,
                    evidence=(
                        Evidence(
                            source=messages.RANKS_REPORTED.text(),
                            expected=messages.NO_OVERLAP.text(),
                            actual=messages.SAMPLE.text(sample=sample),
                        ),
                    ),
                )
                return
            seen[sample] = rank
