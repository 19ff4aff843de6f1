"""Clocks, measured numbers, and errors that came together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from npudoctor.findings import Finding, Severity
from npudoctor.fleet.checks import messages as say
from npudoctor.fleet.checks._shared import by, differing, names, on
from npudoctor.fleet.merge import Fleet, Member, split
from npudoctor.sdk import NotApplicable, Options, Threshold, check

SPREAD = Threshold("fleet_clock_spread_s", 1, "s", "logs of several nodes are ordered by their clocks")
OFF = Threshold("fleet_clock_offset_s", 30, "s", "certificates, tokens and time-outs fail")

FEWEST = 8
"""Of fewer nodes a number is shown and not judged."""
UNUSUAL = 3.5
"""Modified z-scores from here on are outliers (Iglewicz and Hoaglin 1993)."""
FLOORS = {"temperature": (8.0, 0.0), "npu-smi latency": (2.0, 0.0), "power": (0.0, 0.2)}
"""How far from the median a number must be at least: absolute, and as a share of the median."""
USUAL_FLOOR = (0.0, 0.05)
TOGETHER = 3


def median(numbers: Iterable[float]) -> float:
    """The number in the middle; `statistics` has it too, with fractions and decimals in memory."""
    ordered = sorted(numbers)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


@check("fleet.clocks", thresholds=(SPREAD, OFF))
def clocks(fleet: Fleet, options: Options | None) -> Iterator[Finding]:
    """Clocks and time zones of all nodes"""
    for group in (split("time zone", "", fleet.members, lambda one: one.clock.timezone, fleet.golden),):
        if group is not None:
            yield from differing(say.TIMEZONE, say.SYSTEM_TIE, [group])
    stepped = [one for one in fleet.members if _is_stepped(one)]
    if stepped:
        yield on(say.STEPPED, names(stepped))
    known = [(one, one.offset) for one in fleet.members if one.offset is not None]
    if not known:
        raise NotApplicable("the answers were gathered without the times of this machine")
    limit = OFF.of(options)
    off = [one for one, (low, high) in known if low > limit or high < -limit]
    if off:
        yield on(say.CLOCK_OFF, names(off), seconds=f"{limit:g}")
    rest = [(one, bounds) for one, bounds in known if one not in off]
    if len(rest) > 1:
        ahead, behind = max(rest, key=lambda row: row[1][0]), min(rest, key=lambda row: row[1][1])
        apart = ahead[1][0] - behind[1][1]
        if apart > SPREAD.of(options):
            yield on(say.CLOCK_SPREAD, names([ahead[0], behind[0]]), seconds=f"{apart:.1f}")


def _is_stepped(member: Member) -> bool:
    """Whether the clock and the monotonic clock ran at different rates during the check."""
    readings = member.clock.readings
    if len(readings) < 2:
        return False
    (wall, steady), (wall_end, steady_end) = readings[0], readings[-1]
    return abs((wall_end - wall) - (steady_end - steady)) > 2


@check("fleet.outliers")
def outliers(fleet: Fleet) -> Iterator[Finding]:
    """Measured numbers compared with those of equal nodes

    A number is an outlier where its modified z-score is 3.5 or more and it is far enough from the median of at least
    eight nodes that were measured in the same condition.
    """
    if len(fleet.members) < FEWEST:
        raise NotApplicable(f"fewer than {FEWEST} nodes answered")
    for members in fleet.groups.values():
        rows = [
            ((measure, one.condition, one.unit, subject), member, value)
            for member in members
            for measure, one in member.measures.items()
            for subject, value in one.values.items()
        ]
        for (measure, _, unit, subject), same in by(rows, lambda row: row[0]).items():
            if len(same) < FEWEST:
                continue
            values = [value for _, _, value in same]
            middle = median(values)
            least = unusual_from(values, middle, FLOORS.get(measure, USUAL_FLOOR))
            for _, member, value in same:
                if abs(value - middle) >= least and value != middle:
                    yield on(
                        say.OUTLIER,
                        [member.name],
                        measure=measure.capitalize() if measure != "npu-smi latency" else "Latency of npu-smi",
                        chip=f"{member.name} {subject}",
                        value=f"{value:g}",
                        unit=unit,
                        median=f"{middle:g}",
                        peers=len(same),
                    )


def unusual_from(values: Sequence[float], middle: float, floor: tuple[float, float]) -> float:
    """How far from their median values are outliers: by the modified z-score, and beyond the floor."""
    spread = median(abs(one - middle) for one in values)
    return max(floor[0], floor[1] * abs(middle), spread * UNUSUAL / 0.6745)


@check("fleet.errors-together")
def errors_together(fleet: Fleet) -> Iterator[Finding]:
    """Driver errors that several nodes have in common"""
    rows = [(event.text, member) for member in fleet.members for event in member.events]
    for text, same in by(rows, lambda row: row[0]).items():
        having = list(dict.fromkeys(member.name for _, member in same))
        if len(having) >= TOGETHER:
            everyone = len(having) == len(fleet.members)
            yield on(say.TOGETHER, having, text=text, severity=Severity.INFO if everyone else Severity.WARNING)
