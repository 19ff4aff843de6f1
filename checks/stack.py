"""Frameworks on top of torch_npu and CANN: their releases go together and support these chips.

A check of a framework that is not installed does not apply, unless `check --for NAME` asks for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from npudoctor import knowledge
from npudoctor.facts.cann.toolkits import Cann
from npudoctor.facts.driver.install import DriverInstall
from npudoctor.facts.network.hccl import HcclPorts
from npudoctor.facts.node.chips import Chips
from npudoctor.facts.node.container import Container
from npudoctor.facts.node.context import SoftwareStack
from npudoctor.facts.node.service_port import ServicePort
from npudoctor.facts.node.working_folder import WorkingFolder
from npudoctor.facts.python.operator_builds import OperatorBuilds
from npudoctor.facts.python.published_releases import driver_required
from npudoctor.facts.python.target_python import PythonEnvironment
from npudoctor.facts.system.platform import Platform
from npudoctor.facts.system.processes import Processes
from npudoctor.facts.versions import is_older
from npudoctor.knowledge.tables.stacks import Framework, FrameworkRelease
from npudoctor.sdk import Check, Evidence, Finding, NotApplicable, Options, Severity, Unavailable, check

from ._owners import owners
from ._places import place_of
from ._stack_commands import Node, commands
from ._stacks import (
    Installed,
    Smallest,
    adviser,
    misfits,
    missing_packages,
    name_of,
    nearest,
    published_by_others,
    published_set,
    releases_here,
    requirements,
    text_of_change,
    text_of_release,
    text_of_releases,
)
from .messages import stack as messages

_EXPLAINED_BY = (
    "cann.installed",
    "cann.driver",
    "python.version",
    "python.torch",
    "python.torch-npu",
    "python.pairing",
    "python.cann-pairing",
)
_THEIR_OWN = frozenset({"torch", "torch_npu", "cann", "python", "driver"})
"""What the checks of Python and driver judge too: a difference in these alone is explained by theirs."""

_AROUND = {"vllm-ascend": ("stack.verl",)}
"""The checks of frameworks that require this one: where their set has to change, they say how."""


def _check_of(name: str, package: str, title: str) -> Check:
    """The check of one framework."""

    def releases_go_together(
        python: PythonEnvironment,
        cann: Cann | None,
        cards: Chips | None,
        driver: DriverInstall | None,
        platform: Platform | None,
        container: Container | None,
        options: Options,
    ) -> Iterator[Finding]:
        if package not in python.distributions and name not in options.frameworks:
            raise NotApplicable(messages.NOT_INSTALLED.text(title=title))
        node = Node(python=python, cards=cards, platform=platform, container=container)
        framework = knowledge.stacks().framework(name)
        yield from _of_framework(framework, cann, driver, node, asked=name in options.frameworks)

    releases_go_together.__doc__ = f"""Releases of {title} match, and support these chips.

    A framework names one set of releases of torch, torch_npu, CANN and its own packages. With another set it fails at
    import, or later with an attribute or an operator that is missing. Judged only where it is installed, or asked for
    by --for.
    """
    made = check(f"stack.{name}", explained_by=(*_EXPLAINED_BY, *_AROUND.get(name, ())), requires=(SoftwareStack,))
    return made(releases_go_together)


vllm_ascend = _check_of("vllm-ascend", "vllm-ascend", "vLLM Ascend")
verl = _check_of("verl", "verl", "verl")
llamafactory = _check_of("llamafactory", "llamafactory", "LLaMA-Factory")
sglang = _check_of("sglang", "sglang", "SGLang")
lmdeploy = _check_of("lmdeploy", "lmdeploy", "LMDeploy")
mindspore = _check_of("mindspore", "mindspore", "MindSpore")
mindie = _check_of("mindie", "mindie-llm", "MindIE")
mindspeed = _check_of("mindspeed", "mindspeed", "MindSpeed")
ms_swift = _check_of("ms-swift", "ms-swift", "ms-swift")


def _of_framework(
    framework: Framework, cann: Cann | None, driver: DriverInstall | None, node: Node, *, asked: bool
) -> Iterator[Finding]:
    """What is wrong with one framework on this node: its chips, then its releases; `asked` for by --for."""
    yield from _of_unnamed_chip(framework, node.cards, asked=asked)
    family = node.cards.family if node.cards is not None else None
    here = releases_here(node.python, cann, driver.stated if driver is not None else None, family)
    on_chip = list(_of_chip(framework, here, node.python))
    yield from on_chip
    if not any(finding.params.get("package") == framework.package for finding in on_chip):
        yield from _of_releases(framework, here, node, asked=asked)


def _of_chip(framework: Framework, here: Installed, python: PythonEnvironment) -> Iterator[Finding]:
    """What is known not to run on these chips: the framework, what belongs to it, and what it requires."""
    if here.family is None:
        return
    for package in _judged_here(framework, here):
        support = knowledge.stacks().chip(package, here.family)
        version = here.parts.get(package)
        if support is None or (version is None and package != framework.package):
            continue
        name, actual = framework.name, f"{package} {version}" if version is not None else messages.MISSING_PART.text()
        note, evidence = support.note or messages.NO_NOTE.text(), (Evidence(source=python.executable, actual=actual),)
        if not support.supported:
            extra = package not in (framework.package, *framework.brings)
            yield messages.CHIP[name].finding(
                subject="python",
                package=package,
                family=here.family,
                note=note,
                hint=messages.REMOVE.text(package=package, title=framework.title) if extra else None,
                commands=(f"{python.pip} uninstall -y {package}",) if extra else (),
                evidence=evidence,
                links=support.sources,
            )
        elif support.since is not None and version is not None and is_older(version, support.since):
            yield messages.CHIP_SINCE[name].finding(
                subject="python",
                package=package,
                release=version,
                family=here.family,
                since=support.since,
                note=note,
                evidence=evidence,
                links=support.sources,
            )


def _judged_here(framework: Framework, here: Installed) -> list[str]:
    """The packages whose chips this check judges: its own, and what its releases require and no other one judges."""
    table = knowledge.stacks()
    own = [framework.package, *framework.brings]
    required = {part: None for release in table.of(framework.name) for part in release.requires}
    of_others = {
        part
        for other in table.frameworks[: table.frameworks.index(framework)]
        if here.release_of(other)
        for part in (other.package, *other.brings, *(part for row in table.of(other.name) for part in row.requires))
    }
    return list(dict.fromkeys([*own, *(part for part in required if part not in of_others)]))


def _of_releases(framework: Framework, here: Installed, node: Node, *, asked: bool) -> Iterator[Finding]:
    table = knowledge.stacks()
    version = here.parts.get(framework.package)
    if version is None:
        yield _not_installed_finding(framework, here, node)
        return
    release = published_set(framework, table, here)
    if release is None:
        severity = Severity.WARNING if asked else Severity.INFO
        yield messages.NOT_LISTED[framework.name].finding(
            subject="python",
            severity=severity,
            title=framework.title,
            release=version,
            as_of=table.as_of,
            commands=(f"npudoctor knowledge pair --for {framework.name}",),
            links=framework.sources,
        )
        return
    elsewhere = published_by_others(framework, table, here)
    wrong = {part: how for part, how in misfits(release, here).items() if part not in elsewhere}
    absent = {part: how for part, how in missing_packages(framework, release, here).items() if part not in elsewhere}
    if wrong or absent:
        yield _mismatch(framework, release, wrong, absent, here, node)


def _not_installed_finding(framework: Framework, here: Installed, node: Node) -> Finding:
    """The finding about a framework that was asked for and is not installed."""
    change = nearest(framework, knowledge.stacks(), here)
    return messages.REQUIRED[framework.name].finding(
        subject="python",
        title=framework.title,
        python=node.python.executable,
        hint=_how_to_install(framework, change),
        commands=_commands(framework, change, here, node),
        evidence=(
            Evidence(source=node.python.executable, expected=framework.package, actual=messages.MISSING_PART.text()),
        ),
        links=change.release.sources if change is not None else (),
    )


def _how_to_install(framework: Framework, change: Smallest | None) -> str:
    """Which release to install, or where it is said, for a framework that is not installed."""
    release = change.release if change is not None else None
    source = next(iter((*(release.sources if release is not None else ()), *framework.sources)), "")
    if change is None or release is None or release.release == "*":
        return messages.INSTALL_ANY.text(title=framework.title, source=source)
    if not framework.has_in_package_index(release.release):
        what = messages.PART.text(part=framework.title, version=release.release)
        return messages.INSTALL_ELSEWHERE.text(what=what, source=source)
    changes = text_of_releases(change.changes)
    said = messages.INSTALL_AND if changes else messages.INSTALL
    return said.text(title=framework.title, release=release.release, **({"changes": changes} if changes else {}))


def _commands(framework: Framework, change: Smallest | None, here: Installed, node: Node) -> tuple[str, ...]:
    """The commands of a change; without any, the one that shows what is published."""
    found = tuple(commands(framework, change, here, node)) if change is not None else ()
    return found or (f"npudoctor knowledge pair --for {framework.name}",)


def _mismatch(
    framework: Framework,
    release: FrameworkRelease,
    wrong: dict[str, Severity],
    absent: dict[str, Severity],
    here: Installed,
    node: Node,
) -> Finding:
    """The finding about parts of the published set that differ or are not installed."""
    table = knowledge.stacks()
    advised = adviser(framework, table, here)
    change = nearest(advised, table, here)
    asked = requirements(release, here)
    parts = [part for part in asked if part in {**wrong, **absent}]
    message = messages.MISMATCH if wrong else messages.MISSING
    found = [
        text_of_release(part, here.parts[part]) if part in wrong else messages.NO_PART.text(part=part) for part in parts
    ]
    differences: dict[str, Any] = {"found": found} if wrong else {}
    return message[framework.name].finding(
        subject="python",
        severity=max([*wrong.values(), *absent.values()]),
        symptom=_is_explained(parts, here) or advised is not framework,
        title=framework.title,
        release=here.parts[framework.package],
        required=[text_of_release(part, asked[part]) for part in parts],
        **differences,
        published=[text_of_release(part, version) for part, version in release.requires.items()],
        as_of=table.as_of,
        hint=text_of_change(
            advised, change, {part: asked[part] for part in parts if advised is framework}, here, node.container
        ),
        commands=_commands(advised, change, here, node),
        evidence=tuple(
            Evidence(
                source=name_of(part) if part in ("cann", "driver") else node.python.executable,
                expected=text_of_release(part, asked[part]),
                actual=here.parts.get(part, messages.MISSING_PART.text()),
            )
            for part in parts
        ),
        links=release.sources,
    )


def _is_explained(parts: list[str], here: Installed) -> bool:
    """Whether other checks judge all these parts; an error about the driver says nothing of the others."""
    if parts == ["driver"]:
        return True
    too_old = driver_required(here.parts.get("cann"), here.parts.get("driver")) is not None
    return set(parts) <= _THEIR_OWN - {"driver"} and not too_old


@check("stack.operators", after=("npu.present",), explained_by=("stack.vllm-ascend",), requires=(SoftwareStack,))
def operators_are_built_for_this_chip(builds: OperatorBuilds, cards: Chips) -> Iterator[Finding]:
    """Custom operators built for these chips.

    A framework brings operators that were compiled for one chip family. On another family they do not load, and the
    message names an operator and not the build.
    """
    if not builds.builds:
        raise NotApplicable(messages.NO_BUILDS.text())
    family = cards.family
    if family is None:
        raise Unavailable(messages.FAMILY_UNKNOWN.text())
    for build in builds.builds:
        if build.families and family not in build.families:
            yield messages.BUILT_FOR.finding(
                subject="python",
                package=build.package,
                built=build.families,
                family=family,
                evidence=(Evidence(source=build.path, expected=family, actual=", ".join(build.chips)),),
                pitfall="P034",
            )


@check("stack.working-folder", requires=(SoftwareStack,))
def working_folder_is_writable(folder: WorkingFolder, container: Container | None = None) -> Iterator[Finding]:
    """Working directory of the job writable.

    The operator compiler writes files into the directory in which a job was started. A service or a pod starts in /
    if nothing else is said. Judged only for a job that --environment pid:N names, and in a pod.
    """
    if folder.instead is not None:
        raise NotApplicable(messages.WRITES_ELSEWHERE.text(variable=folder.instead))
    if folder.why_not is None:
        return
    message = messages.READ_ONLY if folder.why_not == "read-only" else messages.NOT_WRITABLE
    place = place_of(container)
    yield message.finding(
        path=folder.path,
        pid=folder.pid,
        hint=messages.FOLDER_OF[place.name].text(),
        evidence=(Evidence(source=f"/proc/{folder.pid}/cwd", actual=folder.path),),
    )


@check("stack.service-port", requires=(SoftwareStack,))
def service_port_is_free(
    service: ServicePort, processes: Processes | None, ports: HcclPorts | None
) -> Iterator[Finding]:
    """Port of the service free.

    A service that finds its port in use ends, or a client reaches another program. The port is that of its options,
    of its file (MindIE), or its default. Judged only in a job that --environment pid:N names, and in a pod.
    """
    evidence = (
        Evidence(
            source=messages.COMMAND_LINE.text(pid=service.pid),
            actual=service.source or messages.DEFAULT_PORT.text(port=service.port),
        ),
    )
    if not service.listens:
        for owner in owners(service.others, processes, None):
            yield messages.PORT_TAKEN.finding(
                title=service.title,
                pid=service.pid,
                port=service.port,
                owner=owner,
                commands=(f"ss -tlnp 'sport = :{service.port}'",),
                evidence=evidence,
            )
    if ports is not None and not ports.automatic and service.port in ports.certain:
        yield messages.PORT_OF_HCCL.finding(
            title=service.title, pid=service.pid, port=service.port, ports=ports.certain, evidence=evidence
        )


@check("stack.site", explained_by=_EXPLAINED_BY, requires=(SoftwareStack,))
def site(
    python: PythonEnvironment,
    cann: Cann | None,
    cards: Chips | None,
    driver: DriverInstall | None,
    platform: Platform | None,
    container: Container | None,
    options: Options,
) -> Iterator[Finding]:
    """Releases of frameworks that the site added match.

    Files in /etc/npudoctor/knowledge.d add frameworks to those that are built in, with their releases and chips. Each
    is judged as a built-in one is: where it is installed, or asked for by --for.
    """
    added = [one for one in knowledge.stacks().frameworks if one.name not in messages.MISMATCH]
    here = [one for one in added if one.package in python.distributions or one.name in options.frameworks]
    if not here:
        raise NotApplicable(messages.NONE_OF_THE_SITE.text())
    node = Node(python=python, cards=cards, platform=platform, container=container)
    for one in here:
        yield from _of_framework(one, cann, driver, node, asked=one.name in options.frameworks)


def _of_unnamed_chip(framework: Framework, cards: Chips | None, *, asked: bool) -> Iterator[Finding]:
    """That nothing is known of the framework on these chips; it may run there or not."""
    table, family = knowledge.stacks(), cards.family if cards is not None else None
    if family is not None and table.chip(framework.package, family) is None:
        named = [row.family for row in table.chips if row.package == framework.package and row.supported]
        yield messages.CHIP_NOT_LISTED[framework.name].finding(
            subject="python",
            severity=Severity.WARNING if asked else Severity.INFO,
            title=framework.title,
            family=family,
            as_of=table.as_of,
            named=messages.NAMED.text(families=named) if named else messages.NONE_NAMED.text(),
            links=framework.sources,
        )
