"""Network ports of the NPUs under work: error correction, flaps, errors, neighbours; and the clocks of the chips."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from npudoctor.facts.hccn import LinkStat
from npudoctor.facts.hccn.card_view import CardFabric
from npudoctor.facts.npu_smi.per_chip import AT_WORK_FROM_PERCENT, BusyClocks
from npudoctor.sdk import Because, Evidence, Finding, Options, Threshold, Unavailable, check

from .messages import npu_links as messages
from .npu import BEHIND_NPU_SMI
from .npu_network import BEHIND_THE_DRIVER

FLAPS = Threshold(
    "link_flaps_max",
    3,
    "times down more than the other ports",
    "a port goes down when it is cabled, all ports when the switch restarts; one that goes down more often is flapping",
)
ROCE_ERRORS = Threshold(
    "roce_errors_above_peers",
    100,
    "packets more than the other ports",
    "every start of a job causes a few errors; a port with a bad cable counts thousands while the others count none",
)
CLOCK = Threshold(
    "clock_min_percent",
    90,
    "%",
    "npudoctor's own: under load a chip runs at its rated clock; 10 % less points to heat or lack of power",
)

_OF_ERRORS = ("err_pkt", "bad_pkt", "fcs_err", "_rty_", "out_of_order")
"""Parts of the names of counters of packets that were lost, broken, or sent again."""
_ANOTHER_CARD = "AscendNPU"


@check("npu.fabric", profile="standard", after=BEHIND_THE_DRIVER, thresholds=(FLAPS, ROCE_ERRORS))
def ports_work_alike(fabric: CardFabric, options: Options) -> Iterator[Finding]:
    """NPU network ports: FEC on, no link flaps, no excess errors.

    With a port that flaps or loses packets a job goes on slowly until a retry fails; then all ranks fail.
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
        off = mode.lower().startswith(("no ", "off", "none", "bypass"))
        usual = counts.most_common(1)[0][0]
        odd = 2 * counts[mode] < len(fabric.fec)
        if not (off or odd):
            continue
        commands = (f"hccn_tool -i {device} -fec -s encoding rs  # as root",)
        evidence = Evidence(
            source=f"hccn_tool -i {device} -fec -g", expected=usual if odd else "rs FEC mode", actual=mode
        )
        if off:
            yield messages.FEC_OFF.finding(subject=fabric.subjects[device], commands=commands, evidence=(evidence,))
        else:
            yield messages.FEC_MISMATCH.finding(
                subject=fabric.subjects[device], mode=mode, usual=usual, commands=commands, evidence=(evidence,)
            )


def _downs(stat: LinkStat) -> int:
    """How often the link went down, as counted, or as the records tell; each return to UP stands for one fall."""
    told = sum(state == "LINK DOWN" for _, state in stat.records)
    return max(told, stat.link_down_count or 0, (stat.link_up_count or 1) - 1)


def _flapping(subject: str, device: int, downs: int, usual: int, stat: LinkStat) -> Finding:
    last = stat.records[0] if stat.records else None
    return messages.FLAPPING.finding(
        subject=subject,
        falls=downs,
        usual=usual,
        commands=(f"hccn_tool -i {device} -link_stat -g", f"hccn_tool -i {device} -optical -g"),
        evidence=(
            Evidence(
                source=f"hccn_tool -i {device} -link_stat -g",
                expected=messages.ABOUT.text(count=usual),
                actual=str(downs),
            ),
            *([Evidence(source=messages.LAST_CHANGE.text(), actual=f"{last[1]}, {last[0]}")] if last else ()),
        ),
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
        yield messages.BAD_PACKETS.finding(
            subject=fabric.subjects[device],
            packets=total,
            usual=usual,
            commands=(f"hccn_tool -i {device} -stat -g", f"hccn_tool -i {device} -optical -g"),
            evidence=tuple(
                Evidence(
                    source=f"hccn_tool -i {device} -stat -g, {name}",
                    expected=messages.ABOUT.text(count=usual),
                    actual=str(count),
                )
                for name, count in told.items()
            ),
        )


def _bad_packets(counters: Mapping[str, int]) -> int:
    return sum(count for name, count in counters.items() if _is_of_errors(name))


def _is_of_errors(name: str) -> bool:
    return any(word in name for word in _OF_ERRORS)


def _back_to_back(fabric: CardFabric) -> Iterator[Finding]:
    cabled = [device for device, one in fabric.neighbours.items() if _ANOTHER_CARD in (one.system_description or "")]
    if cabled:
        yield messages.BACK_TO_BACK.finding(
            subject=fabric.subjects[cabled[0]] if len(cabled) == 1 else "host",
            count=len(cabled),
            commands=(f"hccn_tool -i {cabled[0]} -lldp -g",),
            evidence=(
                Evidence(
                    source=f"hccn_tool -i {cabled[0]} -lldp -g",
                    expected=messages.A_SWITCH.text(),
                    actual=fabric.neighbours[cabled[0]].system_description,
                ),
            ),
        )


@check("npu.throttled", profile="standard", after=BEHIND_NPU_SMI, thresholds=(CLOCK,))
def chips_run_at_their_clock(clocks: BusyClocks, options: Options) -> Iterator[Finding]:
    """Clocks of chips under load.

    The firmware lowers the clock of a chip that is too hot or gets too little power; collectives then wait for it.
    """
    least = CLOCK.of(options)
    slow = {subject: (rated, now) for subject, (rated, now) in clocks.by_subject.items() if 100 * now < least * rated}
    for subject, (rated, now) in slow.items():
        number = subject.removeprefix("npu:").partition("/")[0]
        yield messages.SLOW_CLOCK.finding(
            subject=subject,
            now_mhz=now,
            rated_mhz=rated,
            detail=messages.ALL_CLOCKS_SLOW.text() if len(slow) == len(clocks.by_subject) > 1 else None,
            commands=(f"npu-smi info -t common -i {number}", f"npu-smi info -t power -i {number}"),
            evidence=(
                Evidence(
                    source=f"npu-smi info -t common -i {number}",
                    expected=messages.SHARE_OF_CLOCK.text(percent=least, rated_mhz=rated),
                    actual=f"{now} MHz",
                ),
                Evidence(source="npu-smi info", actual=messages.UNDER_LOAD.text(percent=AT_WORK_FROM_PERCENT)),
            ),
        )
    if clocks.failed:
        raise Unavailable(next(iter(clocks.failed.values())), because=Because.FAILED)
