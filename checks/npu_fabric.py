"""How well the network ports of the cards work: error correction, flaps, errors, neighbours; and the chips' clocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from npudoctor.facts.hccn import LinkStat
from npudoctor.facts.hccn.card_view import CardFabric
from npudoctor.facts.npu_smi.per_chip import AT_WORK_FROM_PERCENT, BusyClocks
from npudoctor.sdk import Because, Evidence, Finding, Options, Severity, Threshold, Unavailable, check

from .npu import BEHIND_NPU_SMI
from .npu_network import BEHIND_THE_DRIVER

FLAPS = Threshold(
    "link_flaps_max",
    3,
    "falls more than the other cards' ports",
    "a port goes down when it is cabled; when its switch restarts all of them do; one that falls more often flaps",
)
ROCE_ERRORS = Threshold(
    "roce_errors_above_peers",
    100,
    "packets more than the other cards' ports",
    "a few errors come with every start of a job; a port with a bad cable counts thousands while its peers count none",
)
CLOCK = Threshold(
    "clock_min_percent",
    90,
    "%",
    "npudoctor's own: at work a chip runs at its rated clock; what is a tenth below is held back by heat or power",
)

_OF_ERRORS = ("err_pkt", "bad_pkt", "fcs_err", "_rty_", "out_of_order")
"""What the names of counters hold that count packets which were lost, broken, or sent again."""
_ANOTHER_CARD = "AscendNPU"


@check("npu.fabric", profile="standard", after=BEHIND_THE_DRIVER, thresholds=(FLAPS, ROCE_ERRORS))
def ports_work_alike(fabric: CardFabric, options: Options) -> Iterator[Finding]:
    """The cards' network ports correct errors, hold their links, and count no errors that others do not.

    A port that flaps or loses packets lets a job run on, slowly, until a retry fails and all ranks end with it.
    """
    yield from _fec(fabric)
    falls = {device: _downs(stat) for device, stat in fabric.changes.items()}
    usual = sorted(falls.values())[(len(falls) - 1) // 2] if falls else 0
    for device, downs in falls.items():
        if downs > usual + FLAPS.of(options):
            yield _flapping(fabric.subjects[device], device, downs, usual, fabric.changes[device])
    yield from _errors(fabric, ROCE_ERRORS.of(options))
    yield from _back_to_back(fabric)
    if fabric.failed:
        raise Unavailable(next(iter(fabric.failed.values())), because=Because.FAILED)


def _fec(fabric: CardFabric) -> Iterator[Finding]:
    counts = Counter(fabric.fec.values())
    for device, mode in fabric.fec.items():
        off = mode.lower().startswith(("no ", "off", "none"))
        usual = counts.most_common(1)[0][0]
        odd = 2 * counts[mode] < len(fabric.fec)
        if not (off or odd):
            continue
        yield Finding(
            subject=fabric.subjects[device],
            severity=Severity.WARNING,
            summary="the card's network port corrects no errors (no FEC)"
            if off
            else f"the error correction of the card's network port is `{mode}`, that of the others `{usual}`",
            detail="Both ends of a link need the same error correction; otherwise it stays down or loses packets.",
            hint="Set what the switch port has, mostly Reed-Solomon.",
            commands=(f"hccn_tool -i {device} -fec -s encoding rs  # as root",),
            evidence=(
                Evidence(
                    source=f"hccn_tool -i {device} -fec -g", expected=usual if odd else "rs FEC mode", actual=mode
                ),
            ),
            pitfall="P076",
        )


def _downs(stat: LinkStat) -> int:
    """How often the link went down, as counted, or as the records tell; each return to UP stands for one fall."""
    told = sum(state == "LINK DOWN" for _, state in stat.records)
    return max(told, stat.link_down_count or 0, (stat.link_up_count or 1) - 1)


def _flapping(subject: str, device: int, downs: int, usual: int, stat: LinkStat) -> Finding:
    last = stat.records[0] if stat.records else None
    return Finding(
        subject=subject,
        severity=Severity.WARNING,
        summary=f"the card's network port went down {downs} times, those of the others {usual} times",
        detail="A link that comes and goes ends jobs with EI0013 or a retry that is used up.",
        hint="Look at the cable and the optical modules at both ends, and at the switch port's own counters.",
        commands=(f"hccn_tool -i {device} -link_stat -g", f"hccn_tool -i {device} -optical -g"),
        evidence=(
            Evidence(source=f"hccn_tool -i {device} -link_stat -g", expected=f"about {usual}", actual=str(downs)),
            *([Evidence(source="its last change", actual=f"{last[1]}, {last[0]}")] if last else ()),
        ),
        pitfall="P049",
    )


def _errors(fabric: CardFabric, margin: float) -> Iterator[Finding]:
    totals = {device: _bad_packets(counters) for device, counters in fabric.counters.items()}
    if not totals:
        return
    usual = sorted(totals.values())[(len(totals) - 1) // 2]
    for device, total in totals.items():
        if total <= usual + margin or total <= 10 * usual:
            continue
        told = {name: count for name, count in fabric.counters[device].items() if count and _is_of_errors(name)}
        yield Finding(
            subject=fabric.subjects[device],
            severity=Severity.WARNING,
            summary=f"the card's network port has counted {total} bad packets, the others about {usual}",
            detail="They are counted since the card started; every retry delays all ranks, and too many end the job "
            "with EI0013.",
            hint="See whether the count still grows; then look at cable, optical modules, and the switch's flow "
            "control (PFC, ECN).",
            commands=(f"hccn_tool -i {device} -stat -g", f"hccn_tool -i {device} -optical -g"),
            evidence=tuple(
                Evidence(source=f"hccn_tool -i {device} -stat -g, {name}", expected=f"about {usual}", actual=str(count))
                for name, count in told.items()
            ),
            pitfall="P049",
        )


def _bad_packets(counters: Mapping[str, int]) -> int:
    return sum(count for name, count in counters.items() if _is_of_errors(name))


def _is_of_errors(name: str) -> bool:
    return any(word in name for word in _OF_ERRORS)


def _back_to_back(fabric: CardFabric) -> Iterator[Finding]:
    cabled = [device for device, one in fabric.neighbours.items() if _ANOTHER_CARD in (one.system_description or "")]
    if cabled:
        yield Finding(
            subject=fabric.subjects[cabled[0]] if len(cabled) == 1 else "host",
            severity=Severity.WARNING,
            summary=f"{len(cabled)} network ports of cards are cabled to another card, not to a switch",
            detail="Cards of different numbers cannot reach each other, so that collectives over all ranks fail.",
            hint="Connect the cards through a switch, or use one card of each node only.",
            commands=(f"hccn_tool -i {cabled[0]} -lldp -g",),
            evidence=(
                Evidence(
                    source=f"hccn_tool -i {cabled[0]} -lldp -g",
                    expected="a switch",
                    actual=fabric.neighbours[cabled[0]].system_description,
                ),
            ),
            pitfall="P077",
        )


@check("npu.throttled", profile="standard", after=BEHIND_NPU_SMI, thresholds=(CLOCK,))
def chips_run_at_their_clock(clocks: BusyClocks, options: Options) -> Iterator[Finding]:
    """Chips at work run at their rated clock.

    The firmware lowers the clock of a chip that is too hot or is given too little power; collectives then wait for it.
    """
    least = CLOCK.of(options)
    slow = {subject: (rated, now) for subject, (rated, now) in clocks.by_subject.items() if 100 * now < least * rated}
    for subject, (rated, now) in slow.items():
        number = subject.removeprefix("npu:").partition("/")[0]
        yield Finding(
            subject=subject,
            severity=Severity.WARNING,
            summary=f"the chip is at work at {now} MHz, its rated clock is {rated} MHz",
            detail="All chips at work here are slow: the power of the node is limited, or it is too hot."
            if len(slow) == len(clocks.by_subject) > 1
            else "A job over several cards runs at the pace of this one.",
            hint="Look at temperature and power of the chip, the power supplies, and the server's power capping.",
            commands=(f"npu-smi info -t common -i {number}", f"npu-smi info -t power -i {number}"),
            evidence=(
                Evidence(
                    source=f"npu-smi info -t common -i {number}", expected=f"{least:g} % of {rated}", actual=str(now)
                ),
                Evidence(source="npu-smi info", actual=f"AICore at {AT_WORK_FROM_PERCENT} % or more"),
            ),
            pitfall="P080",
        )
    if clocks.failed:
        raise Unavailable(next(iter(clocks.failed.values())), because=Because.FAILED)
