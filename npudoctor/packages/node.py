"""The node that packages are for, and why a package does not fit it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from npudoctor.facts.cann.toolkits import Cann
from npudoctor.facts.driver.install import DriverInstall, FirmwareInstall
from npudoctor.facts.node.container import Container
from npudoctor.facts.node.staged_packages import Package
from npudoctor.facts.python.target_python import PythonEnvironment
from npudoctor.facts.system.pci import PciCards
from npudoctor.facts.system.platform import Platform
from npudoctor.host import Because, Unavailable
from npudoctor.packages.names import ARCHES
from npudoctor.records import record

FACTS = (PciCards, Platform, DriverInstall, FirmwareInstall, Cann, PythonEnvironment, Container)
"""What has to be gathered for `of_facts`."""
ON_HOST = ("driver", "firmware", "mcu", "hdk_bundle", "combined")
T = TypeVar("T")


@record(frozen=True, kw_only=True)
class Node:
    """What decides which packages fit; None is not known. `driver`, `firmware` and `cann` are the installed versions,
    None without one; `driver_known` whether that is certain. `unknown` are clauses about facts that could not be had.
    """

    chips: int | None = None
    families: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    arch: str | None = None
    os: str | None = None
    os_id: str | None = None
    os_version: str | None = None
    kernel: str | None = None
    glibc: str | None = None
    python: str | None = None
    driver: str | None = None
    firmware: str | None = None
    cann: str | None = None
    cann_root: str | None = None
    driver_known: bool = True
    in_container: bool = False
    unknown: tuple[str, ...] = ()


def of_facts(known: Mapping[type, Any]) -> Node:
    """From facts by their type; a fact that could not be had is an exception."""
    unknown: list[str] = []

    def fact(kind: type[T], read: Callable[[T], Any], *, absent_is_news: bool = True) -> Any:
        value = known.get(kind)
        if isinstance(value, kind):
            return read(value)
        because = value.because if isinstance(value, Unavailable) else None
        if absent_is_news or because not in (Because.ABSENT, Because.NOT_APPLICABLE):
            unknown.append(value.reason if isinstance(value, Unavailable) else f"{kind.__name__} unknown")
        return None

    cards = fact(PciCards, lambda found: found.cards)
    platform = fact(Platform, lambda found: found)
    driver = fact(DriverInstall, lambda found: found.file)
    firmware = fact(FirmwareInstall, lambda found: found.file, absent_is_news=False)
    cann = fact(Cann, lambda found: found.chosen, absent_is_news=False)
    python = fact(PythonEnvironment, lambda found: found, absent_is_news=False)
    return Node(
        chips=len(cards) if cards is not None else None,
        families=tuple(dict.fromkeys(card.family for card in cards or ())),
        devices=tuple(dict.fromkeys(card.device.removeprefix("0x") for card in cards or ())),
        arch=ARCHES.get(platform.machine.lower()) if platform else None,
        os=platform.os if platform else None,
        os_id=platform.os_id if platform else None,
        os_version=platform.os_version if platform else None,
        kernel=platform.kernel if platform else None,
        glibc=python.glibc if python else None,
        python=".".join(map(str, python.release)) if python else None,
        driver=(driver.package_version or driver.version) if driver else None,
        driver_known=isinstance(known.get(DriverInstall), DriverInstall),
        firmware=firmware.version if firmware else None,
        cann=cann.stated if cann else None,
        cann_root=cann.root if cann else None,
        in_container=isinstance(known.get(Container), Container),
        unknown=tuple(unknown),
    )


def why_not(package: Package, node: Node) -> str | None:
    """Why a package cannot be used on a node, in one line; None where nothing known speaks against it."""
    if package.problem:
        return package.problem
    if node.in_container and package.component in ON_HOST:
        return "driver and firmware are installed on the host, not in a container"
    if package.families and node.families and not set(package.families) & set(node.families):
        return f"for chips {package.tag or ', '.join(package.families)}; this node has {', '.join(node.families)}"
    if package.tag and not package.families and node.families:
        return f"for chips {package.tag}, which are not in the table; this node has {', '.join(node.families)}"
    if package.arch and node.arch and package.arch != node.arch:
        return f"for {package.arch}; this node is {node.arch}"
    if package.os and node.os_id and not _same_os(package.os, node.os_id, node.os_version):
        return f"for {package.os}; this node has {node.os_id} {node.os_version or ''}".rstrip()
    if package.glibc and node.glibc and _numbers(package.glibc) > _numbers(node.glibc):
        return f"requires glibc {package.glibc}; this node has {node.glibc}"
    return None


def not_compared(package: Package, node: Node) -> tuple[str, ...]:
    """What of the node is not known although the package depends on it."""
    pairs = (
        (package.families, node.families, "chips"),
        (package.arch, node.arch, "architecture"),
        (package.os, node.os_id, "operating system"),
        (package.glibc, node.glibc, "glibc"),
    )
    return tuple(what for needs, has, what in pairs if needs and not has)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])


def _same_os(named: str, os_id: str, version: str | None) -> bool:
    found = re.match(r"([a-z]+?)v?(?![a-z])([0-9][0-9.]*)?", named)
    if found is None:
        return True
    own = os_id.lower()
    if not (own.startswith(found[1]) or found[1].startswith(own)):
        return False
    wanted, has = found[2] or "", (version or "").lower().lstrip("v")
    return not wanted or not has or has.startswith(wanted.rstrip(".")) or wanted.startswith(has)
