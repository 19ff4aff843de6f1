"""The driver files that a container gets from its host, and the variable of the ascend runtime."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

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
from npudoctor.sdk import Evidence, Finding, ParseError, Severity, check

from ._places import Change
from .container import VISIBLE, recreate, run_command
from .messages import container as messages

ON_HOST = "cat /etc/ascend_install.info  # on the host: where the driver is installed"
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
    """Driver files mounted into this container.

    CANN loads the driver libraries, which must match the kernel modules that run on the host: they cannot be part of an
    image.
    """
    works = answer is not None and answer.info is not None
    several = plan is not None and plan.several
    bad: list[tuple[Mounted, str]] = []
    lacking: list[Mounted] = []
    for mounted in mounts.by_path.values():
        needed = mounted.mount.plain and not mounted.mount.several_nodes
        if mounted.mount.container == NPU_SMI:
            continue  # driver.npu-smi reports it
        if why := _problem(mounted):
            bad.append((mounted, why))
        elif mounted.kind is None and needed and mounted.mount.runtime:
            bad.append((mounted, "not found"))
        elif mounted.kind is None and mounted.mount.plain and _is_relevant(mounted, cards):
            lacking.append(mounted)
    if bad:
        fatal = not works or any(mounted.mount.container == LIBRARIES for mounted, _ in bad)
        yield _wrong_files(bad, container, nodes, Severity.ERROR if fatal else Severity.WARNING, several=several)
    elif (other := _other_driver(driver, modules)) is not None:
        yield _of_another_driver(*other, driver, container, nodes, several=several)
    for_several = [mounted for mounted in lacking if mounted.mount.several_nodes]
    if for_several and plan is not None and plan.needed:
        paths = [mounted.mount.container for mounted in for_several]
        change = _recreate(container, nodes, paths, several_nodes=True)
        yield messages.NETWORK_FILES.finding(
            subject="container",
            paths=paths,
            count=len(for_several),
            hint=change.hint,
            commands=change.commands,
            evidence=(*_not_found(for_several), *_of_plan(plan)),
            fix=run_command(container, _devices(nodes)),
        )
        lacking = [mounted for mounted in lacking if mounted not in for_several]
    if lacking:
        yield messages.OPTIONAL_FILES.finding(
            subject="container",
            paths=[mounted.mount.container for mounted in lacking],
            count=len(lacking),
            evidence=tuple(_not_found(lacking)),
        )


def _is_relevant(mounted: Mounted, cards: Chips | None) -> bool:
    """False for network files where the NPUs have no network."""
    known = [knowledge.hardware().family(id) for id in cards.families] if cards is not None else []
    without = bool(known) and all(family is not None and family.device_nic is False for family in known)
    return not (mounted.mount.several_nodes and without)


def _problem(mounted: Mounted) -> str | None:
    """What is wrong with something that exists."""
    if mounted.is_misplaced:
        sentence = messages.DIRECTORY_FOR_FILE if mounted.kind == "dir" else messages.FILE_FOR_DIRECTORY
        return sentence.text()
    if mounted.lacks:
        return messages.CONTENT_MISSING.text(files=mounted.lacks)
    if mounted.is_of_another_place:
        return messages.MOUNTED_FROM.text(path=mounted.source)
    return None


def _wrong_files(
    bad: list[tuple[Mounted, str]],
    container: Container,
    nodes: DeviceNodes | None,
    severity: Severity,
    *,
    several: bool,
) -> Finding:
    evidence = tuple(
        Evidence(
            source=mounted.path,
            expected=messages.FROM_THE_HOST.text(what=mounted.mount.what, path=mounted.mount.host),
            actual=why,
        )
        for mounted, why in bad
    )
    detail = messages.ONLY_DCMI.text(count=len(bad)) if severity is not Severity.ERROR else None
    pitfall = "P060" if bad[0][0].is_misplaced else None
    fix = run_command(container, _devices(nodes))
    change = _recreate(container, nodes, [mounted.mount.host for mounted, _ in bad], several_nodes=several)
    hint, commands = change.hint, change.commands
    misplaced = [mounted.mount.host for mounted, _ in bad if mounted.is_misplaced]
    if misplaced and hint is None:
        # The mount itself is the fault: the same command would make the same directory again.
        hint = messages.FIND_ON_HOST.text(paths=misplaced, count=len(misplaced))
        commands = (messages.LOOK_ON_HOST.text(paths=" ".join(misplaced)), ON_HOST, *commands)
        fix = None
    if all(mounted.kind is None for mounted, _ in bad):
        return messages.NOT_MOUNTED.finding(
            subject="container",
            severity=severity,
            paths=[mounted.path for mounted, _ in bad],
            detail=detail,
            hint=hint,
            commands=commands,
            evidence=evidence,
            fix=fix,
        )
    return messages.WRONG_MOUNT.finding(
        subject="container",
        severity=severity,
        files=[f"{mounted.path} ({why})" for mounted, why in bad],
        count=len(bad),
        detail=detail,
        hint=hint,
        commands=commands,
        evidence=evidence,
        fix=fix,
        pitfall=pitfall,
    )


def _not_found(lacking: list[Mounted]) -> Iterator[Evidence]:
    for mounted in lacking:
        yield Evidence(source=mounted.path, expected=mounted.mount.what, actual="not found")


def _of_plan(plan: NetworkPlan) -> Iterator[Evidence]:
    if plan.evidence is not None:
        yield Evidence(source=plan.evidence[0], actual=plan.evidence[1])


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
    *,
    several: bool,
) -> Finding:
    change = _recreate(container, nodes, several_nodes=several)
    return messages.OTHER_DRIVER.finding(
        subject="container",
        container=own,
        host=running,
        hint=change.hint,
        commands=change.commands,
        evidence=(
            Evidence(source=driver.path if driver is not None else "version.info", expected=running, actual=own),
            Evidence(source=f"/sys/module/{module}/version", actual=running),
        ),
        fix=run_command(container, _devices(nodes)),
    )


def _recreate(
    container: Container, nodes: DeviceNodes | None, files: Sequence[str] = (), *, several_nodes: bool = False
) -> Change:
    return recreate(container, _devices(nodes), files or (LIBRARIES,), several_nodes=several_nodes)


def _devices(nodes: DeviceNodes | None) -> list[str]:
    return [node.path for node in (*nodes.cards, *nodes.slices, *nodes.managers)] if nodes is not None else []


SPECS = "ASCEND_VNPU_SPECS"


@check("container.runtime", after=("container.devices",))
def visible_devices_match(
    container: Container, nodes: DeviceNodes, environment: JobEnvironment, cards: Chips | None
) -> Iterator[Finding]:
    """ASCEND_VISIBLE_DEVICES matches the devices of this container.

    Only the ascend runtime reads this variable, when the container is created. With another runtime it has no effect:
    the job uses other NPUs than it was given, those of another job.
    """
    divided = _divided_otherwise(nodes, environment, cards)
    if divided is not None:
        yield divided
        return
    asked = environment.non_empty(VISIBLE)
    if asked is None or asked.strip().lower() in _NOTHING or nodes.slices or not nodes.cards:
        return
    wanted = device_numbers(asked)
    here = set(nodes.numbers)
    if wanted is None or wanted == here:
        return
    more, less = sorted(here - wanted), sorted(wanted - here)
    marker, _, value = str(knowledge.layout().more["runtime_marker"]).partition("=")
    in_force = environment.get(marker) == value
    change = recreate(container, [*(f"/dev/davinci{number}" for number in sorted(wanted)), *_managers(nodes)])
    yield messages.DEVICES_MISMATCH.finding(
        subject="container",
        variable=VISIBLE,
        value=asked,
        count=len(here),
        detail=messages.CHANGED_LATER.text() if in_force else None,
        hint=change.hint,
        commands=change.commands,
        evidence=(
            Evidence(source=VISIBLE, actual=asked),
            Evidence(
                source="/dev/davinci*",
                expected=", ".join(map(str, sorted(wanted))),
                actual=", ".join(map(str, sorted(here))),
            ),
            *([Evidence(source="only in /dev", actual=", ".join(map(str, more)))] if more else []),
            *([Evidence(source=f"only in {VISIBLE}", actual=", ".join(map(str, less)))] if less else []),
        ),
    )


def _divided_otherwise(nodes: DeviceNodes, environment: JobEnvironment, cards: Chips | None) -> Finding | None:
    """A container that was to have vNPUs of a template, and has others or whole NPUs."""
    specs = (environment.non_empty(SPECS) or "").strip().lower()
    here = sorted({chip.template.lower() for chip in cards.chips if chip.template}) if cards is not None else []
    if not specs or any(one.startswith(specs) or specs.startswith(one) for one in here):
        return None
    if here:
        found = messages.OF_TEMPLATES.text(templates=here)
    elif nodes.cards and not nodes.slices:
        found = messages.WHOLE_NPUS.text()
    else:
        return None
    return messages.DIVIDED_OTHERWISE.finding(
        subject="container",
        variable=SPECS,
        value=specs,
        found=found,
        commands=("npu-smi info -t template-info",),
        evidence=(Evidence(source="/dev/davinci*", expected=specs, actual=found),),
    )


def _managers(nodes: DeviceNodes) -> list[str]:
    return [node.path for node in nodes.managers]


_NUMBERS = r"(\d{1,4})(?:-(\d{1,4}))?|[A-Za-z]{1,20}\d{0,6}[A-Za-z]{0,8}\d{0,6}-(\d{1,4})"


def device_numbers(text: str) -> set[int] | None:
    """The numbers that a value names: `0,2`, `0-3`, `Ascend910-0`; None for another form."""
    found: set[int] = set()
    for part in text.split(","):
        named = re.fullmatch(_NUMBERS, part.strip())
        if named is None:
            return None
        first = int(named[1] or named[3])
        last = int(named[2]) if named[2] else first
        found.update(range(first, last + 1))
    return found
