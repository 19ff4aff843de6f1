"""The files that say which driver, firmware and CANN are installed, and which versions these accept."""

from __future__ import annotations

import re
from typing import Generic, TypeVar

from npudoctor.facts.cells import lines_of, refusal, word
from npudoctor.facts.versions import FirmwareVersion, Version
from npudoctor.records import record

V = TypeVar("V", bound=Version)


@record(frozen=True)
class VersionRange(Generic[V]):
    """A closed range of versions; with `with_patches` its upper end includes every patch of that version."""

    lowest: V
    highest: V
    with_patches: bool = False

    def contains(self, version: V) -> bool:
        """Whether a version is in the range."""
        highest = self.highest.key[:-1]
        return self.lowest <= version and (
            version <= self.highest or (self.with_patches and version.key[: len(highest)] == highest)
        )


def parse_ranges(text: str | None, kind: type[V]) -> tuple[VersionRange[V], ...]:
    """The ranges of a field such as `[7.0.0,7.1.99]` or `[23.0.rc3,23.0.rc3.],[23.0.0,23.0.0.]`.

    A dot at the end of the upper version means its patches too. Raises ParseError for an end that is no version.
    """
    ends = re.findall(r"\[([^\],]{1,64}),([^\],]{1,64})\]", text or "")
    return tuple(
        VersionRange(kind.parse(lowest), kind.parse(highest.strip().removesuffix(".")), highest.strip().endswith("."))
        for lowest, highest in ends
    )


@record(frozen=True, kw_only=True)
class DriverFile:
    """`driver/version.info`; `compatible_version_fw` is the range of firmware that the driver accepts, as written."""

    version: str | None = None
    package_version: str | None = None
    innerversion: str | None = None
    compatible_version_fw: str | None = None

    @property
    def accepted_firmware(self) -> tuple[VersionRange[FirmwareVersion], ...]:
        """The firmware that the driver accepts; empty where it does not say."""
        return parse_ranges(self.compatible_version_fw, FirmwareVersion)


@record(frozen=True)
class FirmwareFile:
    """`firmware/version.info`; `compatible_version_drv` holds the ranges of drivers that it accepts, as written."""

    version: str | None = None
    package_version: str | None = None
    compatible_version_drv: str | None = None


@record(frozen=True, kw_only=True)
class InstallRecord:
    """`/etc/ascend_install.info`: who may use the devices, and where the driver lies.

    `install_for_all` is `no` where only members of `group` may use them; `driver_install_status` is `complete` after an
    installation that ran to its end.
    """

    user: str | None = None
    group: str | None = None
    driver_install_type: str | None = None
    driver_install_path: str | None = None
    driver_install_status: str | None = None
    firmware_install_path: str | None = None
    install_for_all: str | None = None


@record(frozen=True, kw_only=True)
class CannPackage:
    """One package of CANN, from its `ascend_…_install.info`; `path` is where it says that it lies."""

    package: str | None = None
    version: str | None = None
    innerversion: str | None = None
    arch: str | None = None
    path: str | None = None


@record(frozen=True)
class VersionCfg:
    """CANN's `version.cfg`: the version in force, its build, and all that are installed side by side."""

    running: str | None
    running_build: str | None
    installed: tuple[str, ...]


def parse_entries(text: str) -> dict[str, str | None]:
    """The keys of a version file, in lower case, with their values; `=` or `:` stands between, `#` begins a comment.

    Of a repeated key the first counts. Raises ParseError where this line is missing.
    """
    found: dict[str, str | None] = {}
    for line in lines_of(text):
        entry = re.fullmatch(r"\s*([A-Za-z][\w .-]{0,80}?)\s*[=:]\s*(.*)", line, re.ASCII)
        if entry:
            found.setdefault(entry[1].lower(), word(entry[2]))
    if not found:
        raise refusal("not a file of keys and values", lines_of(text))
    return found


def parse_driver(text: str) -> DriverFile:
    """Read the driver's version.info."""
    found = _entries_with(text, "version", "package_version")
    return DriverFile(
        version=found.get("version"),
        package_version=found.get("package_version"),
        innerversion=found.get("innerversion"),
        compatible_version_fw=found.get("compatible_version_fw"),
    )


def parse_firmware(text: str) -> FirmwareFile:
    """Read the firmware's version.info."""
    found = _entries_with(text, "version", "package_version")
    return FirmwareFile(found.get("version"), found.get("package_version"), found.get("compatible_version_drv"))


def parse_install_record(text: str) -> InstallRecord:
    """Read /etc/ascend_install.info."""
    found = _entries_with(text, "username", "driver_install_path_param", "driver_install_type")
    return InstallRecord(
        user=found.get("username"),
        group=found.get("usergroup"),
        driver_install_type=found.get("driver_install_type"),
        driver_install_path=found.get("driver_install_path_param"),
        driver_install_status=found.get("driver_install_status"),
        firmware_install_path=found.get("firmware_install_path_param"),
        install_for_all=found.get("driver_install_for_all"),
    )


def parse_cann_package(text: str) -> CannPackage:
    """Read ascend_toolkit_install.info, ascend_ops_install.info, ascend_nnae_install.info."""
    found = _entries_with(text, "package_name", "version")
    return CannPackage(
        package=found.get("package_name"),
        version=found.get("version"),
        innerversion=found.get("innerversion"),
        arch=found.get("arch"),
        path=found.get("path"),
    )


def parse_version_cfg(text: str) -> VersionCfg:
    """Read version.cfg; where its components differ, the toolkit's line tells what is in force, then the runtime's."""
    found = parse_entries(text)
    running = {key.removesuffix("_running_version"): value for key, value in found.items() if "_running_version" in key}
    installed = [value for key, value in found.items() if key.endswith("_installed_version")]
    if not running and not installed:
        raise refusal("not a version.cfg of CANN", lines_of(text))
    first = next((running[name] for name in ("toolkit", "runtime", *running) if running.get(name)), None)
    build, version = next(iter(_bracketed_pairs(first)), (None, None))
    versions = dict.fromkeys(version for value in installed for _, version in _bracketed_pairs(value))
    return VersionCfg(version, build, tuple(versions))


def _bracketed_pairs(value: str | None) -> list[tuple[str, str]]:
    """The pairs of build and version in `[7.1.0.3.220:7.0.0][7.3.0.1.231:8.0.RC2]`."""
    return re.findall(r"\[([^\[\]:]+):([^\[\]:]+)\]", value or "")


def _entries_with(text: str, *keys: str) -> dict[str, str | None]:
    found = parse_entries(text)
    if not any(key in found for key in keys):
        raise refusal(f"the file has no {' and no '.join(keys)}", lines_of(text))
    return found
