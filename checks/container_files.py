"""What a container has of its host's driver, and whether the ascend runtime has its say."""

from __future__ import annotations

import re
from collections.abc import Iterator

from npudoctor import knowledge
from npudoctor.facts.driver.install import DriverInstall, LoadedModules
from npudoctor.facts.hccn.card_view import NetworkPlan
from npudoctor.facts.node.chips import Chips
from npudoctor.facts.node.container import Container
from npudoctor.facts.node.container_mounts import LIBRARIES, NPU_SMI, ContainerMounts, Mounted
from npudoctor.facts.node.device_nodes import DeviceNodes
from npudoctor.facts.node.environment import JobEnvironment
from npudoctor.facts.npu_smi.probes import NpuSmiAnswer
from npudoctor.facts.versions import DriverVersion
from npudoctor.sdk import Evidence, Finding, FixOffer, ParseError, Severity, check

from .container import VISIBLE, run_commands

_NOTHING = ("void", "none")


@check("container.driver-files", after=("container.devices", "driver.installed"), fix="container.run-command")
def driver_files_are_mounted(
    container: Container,
    mounts: ContainerMounts,
    nodes: DeviceNodes | None,
    driver: DriverInstall | None,
    modules: LoadedModules | None,
    answer: NpuSmiAnswer | None,
    plan: NetworkPlan | None,
    cards: Chips | None,
) -> Iterator[Finding]:
    """The driver's files are mounted into this container from its host, from the right place.

    CANN loads the driver's libraries, which have to be those of the kernel modules that run on the host: they cannot
    be part of an image.
    """
    works = answer is not None and answer.info is not None
    bad: list[tuple[Mounted, str]] = []
    lacking: list[Mounted] = []
    for mounted in mounts.by_path.values():
        needed = mounted.mount.plain and not mounted.mount.several_nodes
        if mounted.mount.container == NPU_SMI:
            continue  # driver.npu-smi tells of it
        if why := _wrong(mounted):
            bad.append((mounted, why))
        elif mounted.kind is None and needed and mounted.mount.runtime:
            bad.append((mounted, "not there"))
        elif mounted.kind is None and mounted.mount.plain and _counts(mounted, cards):
            lacking.append(mounted)
    if bad:
        fatal = not works or any(mounted.mount.container == LIBRARIES for mounted, _ in bad)
        yield _bad(bad, container, nodes, Severity.ERROR if fatal else Severity.WARNING)
    elif (other := _other_driver(driver, modules)) is not None:
        yield _of_another_driver(*other, driver, container, nodes)
    for_several = [mounted for mounted in lacking if mounted.mount.several_nodes]
    if for_several and plan is not None and plan.several:
        yield _lacking(for_several, container, nodes, Severity.ERROR, plan)
        lacking = [mounted for mounted in lacking if mounted not in for_several]
    if lacking:
        yield _lacking(lacking, container, nodes, Severity.INFO, None)


def _counts(mounted: Mounted, cards: Chips | None) -> bool:
    """What concerns the cards' network is nothing to cards that have none."""
    known = [knowledge.hardware().family(id) for id in cards.families] if cards is not None else []
    without = bool(known) and all(family is not None and family.device_nic is False for family in known)
    return not (mounted.mount.several_nodes and without)


def _wrong(mounted: Mounted) -> str | None:
    """What is wrong with something that is there."""
    if mounted.is_misplaced:
        return "a folder: the host has nothing at the path it was mounted from" if mounted.kind == "dir" else "a file"
    if mounted.lacks:
        return f"without {', '.join(mounted.lacks)}"
    if mounted.is_of_another_place:
        return f"mounted from {mounted.source}"
    return None


def _bad(
    bad: list[tuple[Mounted, str]], container: Container, nodes: DeviceNodes | None, severity: Severity
) -> Finding:
    first, why = bad[0]
    missing = all(mounted.kind is None for mounted, _ in bad)
    listed = ", ".join(mounted.path for mounted, _ in bad)
    return Finding(
        subject="container",
        severity=severity,
        summary=f"{listed} {'are' if len(bad) > 1 else 'is'} not mounted into this container"
        if missing
        else f"{first.path} is not what the host's driver has there ({why})"
        + (f"; so {'are' if len(bad) > 2 else 'is'} {len(bad) - 1} more" if len(bad) > 1 else ""),
        detail="Without the libraries of its host's driver no program in this container reaches a card."
        if severity is Severity.ERROR
        else "npu-smi works without; programs that ask for the state of a card by DCMI do not.",
        hint="Start the container again, on the host, with all of the driver's files mounted from where they are.",
        commands=_commands(container, nodes),
        evidence=tuple(
            Evidence(source=mounted.path, expected=f"{mounted.mount.what}, from {mounted.mount.host}", actual=why)
            for mounted, why in bad
        ),
        fix=_offer(nodes),
        pitfall="P060" if first.is_misplaced else "P009",
    )


def _lacking(
    lacking: list[Mounted],
    container: Container,
    nodes: DeviceNodes | None,
    severity: Severity,
    plan: NetworkPlan | None,
) -> Finding:
    names = ", ".join(mounted.mount.container for mounted in lacking)
    told = plan.evidence if plan is not None else None
    return Finding(
        subject="container",
        severity=severity,
        summary=f"{names} {'are' if len(lacking) > 1 else 'is'} not mounted into this container",
        detail="A job over several nodes reads the addresses of the cards there."
        if severity is Severity.ERROR
        else "Jobs on one node run without; what npudoctor reads there, it cannot judge.",
        hint="Mount it from the host when the container is started again.",
        commands=_commands(container, nodes) if severity is Severity.ERROR else (),
        evidence=(
            *(Evidence(source=mounted.path, expected=mounted.mount.what, actual="not there") for mounted in lacking),
            *([Evidence(source=told[0], actual=told[1])] if told else []),
        ),
        fix=_offer(nodes) if severity is Severity.ERROR else None,
        pitfall="P027" if severity is Severity.ERROR else "P009",
    )


def _other_driver(driver: DriverInstall | None, modules: LoadedModules | None) -> tuple[str, str, str] | None:
    """The version on disk, and a module with another one."""
    if driver is None or driver.file is None or modules is None:
        return None
    own = {_version(said) for said in (driver.file.version, driver.file.package_version) if said} - {None}
    for name, said in modules.versions.items():
        running = _version(said)
        if own and running is not None and running not in own:
            return driver.file.version or "?", name, str(running)
    return None


def _version(text: str) -> DriverVersion | None:
    try:
        return DriverVersion.parse(text)
    except ParseError:
        return None


def _of_another_driver(
    own: str,
    module: str,
    running: str,
    driver: DriverInstall | None,
    container: Container,
    nodes: DeviceNodes | None,
) -> Finding:
    return Finding(
        subject="container",
        summary=f"this container has the files of driver {own}, and its host runs driver {running}",
        detail="They are part of the image, or mounted from a copy; or the host's driver was upgraded and the host has "
        "not been rebooted. Libraries and modules of two drivers fail in ways that look like a broken card.",
        hint="Mount the driver's files from the host; on the host, see whether npudoctor asks for a reboot.",
        commands=_commands(container, nodes),
        evidence=(
            Evidence(source=driver.path if driver is not None else "version.info", expected=running, actual=own),
            Evidence(source=f"/sys/module/{module}/version", actual=running),
        ),
        fix=_offer(nodes),
        pitfall="P009",
    )


def _commands(container: Container, nodes: DeviceNodes | None) -> tuple[str, ...]:
    return run_commands(container, _devices(nodes))


def _devices(nodes: DeviceNodes | None) -> list[str]:
    return [node.path for node in (*nodes.cards, *nodes.slices, *nodes.managers)] if nodes is not None else []


def _offer(nodes: DeviceNodes | None) -> FixOffer:
    return FixOffer(id="container.run-command", params={"devices": _devices(nodes)})


@check("container.runtime", after=("container.devices",))
def visible_devices_are_in_force(
    container: Container, nodes: DeviceNodes, environment: JobEnvironment
) -> Iterator[Finding]:
    """The cards that ASCEND_VISIBLE_DEVICES asks for are the ones in this container.

    Only the ascend runtime reads this variable, when the container is started. Under another runtime it does nothing:
    the job sees other cards than it was given, and takes those of a neighbour.
    """
    asked = environment.filled(VISIBLE)
    if asked is None or asked.strip().lower() in _NOTHING or nodes.slices or not nodes.cards:
        return
    wanted = device_numbers(asked)
    here = set(nodes.numbers)
    if wanted is None or wanted == here:
        return
    more, less = sorted(here - wanted), sorted(wanted - here)
    marker, _, value = str(knowledge.layout().more["runtime_marker"]).partition("=")
    in_force = environment.get(marker) == value
    yield Finding(
        subject="container",
        severity=Severity.WARNING,
        summary=f"{VISIBLE} asks for {asked}, and this container has "
        + (f"davinci{', davinci'.join(map(str, sorted(here)))}" if len(here) <= 4 else f"{len(here)} cards"),
        detail=("It was changed after the start, or devices were passed besides." if in_force else "")
        or "The variable has no effect: the container was not started with the ascend runtime, and its cards were "
        "passed in another way (--privileged, --device).",
        hint="Start the container with the ascend runtime, or pass the cards that are meant and remove the variable.",
        commands=run_commands(container, [*(f"/dev/davinci{number}" for number in sorted(wanted)), *_managers(nodes)]),
        evidence=(
            Evidence(source=VISIBLE, actual=asked),
            Evidence(
                source="/dev/davinci*",
                expected=", ".join(map(str, sorted(wanted))),
                actual=", ".join(map(str, sorted(here))),
            ),
            *([Evidence(source="in /dev besides", actual=", ".join(map(str, more)))] if more else []),
            *([Evidence(source="asked for and not in /dev", actual=", ".join(map(str, less)))] if less else []),
        ),
        pitfall="P061",
    )


def _managers(nodes: DeviceNodes) -> list[str]:
    return [node.path for node in nodes.managers]


_NUMBERS = r"(\d{1,4})(?:-(\d{1,4}))?|[A-Za-z]{1,20}\d{0,6}[A-Za-z]{0,8}\d{0,6}-(\d{1,4})"


def device_numbers(text: str) -> set[int] | None:
    """The cards that a value names: `0,2`, `0-3`, `Ascend910-0`; None for another form."""
    found: set[int] = set()
    for part in text.split(","):
        named = re.fullmatch(_NUMBERS, part.strip())
        if named is None:
            return None
        first = int(named[1] or named[3])
        last = int(named[2]) if named[2] else first
        found.update(range(first, last + 1))
    return found
