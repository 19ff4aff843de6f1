"""The driver and the firmware of the NPUs: what is installed on disk, and what the kernel has loaded."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping

from npudoctor.facts.driver import version_files
from npudoctor.facts.driver.version_files import DriverFile, FirmwareFile, InstallRecord
from npudoctor.records import field, record
from npudoctor.sdk import Because, Host, ParseError, Unavailable, probe

RECORD = "/etc/ascend_install.info"
PREFIX = "/usr/local/Ascend"

_OURS = r"(drv_|asdrv|ascend|davinci|devdrv|devmm|hisi_hdc)\w*"


@probe
def install_record(host: Host) -> InstallRecord:
    """From the file in which the driver's installer notes what it did."""
    return version_files.parse_install_record(host.read(RECORD))


@record(frozen=True, kw_only=True)
class DriverInstall:
    """The driver on disk. `file` is None where there is no version.info (a container may lack it); `libraries` whether
    its folder lib64 is there."""

    prefix: str
    path: str
    file: DriverFile | None = None
    libraries: bool = False

    @property
    def is_there(self) -> bool:
        """Whether any part of it is on disk."""
        return self.file is not None or self.libraries

    @property
    def stated(self) -> str | None:
        """The version of the package, as its file has it."""
        return (self.file.package_version or self.file.version) if self.file is not None else None


@probe
def driver_install(host: Host, record: InstallRecord | None) -> DriverInstall:
    """From PREFIX/driver; the prefix is the recorded one, else the usual one."""
    prefix = (record.driver_install_path if record else None) or PREFIX
    path = f"{prefix.rstrip('/')}/driver/version.info"
    file = None
    try:
        file = version_files.parse_driver(host.read(path))
    except Unavailable as why:
        if why.because is not Because.ABSENT:
            raise
        _must_be_known(host, record)
    return DriverInstall(
        prefix=prefix, path=path, file=file, libraries=_has(host, f"{prefix.rstrip('/')}/driver/lib64")
    )


def _must_be_known(host: Host, record: InstallRecord | None) -> None:
    """Raise where the file that names the prefix is there and could not be read: the driver may lie elsewhere."""
    if record is None:
        try:
            host.read(RECORD)
        except Unavailable as why:
            if why.because is not Because.ABSENT:
                raise


def _has(host: Host, folder: str) -> bool:
    """Whether something is in a folder; one that this user may not list is not called missing."""
    try:
        return bool(host.list_dir(folder))
    except Unavailable as why:
        return why.because is not Because.ABSENT


@record(frozen=True)
class FirmwareInstall:
    """The firmware package on disk, with the file that says so."""

    path: str
    file: FirmwareFile


@probe
def firmware_install(host: Host, record: InstallRecord | None) -> FirmwareInstall:
    """From PREFIX/firmware/version.info."""
    prefix = (record.firmware_install_path if record else None) or PREFIX
    path = f"{prefix.rstrip('/')}/firmware/version.info"
    return FirmwareInstall(path, version_files.parse_firmware(host.read(path)))


@record(frozen=True)
class LoadedModules:
    """The kernel's modules by name; `versions` of the Ascend driver's own, as /sys/module has them."""

    names: frozenset[str]
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def ours(self) -> tuple[str, ...]:
        """The modules of the Ascend driver."""
        return tuple(sorted(name for name in self.names if re.fullmatch(_OURS, name)))


def parse_modules(text: str) -> frozenset[str]:
    """Read /proc/modules or what lsmod prints; raises ParseError for other text."""
    names = set()
    for number, line in enumerate(text.splitlines(), 1):
        fields = line.split()
        if not fields or fields[:2] == ["Module", "Size"]:
            continue
        if len(fields) < 3 or not fields[1].isdigit():
            raise ParseError("not a list of kernel modules", line_number=number, line=line)
        names.add(fields[0])
    return frozenset(names)


@probe
def loaded_modules(host: Host) -> LoadedModules:
    """From /proc/modules, else lsmod; versions from /sys/module."""
    try:
        names = parse_modules(host.read("/proc/modules"))
    except Unavailable as why:
        try:
            done = host.run(["lsmod"])
        except Unavailable:
            raise why from None
        if done.returncode != 0:
            raise why from None
        names = parse_modules(done.stdout)
    versions = {}
    for name in sorted(name for name in names if re.fullmatch(_OURS, name)):
        with contextlib.suppress(Unavailable):
            versions[name] = host.read(f"/sys/module/{name}/version").strip()
    return LoadedModules(names, versions)
