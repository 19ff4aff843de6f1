"""A report limited to some NPUs of a node, for the prolog of a job on a shared node."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from typing import Any

from npudoctor.cli.output import UsageError
from npudoctor.facts.node.chips import subject_of
from npudoctor.facts.npu_smi import NpuSmiInfo
from npudoctor.findings import Finding, Report, Result, Status, count, judge
from npudoctor.records import replace


def numbers(text: str) -> frozenset[int]:
    """`0,2-3`: the N of /dev/davinciN."""
    found: set[int] = set()
    for part in text.split(","):
        span = re.fullmatch(r"(\d{1,4})(?:-(\d{1,4}))?", part.strip())
        if span is None or int(span[2] or span[1]) < int(span[1]):
            raise argparse.ArgumentTypeError(
                f"expected a list of devices such as 0,2-3 (N of /dev/davinciN), found {text!r}"
            )
        found |= set(range(int(span[1]), int(span[2] or span[1]) + 1))
    return frozenset(found)


def only(report: Report, wanted: frozenset[int], facts: Mapping[Any, Any]) -> Report:
    """The report without findings on other NPUs; findings on the node, or on an unknown NPU, stay.

    Raises UsageError for a device that the node does not have, unless a finding reports it as missing.
    """
    devices = _devices(facts)
    blocking = {result.blocked_by for result in report.results}
    results = tuple(
        result if result.check in blocking else _without_others(result, wanted, devices) for result in report.results
    )
    verdict, code = judge(results, fail_on=report.fail_on)
    if report.exit_code == 3 and code == 0:
        verdict, code = report.verdict, report.exit_code
    missing = {
        int(card[1])
        for result in results
        for one in result.findings
        for subject in one.subjects or (one.subject,)
        if subject not in devices and (card := re.fullmatch(r"npu:(\d+)", subject))
    }
    if devices and (absent := sorted(wanted - set(devices.values()) - missing)):
        known = ", ".join(map(str, sorted(devices.values())))
        raise UsageError(f"--cards {','.join(map(str, absent))}: not on this node, which has the devices {known}")
    return replace(report, results=results, summary=count(results), verdict=verdict, exit_code=code)


def _devices(facts: Mapping[Any, Any]) -> dict[str, int]:
    """The N of /dev/davinciN by the name of the chip in findings."""
    info = next((fact for fact in facts.values() if isinstance(fact, NpuSmiInfo)), None)
    if info is None:
        return {}
    found = {}
    for chip in info.npus:
        known = (chip.phy_id, chip.device_id, chip.npu_id)
        found[subject_of(chip, info.npus)] = next(number for number in known if number is not None)
    return found


def _without_others(result: Result, wanted: frozenset[int], devices: Mapping[str, int]) -> Result:
    kept = tuple(one for one in result.findings if _is_about(one, wanted, devices))
    if len(kept) == len(result.findings) or result.status is Status.CRASHED:
        return result
    worst = max((one.severity for one in kept), default=None)
    bad = {status.value: status for status in (Status.WARNING, Status.ERROR)}
    status = bad.get(worst.value, Status.OK) if worst else Status.OK
    return replace(result, findings=kept, status=result.status if result.silenced else status)


def _is_about(finding: Finding, wanted: frozenset[int], devices: Mapping[str, int]) -> bool:
    if finding.subjects:
        return any(_is_chip_wanted(subject, wanted, devices) for subject in finding.subjects)
    return _is_chip_wanted(finding.subject, wanted, devices)


def _is_chip_wanted(subject: str, wanted: frozenset[int], devices: Mapping[str, int]) -> bool:
    device = devices.get(subject)
    if device is None and (card := re.fullmatch(r"npu:(\d+)", subject)):
        inside = {number for name, number in devices.items() if name.startswith(f"{subject}/")}
        return bool(inside & wanted) if inside else int(card[1]) in wanted
    return device is None or device in wanted
