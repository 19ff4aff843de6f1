"""Frameworks on top of torch_npu and CANN: their releases go together and support these chips.

A check of a framework that is not installed does not apply, unless `check --for NAME` asks for it.
"""

from __future__ import annotations

from collections.abc import Iterator

from npudoctor import knowledge
from npudoctor.facts.cann.toolkits import Cann
from npudoctor.facts.network.hccl import HcclPorts
from npudoctor.facts.node.chips import Chips
from npudoctor.facts.node.container import Container
from npudoctor.facts.node.context import SoftwareStack
from npudoctor.facts.node.service_port import ServicePort
from npudoctor.facts.node.working_folder import WorkingFolder
from npudoctor.facts.python.operator_builds import OperatorBuilds
from npudoctor.facts.python.target_python import PythonEnvironment
from npudoctor.facts.system.processes import Processes
from npudoctor.facts.versions import is_older
from npudoctor.knowledge.tables.stacks import Framework, FrameworkRelease
from npudoctor.sdk import Check, Evidence, Finding, NotApplicable, Options, Severity, Unavailable, check

from ._owners import owners
from ._places import place_of
from ._stacks import commands, installed_parts, misfits, name_of, nearest, published_by_others
from .messages import stack as messages

_EXPLAINED_BY = (
    "cann.installed",
    "python.version",
    "python.torch",
    "python.torch-npu",
    "python.pairing",
    "python.cann-pairing",
)
_THEIR_OWN = frozenset({"torch", "torch_npu", "cann", "python"})
"""What the checks of the Python judge too: a difference in these alone is explained by theirs."""


def _check_of(name: str, package: str, title: str) -> Check:
    """The check of one framework."""

    def releases_go_together(
        python: PythonEnvironment, cann: Cann | None, cards: Chips | None, options: Options
    ) -> Iterator[Finding]:
        if package not in python.distributions and name not in options.frameworks:
            raise NotApplicable(messages.NOT_INSTALLED.text(title=title))
        framework = knowledge.stacks().framework(name)
        yield from _of_unnamed_chip(framework, cards)
        family = cards.family if cards is not None else None
        yield from _of_chip(framework, python, family)
        yield from _of_releases(framework, python, cann)

    releases_go_together.__doc__ = f"""Releases of {title} match, and support these chips.

    A framework names one set of releases of torch, torch_npu, CANN and its own packages. With another set it fails at
    import, or later with an attribute or an operator that is missing. Judged only where it is installed, or asked for
    by --for.
    """
    made = check(f"stack.{name}", explained_by=_EXPLAINED_BY, requires=(SoftwareStack,))
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


def _of_chip(framework: Framework, python: PythonEnvironment, family: str | None) -> Iterator[Finding]:
    """What is known not to run on these chips: the framework, and the packages that belong to it."""
    if family is None:
        return
    for package in (framework.package, *framework.brings):
        support = knowledge.stacks().chip(package, family)
        installed = python.distributions.get(package)
        if support is None or (installed is None and package != framework.package):
            continue
        note = support.note or messages.NO_NOTE.text()
        evidence = (
            Evidence(
                source=python.executable,
                actual=f"{package} {installed.version}" if installed is not None else messages.MISSING_PART.text(),
            ),
        )
        if not support.supported:
            yield messages.CHIP[framework.name].finding(
                subject="python",
                package=package,
                family=family,
                note=note,
                evidence=evidence,
                links=support.sources,
            )
        elif support.since is not None and installed is not None and is_older(installed.version, support.since):
            yield messages.CHIP_SINCE[framework.name].finding(
                subject="python",
                package=package,
                release=installed.version,
                family=family,
                since=support.since,
                note=note,
                evidence=evidence,
                links=support.sources,
            )


def _of_releases(framework: Framework, python: PythonEnvironment, cann: Cann | None) -> Iterator[Finding]:
    table, parts = knowledge.stacks(), installed_parts(python, cann)
    found = nearest(framework, table, parts)
    here = python.distributions.get(framework.package)
    if here is None:
        release, wrong = found if found is not None else (None, ())
        yield messages.REQUIRED[framework.name].finding(
            subject="python",
            title=framework.title,
            python=python.executable,
            hint=_how_to_install(framework, release, wrong),
            commands=_first_commands(framework, release, wrong, python, parts),
            evidence=(
                Evidence(source=python.executable, expected=framework.package, actual=messages.MISSING_PART.text()),
            ),
            links=release.sources if release is not None else (),
        )
        return
    published = table.release(framework.name, here.version)
    if published is None:
        yield messages.NOT_LISTED[framework.name].finding(
            subject="python", title=framework.title, release=here.version, as_of=table.as_of
        )
        return
    elsewhere = published_by_others(framework, table, parts)
    wrong_here = {part: how for part, how in misfits(published, parts).items() if part not in elsewhere}
    if wrong_here and found is not None:
        yield _mismatch(framework, published, wrong_here, found, python, parts)


def _how_to_install(framework: Framework, release: FrameworkRelease | None, wrong: tuple[str, ...]) -> str:
    """Which release to install, or where it is said, for a framework that is not installed."""
    source = next(iter((*(release.sources if release is not None else ()), *framework.sources)), "")
    if release is None or "*" in release.release:
        return messages.INSTALL_ANY.text(title=framework.title, source=source)
    if not framework.in_package_index:
        what = messages.PART.text(part=framework.title, version=release.release)
        return messages.INSTALL_ELSEWHERE.text(what=what, source=source)
    changes = ", ".join(_part(part, release.requires[part]) for part in wrong)
    said = messages.INSTALL_AND if changes else messages.INSTALL
    return said.text(title=framework.title, release=release.release, **({"changes": changes} if changes else {}))


def _first_commands(
    framework: Framework,
    release: FrameworkRelease | None,
    wrong: tuple[str, ...],
    python: PythonEnvironment,
    parts: dict[str, str],
) -> tuple[str, ...]:
    """The commands for a framework that is not installed; without any, the one that shows what is published."""
    found = tuple(commands(framework, release, wrong, python, parts)) if release is not None else ()
    return found or (f"npudoctor knowledge pair --for {framework.name}",)


def _mismatch(
    framework: Framework,
    published: FrameworkRelease,
    wrong: dict[str, Severity],
    change: tuple[FrameworkRelease, tuple[str, ...]],
    python: PythonEnvironment,
    parts: dict[str, str],
) -> Finding:
    release, to_change = change
    return messages.MISMATCH[framework.name].finding(
        subject="python",
        severity=max(wrong.values()),
        symptom=set(wrong) <= _THEIR_OWN,
        title=framework.title,
        release=parts[framework.package],
        required=[_part(part, published.requires[part]) for part in wrong],
        found=[_part(part, parts[part]) for part in wrong],
        published=[_part(part, version) for part, version in published.requires.items()],
        as_of=knowledge.stacks().as_of,
        hint=_hint(framework, published, release, to_change),
        commands=tuple(commands(framework, release, to_change, python, parts)),
        evidence=tuple(
            Evidence(
                source=python.executable if part != "cann" else "CANN",
                expected=_part(part, published.requires[part]),
                actual=parts[part],
            )
            for part in wrong
        ),
        links=published.sources,
    )


def _part(part: str, version: str) -> str:
    return messages.PART.text(part=name_of(part), version=version)


def _hint(framework: Framework, here: FrameworkRelease, release: FrameworkRelease, wrong: tuple[str, ...]) -> str:
    changes = ", ".join(_part(part, release.requires[part]) for part in wrong)
    if release is here:
        return messages.KEEP_RELEASE.text(changes=changes)
    if not changes:
        return messages.OTHER_RELEASE_ALONE.text(title=framework.title, release=release.release)
    return messages.OTHER_RELEASE.text(title=framework.title, release=release.release, changes=changes)


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

    A service that finds its port in use ends, or a client reaches another program. Judged only for a service with an
    option --port, in a job that --environment pid:N names, and in a pod.
    """
    evidence = (Evidence(source=messages.COMMAND_LINE.text(pid=service.pid), actual=f"--port {service.port}"),)
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
def site(python: PythonEnvironment, cann: Cann | None, cards: Chips | None, options: Options) -> Iterator[Finding]:
    """Releases of frameworks that the site added match.

    Files in /etc/npudoctor/knowledge.d add frameworks to those that are built in, with their releases and chips. Each
    is judged as a built-in one is: where it is installed, or asked for by --for.
    """
    added = [one for one in knowledge.stacks().frameworks if one.name not in messages.MISMATCH]
    here = [one for one in added if one.package in python.distributions or one.name in options.frameworks]
    if not here:
        raise NotApplicable(messages.NONE_OF_THE_SITE.text())
    for one in here:
        yield from _check_of(one.name, one.package, one.title)(python, cann, cards, options)


def _of_unnamed_chip(framework: Framework, cards: Chips | None) -> Iterator[Finding]:
    """That nothing is known of the framework on these chips; it may run there or not."""
    table, family = knowledge.stacks(), cards.family if cards is not None else None
    if family is not None and table.chip(framework.package, family) is None:
        named = [row.family for row in table.chips if row.package == framework.package and row.supported]
        yield messages.CHIP_NOT_LISTED[framework.name].finding(
            subject="python",
            title=framework.title,
            family=family,
            as_of=table.as_of,
            named=messages.NAMED.text(families=named) if named else messages.NONE_NAMED.text(),
            links=framework.sources,
        )
