"""What driver and firmware declare of each other."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from npudoctor.facts.by_chip import PerChip
from npudoctor.facts.driver.install import DriverInstall, FirmwareInstall
from npudoctor.facts.driver.version_files import VersionRange
from npudoctor.facts.npu_smi import Board
from npudoctor.facts.versions import FirmwareVersion
from npudoctor.records import field, record
from npudoctor.sdk import ParseError, Unavailable, probe


@record(frozen=True, kw_only=True)
class FirmwareMatch:
    """The declarations that could be found.

    `flags` is each board's Compatibility by NPU, as far as it is a verdict, `OK` or `NOK`; `versions` the firmware by
    where it was read; `accepted` what the driver accepts, as written in `accepted_path`. `sources` names the boards
    that do not come from npu-smi.
    """

    flags: Mapping[int, str] = field(default_factory=dict)
    versions: Mapping[str, FirmwareVersion] = field(default_factory=dict)
    ranges: tuple[VersionRange[FirmwareVersion], ...] = ()
    accepted: str | None = None
    accepted_path: str | None = None
    sources: Mapping[str, str] = field(default_factory=dict, compare=False)

    def accepts(self, version: FirmwareVersion) -> bool:
        """Whether the driver accepts a firmware, by its range: only the first three numbers count."""
        stem = version.key[:3]
        return any(one.lowest.key[:3] <= stem <= one.highest.key[:3] for one in self.ranges)


_VERDICTS = {"OK": "OK", "NOK": "NOK", "NOT OK": "NOK"}
"""Other words are none: UNKNOWN where the driver could not tell, NOT SUPPORT for a user who is not root."""


@probe(of_the_moment=True)
def firmware_match(
    driver: DriverInstall | None, firmware: FirmwareInstall | None, boards: PerChip[Board] | None
) -> FirmwareMatch:
    """From the boards' flag, the driver's range and the firmware's version; unavailable without two to compare."""
    flags, versions = {}, {}
    untold: str | None = None
    for subject, board in (boards.by_subject if boards else {}).items():
        said = (board.compatibility or "").upper()
        if said in _VERDICTS:
            flags[int(subject.removeprefix("npu:"))] = _VERDICTS[said]
        elif said:
            untold = untold or board.compatibility
        with contextlib.suppress(ParseError):
            if board.firmware_version:
                versions[subject] = FirmwareVersion.parse(board.firmware_version)
    if firmware is not None and not versions:
        with contextlib.suppress(ParseError):
            versions[firmware.path] = FirmwareVersion.parse(firmware.file.version or "")
    file = driver.file if driver else None
    ranges: tuple[VersionRange[FirmwareVersion], ...] = ()
    with contextlib.suppress(ParseError):
        ranges = file.accepted_firmware if file else ()
    if not flags and not (ranges and versions):
        if untold:
            needs = "; it tells root alone" if untold.upper() == "NOT SUPPORT" else ""
            raise Unavailable(
                f"npu-smi does not tell whether driver and firmware match (Compatibility: {untold}){needs}"
            )
        raise Unavailable("firmware required by the driver unknown: neither npu-smi nor the version files state it")
    return FirmwareMatch(
        flags=flags,
        versions=versions,
        ranges=ranges,
        accepted=file.compatible_version_fw if file and ranges else None,
        accepted_path=driver.path if driver and ranges else None,
        sources=boards.sources if boards else {},
    )
