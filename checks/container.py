"""The NPU device nodes of a container."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from npudoctor import knowledge
from npudoctor.facts.node.ascend_runtime import VIRTUAL, runtime_for
from npudoctor.facts.node.container import DEVICE_LIST, Container, DeviceRules
from npudoctor.facts.node.device_nodes import FIRST_VIRTUAL_NUMBER, DeviceNode, DeviceNodes, as_passed
from npudoctor.facts.node.environment import JobEnvironment
from npudoctor.facts.system.pci import PciCards
from npudoctor.sdk import HEALTH, Evidence, Finding, FixOffer, check

from ._places import Change, Place, place_of, run_again
from .messages import container as messages
from .messages import places

VISIBLE = "ASCEND_VISIBLE_DEVICES"
NODES = "kubectl describe nodes  # where kubectl is set up: what the device plugin offers (huawei.com/…)"
CLASSES = "kubectl get runtimeclass  # where kubectl is set up"


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
    change = recreate(container, (*paths, *managers))
    if missing:
        yield messages.MANAGER_MISSING.finding(
            subject="container",
            paths=missing,
            count=len(missing),
            hint=change.hint,
            commands=change.commands,
            evidence=(Evidence(source="/dev", expected=", ".join(managers), actual=", ".join(there) or "none"),),
            fix=run_command(container, (*paths, *managers)),
        )
    denied = _denied_nodes((*usable, *nodes.managers), rules)
    if denied:
        yield messages.DENIED.finding(
            subject="container",
            paths=denied,
            hint=change.hint,
            commands=change.commands,
            evidence=(
                Evidence(
                    source=DEVICE_LIST,
                    expected=messages.RULE_EXPECTED.text(),
                    actual=messages.NO_RULE.text(path=denied[0]),
                ),
            ),
            fix=run_command(container, (*paths, *managers)),
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
    change = recreate(container, (*cards, *managers))
    return messages.NO_DEVICE.finding(
        subject="container",
        detail=" ".join(details),
        hint=change.hint,
        commands=change.commands,
        evidence=tuple(evidence),
        fix=run_command(container, (*cards, *managers)),
        pitfall=pitfall,
    )


def recreate(
    container: Container, devices: Iterable[str], files: Sequence[str] = (), *, several_nodes: bool = False
) -> Change:
    """How this container is started with these devices, and with the driver's files; `files` are those that it lacks.

    With the engine of this container the whole command, with the ascend runtime too; in a pod or notebook, a sentence.
    """
    devices = tuple(devices)
    place = place_of(container)
    if place is Place.NOTEBOOK:
        request = places.SEND_FILES.text(paths=files) if files else places.SEND_DEVICES.text(paths=", ".join(devices))
        return Change(places.ASK_THE_OPERATOR.text(request=request), ())
    if place is Place.POD:
        if files:
            return Change(places.POD_FILES.text(paths=files), (CLASSES,))
        count = sum(path.startswith("/dev/davinci") and path[12:].isdigit() for path in devices) or 1
        resource = knowledge.layout().more["kubernetes"]["resources"][0]
        return Change(messages.REQUEST_NPUS.text(resource=resource, count=count), (NODES,))
    mounts = [one for one in knowledge.layout().mounts if one.plain and (several_nodes or not one.several_nodes)]
    words = [f"--device={as_passed(path)}" for path in devices]
    words += [f"-v {one.host}:{one.container}:ro" for one in mounts]
    more = ["--network=host", "--shm-size=16g"] if several_nodes else []
    numbers = [number[1] for path in devices if (number := re.fullmatch(r"/dev/v?davinci([0-9]{1,9})", path))]
    runtime = [f"--runtime={runtime_for(container.engine)}", "-e", f"{VISIBLE}={','.join(numbers) or '0'}"]
    runtime += ["-e", VIRTUAL] if any(int(number) >= FIRST_VIRTUAL_NUMBER for number in numbers) else []
    runtime += [f"-v {one.host}:{one.container}:ro" for one in mounts if one.several_nodes]
    return Change(
        None,
        (
            run_again(container, (*words, *more)),
            places.WITH_ASCEND_RUNTIME.text(command=" ".join([container.engine or "docker", "run", *runtime, *more])),
        ),
    )


def _denied_nodes(nodes: Iterable[DeviceNode], rules: DeviceRules | None) -> list[str]:
    """The nodes that a control group of version 1 denies; version 2 does not show its rules."""
    if rules is None:
        return []
    return [node.path for node in nodes if node.stat is not None and node.stat.rdev and not rules.allow(node.stat.rdev)]


def run_command(container: Container, devices: Iterable[str]) -> FixOffer | None:
    """The offer of the whole command; None in a pod or notebook, whose remedy is a sentence."""
    if place_of(container) is not Place.CONTAINER:
        return None
    return FixOffer(id="container.run-command", params={"devices": list(devices)})
