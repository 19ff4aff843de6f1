"""Network ports of the NPUs under work: error correction, flaps, errors, neighbours; and the clocks of the chips."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from npudoctor.facts.hccn import LinkStat
from npudoctor.facts.hccn.card_view import CardFabric
from npudoctor.facts.npu_smi import NpuSmiInfo
from npudoctor.facts.npu_smi.per_chip import AT_WORK_FROM_PERCENT, BusyClocks
from npudoctor.sdk import Evidence, Finding, Options, Threshold, check

from ._sources import page_from
from ._together import by_fault, by_setting, on
from ._unanswered import tell_unanswered
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
    uncorrected = _odd_fec(fabric)
    for modes in by_setting(uncorrected.items(), lambda one: one[1]):
        yield _fec(modes, fabric)
    errors = _bad_ports(fabric, ROCE_ERRORS.of(options))
    falls = {device: _downs(stat) for device, stat in fabric.changes.items()}
    usual = sorted(falls.values())[(len(falls) - 1) // 2] if falls else 0
    odd = [device for device, downs in falls.items() if downs > usual + FLAPS.of(options)]
    flapping = [device for device in odd if device not in uncorrected]
    for group in by_fault(flapping, len(falls)):
        yield _flapping_finding(group, falls, usual, fabric, errors)
    lossy = [device for device in errors if device not in uncorrected and device not in flapping]
    for group in by_fault(lossy, len(fabric.counters)):
        yield _errors(group, errors, fabric)
    yield from _back_to_back(fabric)
    for question, reason in fabric.failed.items():
        yield messages.NOT_ANSWERED.finding(question=f"hccn_tool -{question} -g", reason=reason)


def _odd_fec(fabric: CardFabric) -> dict[int, str]:
    """The ports without error correction, or with another than most that have one; their packets are lost for this."""
    usual = _usual_fec(fabric)
    return {device: mode for device, mode in fabric.fec.items() if _is_off(mode) or (usual and mode != usual)}


def _usual_fec(fabric: CardFabric) -> str | None:
    """The mode of more than half of the ports that correct errors."""
    counts = Counter(mode for mode in fabric.fec.values() if not _is_off(mode))
    mode, count = counts.most_common(1)[0] if counts else (None, 0)
    return mode if 2 * count > sum(counts.values()) else None


def _is_off(mode: str) -> bool:
    return mode.lower().startswith(("no ", "off", "none", "bypass"))


def _fec(group: Sequence[tuple[int, str]], fabric: CardFabric) -> Finding:
    devices, mode = [device for device, _ in group], group[0][1]
    usual = _usual_fec(fabric) or "rs FEC mode"
    command = "-fec -s encoding rs  # as root" if usual.lower().startswith("rs") else "-fec -g"  # only rs is published
    rest: dict[str, Any] = {
        **on([fabric.subjects[device] for device in devices]),
        "commands": tuple(f"hccn_tool -i {device} {command}" for device in devices[:8]),
        "evidence": tuple(
            Evidence(source=f"hccn_tool -i {device} -fec -g", expected=usual, actual=mode) for device in devices[:8]
        ),
    }
    if _is_off(mode):
        return messages.FEC_OFF.finding(**rest)
    return messages.FEC_MISMATCH.finding(mode=mode, usual=usual, **rest)


def _downs(stat: LinkStat) -> int:
    """How often the link went down, as counted, or as the records tell; each return to UP stands for one fall."""
    told = sum(state == "LINK DOWN" for _, state in stat.records)
    return max(told, stat.link_down_count or 0, (stat.link_up_count or 1) - 1)


def _flapping_finding(
    devices: Sequence[int], falls: Mapping[int, int], usual: int, fabric: CardFabric, errors: Mapping[int, int]
) -> Finding:
    """Ports that go down again and again; the packets that they lose at that have the same cause."""
    last = [(device, fabric.changes[device].records[0]) for device in devices if fabric.changes[device].records]
    return messages.FLAPPING.finding(
        **on([fabric.subjects[device] for device in devices]),
        falls=_span([falls[device] for device in devices]),
        usual=usual,
        commands=tuple(
            command
            for device in devices[:4]
            for command in (f"hccn_tool -i {device} -link_stat -g", f"hccn_tool -i {device} -optical -g")
        ),
        evidence=(
            *(
                Evidence(
                    source=f"hccn_tool -i {device} -link_stat -g",
                    expected=messages.ABOUT.text(count=usual),
                    actual=str(falls[device]),
                )
                for device in devices
            ),
            *(Evidence(source=messages.LAST_CHANGE.text(), actual=f"{one[1]}, {one[0]}") for _, one in last[:4]),
            *(piece for device in devices if device in errors for piece in _counter_evidence(device, fabric)),
        ),
    )


def _span(values: Sequence[int]) -> int | str:
    """A number, or the lowest and the highest."""
    return values[0] if len(set(values)) == 1 else f"{min(values)}–{max(values)}"


def _bad_ports(fabric: CardFabric, margin: float) -> dict[int, int]:
    """The ports with more bad packets than the others, and how many these are."""
    totals = {device: _bad_packets(counters) for device, counters in fabric.counters.items()}
    usual = _usual(totals)
    return {device: total for device, total in totals.items() if total > usual + margin and total > 10 * usual}


def _usual(totals: Mapping[int, int]) -> int:
    return sorted(totals.values())[(len(totals) - 1) // 2] if totals else 0


def _errors(devices: Sequence[int], errors: Mapping[int, int], fabric: CardFabric) -> Finding:
    usual = _usual({device: _bad_packets(counters) for device, counters in fabric.counters.items()})
    return messages.BAD_PACKETS.finding(
        **on([fabric.subjects[device] for device in devices]),
        packets=_span([errors[device] for device in devices]),
        usual=usual,
        commands=tuple(
            command
            for device in devices[:4]
            for command in (f"hccn_tool -i {device} -stat -g", f"hccn_tool -i {device} -optical -g")
        ),
        evidence=tuple(piece for device in devices for piece in _counter_evidence(device, fabric)),
    )


def _counter_evidence(device: int, fabric: CardFabric) -> Iterator[Evidence]:
    """The counters of bad packets of a port."""
    usual = _usual({device: _bad_packets(counters) for device, counters in fabric.counters.items()})
    for name, count in fabric.counters[device].items():
        if count and _is_of_errors(name):
            yield Evidence(
                source=f"hccn_tool -i {device} -stat -g, {name}",
                expected=messages.ABOUT.text(count=usual),
                actual=str(count),
            )


def _bad_packets(counters: Mapping[str, int]) -> int:
    return sum(count for name, count in counters.items() if _is_of_errors(name))


def _is_of_errors(name: str) -> bool:
    return any(word in name for word in _OF_ERRORS)


def _back_to_back(fabric: CardFabric) -> Iterator[Finding]:
    cabled = [device for device, one in fabric.neighbours.items() if _ANOTHER_CARD in (one.system_description or "")]
    if cabled:
        yield messages.BACK_TO_BACK.finding(
            **on([fabric.subjects[device] for device in cabled]),
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


@check(
    "npu.throttled",
    profile="standard",
    after=BEHIND_NPU_SMI,
    thresholds=(CLOCK,),
    explained_by=("npu.temperature", "npu.health"),
)
def chips_run_at_their_clock(clocks: BusyClocks, info: NpuSmiInfo, options: Options) -> Iterator[Finding]:
    """Clocks of chips under load.

    The firmware lowers the clock of a chip that is too hot or gets too little power; collectives then wait for it.
    """
    least = CLOCK.of(options)
    slow = [(one, *pair) for one, pair in clocks.by_subject.items() if 100 * pair[1] < least * pair[0]]
    for group in by_fault(slow, len(clocks.by_subject), lambda one: one[1]):
        rated = group[0][1]
        numbers = [subject.removeprefix("npu:").partition("/")[0] for subject, _, _ in group]
        yield messages.SLOW_CLOCK.finding(
            **on([subject for subject, _, _ in group]),
            now_mhz=_span([now for _, _, now in group]),
            rated_mhz=rated,
            detail=messages.ALL_CLOCKS_SLOW.text() if len(slow) == len(clocks.by_subject) > 1 else None,
            commands=(f"npu-smi info -t common -i {numbers[0]}", f"npu-smi info -t power -i {numbers[0]}"),
            evidence=(
                *(
                    Evidence(
                        source=page_from(clocks.sources, subject, f"npu-smi info -t common -i {number}"),
                        expected=messages.SHARE_OF_CLOCK.text(percent=least, rated_mhz=rated),
                        actual=f"{now} MHz",
                    )
                    for number, (subject, _, now) in zip(numbers, group, strict=True)
                ),
                Evidence(source=info.shown_by, actual=messages.UNDER_LOAD.text(percent=AT_WORK_FROM_PERCENT)),
            ),
            symptom=True,
        )
    tell_unanswered(clocks.why)
