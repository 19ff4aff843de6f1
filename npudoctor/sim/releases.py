"""What goes with a release of the driver, of CANN, of an operating system: builds and ranges as in their files."""

from __future__ import annotations

import hashlib
import re

from npudoctor.records import record


@record(frozen=True, kw_only=True)
class DriverRelease:
    """A driver package: its inner version, the firmware of its bundle, and the firmware range that it accepts."""

    version: str
    inner: str
    firmware: str
    accepts: tuple[str, str]


@record(frozen=True, kw_only=True)
class CannRelease:
    """A CANN release: the build number in version.cfg and the inner version in the install records."""

    version: str
    build: str
    inner: str

    @property
    def is_new_layout(self) -> bool:
        """Whether it is in cann-VERSION (from 8.5) and not in ascend-toolkit/VERSION."""
        return release_of(self.version) >= (8, 5)


@record(frozen=True, kw_only=True)
class System:
    """An operating system: what os-release says, its kernel without the machine, its glibc."""

    name: str
    id: str
    version: str
    version_id: str
    kernel: str
    glibc: str

    @property
    def pretty(self) -> str:
        """The name for people."""
        return f"{self.name} {self.version}"


_DRIVERS = (
    ("23.0.5", "V100R001C15SPC008B220", "7.1.0.7.220", ("7.0.0", "7.1.99")),
    ("24.1.rc1", "V100R001C17SPC001B220", "7.1.0.6.220", ("7.0.0", "7.2.99")),
    ("24.1.0", "V100R001C20SPC002B220", "7.5.0.3.220", ("7.0.0", "7.7.99")),
    ("25.0.rc1", "V100R001C21SPC001B225", "7.7.0.1.231", ("7.5.0", "7.8.99")),
    ("25.2.0", "V100R001C22SPC001B236", "7.7.0.6.236", ("7.5.0", "7.8.99")),
    ("25.3.rc1", "V100R001C23SPC001B212", "7.8.0.2.212", ("7.5.0", "7.9.99")),
    ("25.5.0", "V100R001C25SPC001B216", "7.8.0.5.216", ("7.7.0", "7.9.99")),
    ("26.0.rc1", "V100R001C26SPC001B205", "9.0.0.0.205", ("7.8.0", "9.0.99")),
)
_CANNS = (
    ("7.0.0", "7.1.0.3.220", "V100R001C15SPC005B220"),
    ("8.0.RC1", "7.2.0.1.231", "V100R001C17SPC001B231"),
    ("8.0.RC2", "7.3.0.1.231", "V100R001C18SPC001B231"),
    ("8.0.RC3", "7.5.0.1.129", "V100R001C19SPC001B155"),
    ("8.0.0", "7.6.0.1.220", "V100R001C20SPC001B251"),
    ("8.1.RC1", "7.7.0.1.238", "V100R001C21SPC001B238"),
    ("8.2.RC1", "7.8.0.1.231", "V100R001C22SPC001B231"),
    ("8.3.RC1", "7.9.0.1.231", "V100R001C23SPC001B231"),
    ("8.3.RC2", "7.9.0.2.210", "V100R001C23SPC002B210"),
    ("8.5.0", "8.5.0", "V100R001C25SPC001B232"),
    ("9.0.0", "9.0.0", "V100R001C26SPC001B205"),
)
SYSTEMS = {
    "euleros-2.0-sp10": System(
        name="EulerOS",
        id="euleros",
        version="2.0 (SP10)",
        version_id="2.0",
        kernel="4.19.90-vhulk2211.3.0.h1543.eulerosv2r10",
        glibc="2.28",
    ),
    "openeuler-22.03-sp4": System(
        name="openEuler",
        id="openEuler",
        version="22.03 (LTS-SP4)",
        version_id="22.03",
        kernel="5.10.0-216.0.0.115.oe2203sp4",
        glibc="2.34",
    ),
    "openeuler-24.03": System(
        name="openEuler",
        id="openEuler",
        version="24.03 (LTS)",
        version_id="24.03",
        kernel="6.6.0-28.0.0.34.oe2403",
        glibc="2.38",
    ),
    "ubuntu-22.04": System(
        name="Ubuntu",
        id="ubuntu",
        version="22.04.4 LTS (Jammy Jellyfish)",
        version_id="22.04",
        kernel="5.15.0-105-generic",
        glibc="2.35",
    ),
}


def driver(version: str) -> DriverRelease:
    """A driver release; of one that is not known, the parts are made up from its version, the same each time."""
    for known, inner, firmware, accepts in _DRIVERS:
        if known == version.lower():
            return DriverRelease(version=version, inner=inner, firmware=firmware, accepts=accepts)
    inner = f"V100R001C{25 + digest(version) % 5}SPC001B{200 + digest(version) % 50}"
    return DriverRelease(version=version, inner=inner, firmware="7.8.0.1.200", accepts=("7.0.0", "9.9.99"))


def cann(version: str) -> CannRelease:
    """A CANN release; of one that is not known, the parts are made up from its version, the same each time."""
    for known, build, inner in _CANNS:
        if known.lower() == version.lower():
            return CannRelease(version=version, build=build, inner=inner)
    return CannRelease(version=version, build=version, inner=f"V100R001C25SPC001B{200 + digest(version) % 50}")


def release_of(version: str) -> tuple[int, ...]:
    """The leading numbers of a version, for comparisons between lines: (24, 1) of 24.1.rc1."""
    found = re.match(r"[\d.]*\d", version)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def digest(text: str) -> int:
    """A number that stays the same for the same text."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big")
