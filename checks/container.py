"""What a container needs from its host to reach the cards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from npudoctor import knowledge
from npudoctor.facts.node.container import DEVICE_LIST, Container, DeviceRules
from npudoctor.facts.node.device_nodes import DeviceNode, DeviceNodes
from npudoctor.facts.node.environment import JobEnvironment
from npudoctor.facts.system.pci import PciCards
from npudoctor.sdk import HEALTH, Evidence, Finding, FixOffer, check

VISIBLE = "ASCEND_VISIBLE_DEVICES"


@check("container.devices", tags=(HEALTH,), fix="container.run-command")
def devices_are_passed_in(
    container: Container,
    nodes: DeviceNodes,
    pci: PciCards | None,
    rules: DeviceRules | None,
    environment: JobEnvironment | None,
) -> Iterator[Finding]:
    """The cards and the driver's manager nodes are passed into this container, and may be opened.

    They come in when the container is started and cannot be added later; without them npu-smi says -8005 and torch
    sees no card.
    """
    managers = _managers(pci)
    there = [node.path for node in nodes.managers]
    missing = [path for path in managers if path not in there]
    usable = (*nodes.cards, *nodes.slices)
    asked = environment.get(VISIBLE, "") if environment else ""
    if not usable:
        yield _no_cards(container, nodes, pci, managers, asked)
        return
    paths = tuple(node.path for node in usable)
    if missing:
        yield Finding(
            subject="container",
            summary=f"the cards are here, but {_list(missing)} {'are' if len(missing) > 1 else 'is'} not",
            detail="Without a manager node no card can be opened: npu-smi ends with -8005, torch sees no card.",
            hint="Start the container again with all of them.",
            commands=run_commands(container, (*paths, *managers)),
            evidence=(Evidence(source="/dev", expected=_list(managers), actual=_list(there) or "none of them"),),
            fix=_offer(paths, managers),
            pitfall="P009",
        )
    denied = _denied((*usable, *nodes.managers), rules)
    if denied:
        yield Finding(
            subject="container",
            summary=f"the container's device rules do not let it open {_list(denied)}",
            detail="The nodes are here, but their control group denies them: they were made by hand, or moved.",
            hint="Pass them with --device, which adds the rule; --privileged would hide the mistake.",
            commands=run_commands(container, (*paths, *managers)),
            evidence=(
                Evidence(source=DEVICE_LIST, expected="a rule with rw for each", actual=f"none for {denied[0]}"),
            ),
            fix=_offer(paths, managers),
            pitfall="P009",
        )


def _list(words: Iterable[str]) -> str:
    return ", ".join(words)


def _managers(pci: PciCards | None) -> tuple[str, ...]:
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
    evidence = [
        Evidence(
            source="/dev", expected="/dev/davinci0, …", actual=_list(node.path for node in nodes.managers) or "none"
        )
    ]
    detail = "Device nodes come in when a container is started and cannot be added later."
    pitfall = "P009"
    if on_host:
        evidence.append(Evidence(source="PCI bus (the host's)", actual=f"{on_host} Ascend cards"))
    if nodes.misplaced:
        evidence.append(Evidence(source=nodes.misplaced[0], expected="a device node", actual="a folder"))
        detail += f" {nodes.misplaced[0]} is a folder: it was passed with -v, and is not there on the host."
    if asked and asked != "void":
        pitfall = "P061"
        evidence.append(Evidence(source=VISIBLE, actual=asked))
        detail += (
            f" {VISIBLE} is set, but only the ascend runtime reads it, and this container was not started with it."
        )
    return Finding(
        subject="container",
        summary="no card was passed into this container",
        detail=detail,
        hint=_hint(container),
        commands=run_commands(container, (*cards, *managers)),
        evidence=tuple(evidence),
        fix=_offer(cards, managers),
        pitfall=pitfall,
    )


def _hint(container: Container) -> str:
    if container.orchestrator == "Kubernetes" or container.runtime == "kubernetes":
        resources = " or ".join(knowledge.layout().more["kubernetes"]["resources"][:1])
        return f"Request cards for the pod (resources.limits: {resources}: 8); the device plugin passes them in."
    return "Start the container again, on the host, with its device nodes or with the ascend runtime."


def run_commands(container: Container, devices: Iterable[str]) -> tuple[str, ...]:
    """The corrected `docker run`: with plain Docker, and with the ascend runtime."""
    if container.orchestrator == "Kubernetes" or container.runtime == "kubernetes":
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
    """The nodes that a control group of version 1 keeps this container from; version 2 does not tell."""
    if rules is None:
        return []
    return [node.path for node in nodes if node.stat is not None and node.stat.rdev and not rules.allow(node.stat.rdev)]


def _offer(cards: Iterable[str], managers: Iterable[str]) -> FixOffer:
    return FixOffer(id="container.run-command", params={"devices": [*cards, *managers]})
