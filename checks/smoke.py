"""Whether this node can train: what a few seconds of real training over all cards showed."""

from __future__ import annotations

from collections.abc import Iterator

from npudoctor.facts.node.smoke import SmokeRun
from npudoctor.sdk import Evidence, Finding, check

from ._smoke import TRIED, judged, ranks_text, subject_of

BEFORE = (
    *("npu.present", "container.devices", "driver.installed", "driver.access", "cann.installed", "cann.environment"),
    *("env.visible-devices", "python.torch", "python.torch-npu", "python.pairing", "python.import-torch"),
    *("python.import-torch-npu", "python.devices"),
)
"""Whose error explains why no rank could do its work."""


@check("smoke.launch", tags=("smoke",), profile="full", after=BEFORE)
def all_ranks_start(run: SmokeRun) -> Iterator[Finding]:
    """All ranks of the smoke run start and import torch.

    A job whose ranks do not all start waits for the missing ones until its time is up.
    """
    yield from judged(run, "launch")
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
    yield from judged(run, "rendezvous")


@check("smoke.collectives", tags=("smoke",), profile="full", after=("smoke.rendezvous",))
def collectives_are_right(run: SmokeRun) -> Iterator[Finding]:
    """Collectives give the right values on every rank, in each data type that the product has.

    The values are compared, since a stub library, or a broken link, returns success with the wrong data.
    """
    yield from judged(run, "collectives")
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
            subject=subject_of(run, rank),
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


@check("smoke.training", tags=("smoke",), profile="full", after=("smoke.rendezvous", "smoke.collectives"))
def the_model_learns(run: SmokeRun) -> Iterator[Finding]:
    """A small model trained over all cards learns: its loss is finite and falls.

    This is the whole path of a job: data, forward, backward, gradients over all cards, optimizer.
    """
    yield from judged(run, "training")
    bad = [(losses.index(None), rank) for rank, losses in run.losses.items() if None in losses]
    if bad:
        step = min(bad)[0]
        ranks = [rank for at, rank in sorted(bad) if at == step]
        yield Finding(
            subject=subject_of(run, ranks[0]) if len(ranks) == 1 else "host",
            summary=f"the loss of {ranks_text(ranks)} is not finite at step {step}",
            detail="From there on the gradients of all ranks are spoilt." if len(ranks) < run.world_size else None,
            hint="A card that computes NaN where others do not is suspect; test it alone with device math.",
            commands=("npudoctor check python.device-math --profile full",),
            evidence=(Evidence(source=TRIED, expected="finite losses", actual=f"not finite from step {step} on"),),
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
            evidence=(Evidence(source=TRIED, expected=f"below {early:.4f}", actual=f"{late:.4f}"),),
        )


@check("smoke.in-sync", tags=("smoke",), profile="full", after=("smoke.rendezvous", "smoke.training"))
def the_ranks_stay_in_sync(run: SmokeRun) -> Iterator[Finding]:
    """After training all ranks hold the same parameters bit by bit, and each saw data of its own.

    Ranks that drift apart train as many models as there are cards; ranks that see the same data waste all but one.
    """
    yield from judged(run, "in-sync")
    digests = run.of_all("digest")
    common = max(set(digests.values()), key=list(digests.values()).count, default=None)
    odd = [rank for rank, digest in digests.items() if digest != common]
    if odd:
        alone = len(odd) < len(digests) / 2
        yield Finding(
            subject=subject_of(run, odd[0]) if len(odd) == 1 and alone else "host",
            summary=f"{ranks_text(odd)} holds other parameters than the rest"
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
                    evidence=(Evidence(source=TRIED, expected="shards without overlap", actual=f"sample {sample}"),),
                )
                return
            seen[sample] = rank
