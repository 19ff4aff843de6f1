"""The NPU device nodes of a container."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from npudoctor import knowledge
from npudoctor.facts.node.container import DEVICE_LIST, Container, DeviceRules
from npudoctor.facts.node.device_nodes import DeviceNode, DeviceNodes
from npudoctor.facts.node.environment import JobEnvironment
from npudoctor.facts.system.pci import PciCards
from npudoctor.sdk import HEALTH, Evidence, Finding, FixOffer, check

from .messages import container as messages

VISIBLE = "ASCEND_VISIBLE_DEVICES"


@check("container.devices", tags=(HEALTH,), fix="container.run-command")
def devices_are_mapped(
    container: Container,
    nodes: DeviceNodes,
    pci: PciCards | None,
    rules: DeviceRules | None,
    environment: JobEnvironment | None,
) -> Iterator[Finding]:
    """NPU devices mapped into this container.

    Device nodes are mapped when the container is created, and cannot be added later. Without them npu-smi fails with
    -8005, and torch finds no NPU.
    """
    managers = managers_of(pci)
    there = [node.path for node in nodes.managers]
    missing = [path for path in managers if path not in there]
    usable = (*nodes.cards, *nodes.slices)
    asked = environment.get(VISIBLE, "") if environment else ""
    if not usable:
        yield _no_cards(container, nodes, pci, managers, asked)
        return
    paths = tuple(node.path for node in usable)
    if missing:
        yield messages.MANAGER_MISSING.finding(
            subject="container",
            paths=missing,
            count=len(missing),
            commands=run_commands(container, (*paths, *managers)),
            evidence=(Evidence(source="/dev", expected=", ".join(managers), actual=", ".join(there) or "none"),),
            fix=_offer(paths, managers),
        )
    denied = _denied((*usable, *nodes.managers), rules)
    if denied:
        yield messages.DENIED.finding(
            subject="container",
            paths=denied,
            commands=run_commands(container, (*paths, *managers)),
            evidence=(
                Evidence(
                    source=DEVICE_LIST,
                    expected=messages.RULE_EXPECTED.text(),
                    actual=messages.NO_RULE.text(path=denied[0]),
                ),
            ),
            fix=_offer(paths, managers),
        )


def managers_of(pci: PciCards | None) -> tuple[str, ...]:
    """The manager nodes that the family needs; those of most families where it is not known."""
    families = {card.family for card in pci.cards} if pci else set()
    known = knowledge.hardware().families
    needed = [family.manager_nodes for family in known if family.id in families]
    return needed[0] if needed else max((family.manager_nodes for family in known), key=len)


def _no_cards(
    container: Container, nodes: DeviceNodes, pci: PciCards | None, managers: tuple[str, ...], asked: str
) -> Finding:
    on_host = len(pci.cards) if pci else 0
    cards = tuple(f"/dev/davinci{number}" for number in range(on_host or 1))
    found = ", ".join(node.path for node in nodes.managers)
    evidence = [Evidence(source="/dev", expected="/dev/davinci0, …", actual=found or "none")]
    details = [messages.MAPPED_AT_CREATION.text()]
    pitfall = None
    if on_host:
        evidence.append(Evidence(source="PCI bus (the host's)", actual=messages.NPUS_OF_HOST.text(count=on_host)))
    if nodes.misplaced:
        path = nodes.misplaced[0]
        evidence.append(Evidence(source=path, expected=messages.DEVICE_NODE.text(), actual=messages.DIRECTORY.text()))
        details.append(messages.NODE_IS_A_DIRECTORY.text(path=path))
    if asked and asked != "void":
        pitfall = "P061"
        evidence.append(Evidence(source=VISIBLE, actual=asked))
        details.append(messages.VARIABLE_WITHOUT_RUNTIME.text(variable=VISIBLE))
    hint = None
    if _in_kubernetes(container):
        hint = messages.REQUEST_NPUS.text(resources=knowledge.layout().more["kubernetes"]["resources"][0])
    return messages.NO_DEVICE.finding(
        subject="container",
        detail=" ".join(details),
        hint=hint,
        commands=run_commands(container, (*cards, *managers)),
        evidence=tuple(evidence),
        fix=_offer(cards, managers),
        pitfall=pitfall,
    )


def _in_kubernetes(container: Container) -> bool:
    return container.orchestrator == "Kubernetes" or container.runtime == "kubernetes"


def run_commands(container: Container, devices: Iterable[str]) -> tuple[str, ...]:
    """The corrected `docker run`: with plain Docker, and with the ascend runtime."""
    if _in_kubernetes(container):
        return ("kubectl describe node  # what the device plugin offers: huawei.com/…",)
    tool = "podman" if container.runtime == "podman" else "docker"
    passed = [f"--device={path}" for path in devices]
    mounted = [
        f"-v {one.host}:{one.container}:ro" for one in knowledge.layout().mounts if one.plain and not one.several_nodes
    ]
    numbers = [path.removeprefix("/dev/davinci") for path in devices if path.removeprefix("/dev/davinci").isdigit()]
    runtime = knowledge.layout().more["runtime_name"]
    return (
        " ".join([f"{tool} run", *passed, *mounted, "IMAGE"]),
        f"{tool} run --runtime={runtime} -e {VISIBLE}={','.join(numbers) or '0'} IMAGE  # or with the ascend runtime",
    )


def _denied(nodes: Iterable[DeviceNode], rules: DeviceRules | None) -> list[str]:
    """The nodes that a control group of version 1 denies; version 2 does not show its rules."""
    if rules is None:
        return []
    return [node.path for node in nodes if node.stat is not None and node.stat.rdev and not rules.allow(node.stat.rdev)]


def _offer(cards: Iterable[str], managers: Iterable[str]) -> FixOffer:
    return FixOffer(id="container.run-command", params={"devices": [*cards, *managers]})
