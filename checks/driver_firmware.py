"""Driver and firmware: whether they match, and whether the firmware on disk runs."""

from __future__ import annotations

from collections.abc import Iterator

from npudoctor.facts.driver.firmware_match import FirmwareMatch
from npudoctor.facts.driver.install import FirmwareInstall
from npudoctor.facts.node.chips import Chips
from npudoctor.facts.node.context import DriverStack
from npudoctor.facts.system.platform import Platform
from npudoctor.facts.versions import FirmwareVersion
from npudoctor.sdk import Evidence, Finding, ParseError, check

from ._packages import upgrade_commands
from ._sources import page_from
from .messages import driver as messages


@check("driver.firmware", after=("container.devices", "driver.installed", "driver.rebooted"), requires=(DriverStack,))
def driver_matches_firmware(
    match: FirmwareMatch,
    disk: FirmwareInstall | None,
    cards: Chips | None = None,
    platform: Platform | None = None,
) -> Iterator[Finding]:
    """Driver and firmware versions match.

    Each board reports whether they do, and the driver's version.info names the firmware versions that it was tested
    with. With a pair that does not match, the NPUs start and fail later.
    """
    bad = {npu_id: flag for npu_id, flag in match.flags.items() if flag != "OK"}
    everywhere = len(bad) == len(match.flags) > 1
    for npu_id, flag in list(bad.items())[: 1 if everywhere else None]:
        yield messages.INCOMPATIBLE.finding(
            subject="host" if everywhere else f"npu:{npu_id}",
            flag=flag,
            commands=upgrade_commands(cards, platform),
            evidence=(
                Evidence(
                    source=page_from(match.sources, f"npu:{npu_id}", f"npu-smi info -t board -i {npu_id}"),
                    expected="Compatibility : OK",
                    actual=flag,
                ),
            ),
        )
    waiting = _not_activated(match, disk)
    if waiting is not None:
        yield waiting
    if bad or waiting is not None or not match.ranges:
        return
    refused = {source: version for source, version in match.versions.items() if not match.accepts(version)}
    if refused:
        source, version = next(iter(refused.items()))
        yield messages.OUT_OF_RANGE.finding(
            subject=source if source.startswith("npu:") and len(refused) == 1 < len(match.versions) else "host",
            version=version,
            accepted=match.accepted,
            commands=upgrade_commands(cards, platform),
            evidence=(
                Evidence(source=source, expected=f"{match.accepted} ({match.accepted_path})", actual=str(version)),
            ),
        )


def _not_activated(match: FirmwareMatch, disk: FirmwareInstall | None) -> Finding | None:
    """Firmware on disk that is newer than that of every board; None where a board runs it, or nothing is known."""
    boards = {source: version for source, version in match.versions.items() if source.startswith("npu:")}
    try:
        installed = FirmwareVersion.parse(disk.file.version or "") if disk is not None else None
    except ParseError:
        return None
    if disk is None or installed is None or not boards or max(boards.values()) >= installed:
        return None
    newest, running = max(boards.items(), key=lambda board: board[1])
    return messages.NOT_ACTIVATED.finding(
        installed=installed,
        running=running,
        commands=("npu-smi info -t board -i 0", f"cat {disk.path}"),
        evidence=(
            Evidence(source=disk.path, actual=f"Version={installed}"),
            Evidence(
                source=page_from(match.sources, newest, "npu-smi info -t board"),
                expected=str(installed),
                actual=str(running),
            ),
        ),
    )
