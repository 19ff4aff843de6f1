"""The running containers of this host that use its NPUs, seen from outside."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from npudoctor import knowledge
from npudoctor.facts.hccn.card_view import NetworkPlan
from npudoctor.facts.node.ascend_runtime import AscendRuntime
from npudoctor.facts.node.container_mounts import LIBRARIES
from npudoctor.facts.node.running_containers import RunningContainer, RunningContainers
from npudoctor.facts.system.pci import PciCards
from npudoctor.sdk import Evidence, Finding, FixOffer, Message, NotApplicable, Severity, check

from .container import managers_of
from .messages import container as messages

_SHOWN = 8


@check("containers.complete", profile="standard", fix="container.run-command")
def running_containers_are_complete(
    running: RunningContainers, pci: PciCards | None, plan: NetworkPlan | None
) -> Iterator[Finding]:
    """NPU devices and driver files of running containers.

    A container that lacks some of them fails later, in a job, with an error that names something else. They cannot be
    added to a container that runs.
    """
    if not running.containers:
        raise NotApplicable(messages.NONE_RUNS.text())
    managers = managers_of(pci)
    with_npus = [one for one in running.containers if one.cards]
    empty = [one for one in running.containers if one.devices is not None and not one.cards]
    network = [one.host for one in knowledge.layout().mounts if one.plain and one.several_nodes]

    def lacks_managers(one: RunningContainer) -> list[str]:
        return [path for path in managers if path not in (one.devices or ())]

    def lacks_files(one: RunningContainer) -> list[str]:
        return [] if one.has(LIBRARIES) else [LIBRARIES]

    def lacks_network(one: RunningContainer) -> list[str]:
        return [path for path in network if not one.has(path)]

    yield from _lacking_findings(messages.NO_NPU_IN, empty, lambda _: ["/dev/davinci0, …"])
    yield from _lacking_findings(messages.NO_MANAGER_IN, with_npus, lacks_managers)
    yield from _lacking_findings(messages.NO_DRIVER_FILES_IN, with_npus, lacks_files)
    bad = [one for one in with_npus if lacks_network(one) and not lacks_files(one)]
    if bad:
        yield messages.NO_NETWORK_FILES_IN.finding(
            severity=Severity.WARNING if plan is not None and plan.needed else None,
            paths=sorted({path for one in bad for path in lacks_network(one)}),
            names=_names(bad),
            count=len(bad),
            evidence=tuple(_evidence(one, lacks_network(one)) for one in bad[:_SHOWN]),
            fix=FixOffer(id="container.run-command", params={"containers": [one.title for one in bad]}),
        )


@check("containers.runtime", profile="standard", fix="container.runtime")
def the_runtime_is_registered(runtime: AscendRuntime) -> Iterator[Finding]:
    """Ascend Docker runtime registered with the container engines.

    Only this runtime reads ASCEND_VISIBLE_DEVICES, when it creates a container.
    """
    for engine in runtime.engines:
        if engine not in runtime.known_to:
            yield messages.NOT_REGISTERED.finding(
                severity=None if runtime.known_to else Severity.WARNING,
                engine=engine,
                evidence=(Evidence(source=runtime.path, actual=engine),),
                fix=FixOffer(id="container.runtime", params={"engine": engine}),
            )


def _lacking_findings(
    message: Message,
    containers: Sequence[RunningContainer],
    lacks: Callable[[RunningContainer], list[str]],
) -> Iterator[Finding]:
    bad = [one for one in containers if lacks(one)]
    if bad:
        yield message.finding(
            names=_names(bad),
            count=len(bad),
            evidence=tuple(_evidence(one, lacks(one)) for one in bad[:_SHOWN]),
            fix=FixOffer(id="container.run-command", params={"containers": [one.title for one in bad]}),
        )


def _names(containers: Sequence[RunningContainer]) -> list[str]:
    more = len(containers) - _SHOWN
    names = [one.title for one in containers[:_SHOWN]]
    return [*names, messages.MORE_CONTAINERS.text(count=more)] if more > 0 else names


def _evidence(one: RunningContainer, lacking: Iterable[str]) -> Evidence:
    return Evidence(
        source=messages.PROCESS_OF.text(container=one.title, runtime=one.runtime, pid=one.pid),
        expected=", ".join(lacking),
        actual=messages.NOT_FOUND.text(),
    )
