"""How to start this container."""

from __future__ import annotations

import re
from collections.abc import Iterator

from npudoctor.facts.hccn.card_view import NetworkPlan
from npudoctor.facts.node.container import ENGINES, Container
from npudoctor.facts.node.device_nodes import DeviceNodes
from npudoctor.facts.node.running_containers import RunningContainers
from npudoctor.facts.python.target_python import PythonEnvironment
from npudoctor.records import record
from npudoctor.sdk import Note, Parameters, Refused, Step, fix

from . import messages


@record(frozen=True)
class RunCommand(Parameters):
    """`devices` are the device nodes to pass in, empty for all of this host; `image` what to start, `command` what to
    run in it, `group` the number of the nodes' group for an image whose user is not root. `containers` are running
    containers of this host, each of which gets a command of its own with its NPUs. `purpose` is `one-node`,
    `several-nodes` or `inference`; the last two add /etc/hccn.conf, hccn_tool and the network of the host. Without it,
    the job's variables, the installed packages and the name of the image decide."""

    devices: tuple[str, ...] = ()
    image: str = "IMAGE"
    command: tuple[str, ...] = ()
    group: str = ""
    containers: tuple[str, ...] = ()
    purpose: str = ""


_PURPOSES = ("", "one-node", "several-nodes", "inference")
_INFERENCE = ("vllm", "vllm-ascend", "sglang", "mindie", "mindie-llm")


@fix("container.run-command", resolves=("container.devices",))
def run_command(
    asked: RunCommand,
    nodes: DeviceNodes | None,
    container: Container | None,
    plan: NetworkPlan | None,
    python: PythonEnvironment | None,
    running: RunningContainers | None,
) -> Iterator[Step | Note]:
    """Print the command that starts the container with its NPUs.

    For docker run, compose and Kubernetes. It changes nothing.
    """
    from npudoctor.facts.node import _container_stanzas as stanzas

    if asked.containers and not asked.devices and nodes is not None:
        yield from _of_each(asked, nodes, running, several_nodes=_needs_network(asked, plan, python))
        return
    devices = asked.devices
    if not devices and nodes is not None and container is None:
        devices = tuple(node.path for node in (*nodes.cards, *nodes.managers))
    if not devices:
        raise Refused(messages.NAME_DEVICES.text(), instead="--set devices=/dev/davinci0,/dev/davinci_manager")
    for path in devices:
        if not re.fullmatch(r"/dev/[\w/]+", path):
            raise Refused(messages.NOT_A_DEVICE_NODE.text(path=path))
    if not re.fullmatch(r"[\w./:@-]+", asked.image):
        raise Refused(messages.NOT_AN_IMAGE.text(name=asked.image))
    if asked.group and not re.fullmatch(r"[1-9]\d{0,9}", asked.group):
        raise Refused(messages.NOT_A_GROUP_ID.text(group=asked.group))
    if asked.purpose not in _PURPOSES:
        raise Refused(messages.NOT_A_PURPOSE.text(purpose=asked.purpose), instead="--set purpose=several-nodes")
    one = stanzas.stanza(
        devices,
        asked.image,
        group=asked.group or None,
        command=asked.command,
        several_nodes=_needs_network(asked, plan, python),
        engine=container.engine if container is not None else None,
    )
    if one.host_network and not asked.purpose:
        yield Note(messages.WITH_NETWORK.text())
    yield Note(messages.PLAIN.text(engine=one.engine, text=stanzas.docker(one)))
    yield Note(messages.ASCEND_RUNTIME.text(text=stanzas.ascend_runtime(one)))
    yield Note(messages.COMPOSE.text(text=stanzas.compose(one)))
    yield Note(messages.ASCEND_COMPOSE.text(text=stanzas.ascend_compose(one)))
    yield Note(messages.KUBERNETES.text(text=stanzas.kubernetes(one)))


def _of_each(
    asked: RunCommand, nodes: DeviceNodes, running: RunningContainers | None, *, several_nodes: bool
) -> Iterator[Note]:
    """The command of each container that runs, for its engine or as a pod; one without NPUs gets all of the host."""
    from npudoctor.facts.node import _container_stanzas as stanzas

    found = [one for one in (running.containers if running is not None else ()) if one.title in asked.containers]
    if not found:
        raise Refused(messages.NOT_RUNNING.text(names=list(asked.containers)), instead="npudoctor check containers")
    for one in found:
        cards = one.cards or tuple(node.path for node in nodes.cards)
        devices = (*cards, *(node.path for node in nodes.managers))
        engine = ENGINES.get(one.runtime.lower())
        stanza = stanzas.stanza(devices, asked.image, several_nodes=several_nodes, engine=engine)
        text = stanzas.kubernetes(stanza) if one.pod else stanzas.docker(stanza)
        yield Note(messages.OF_CONTAINER.text(name=one.title, text=text))


def _needs_network(asked: RunCommand, plan: NetworkPlan | None, python: PythonEnvironment | None) -> bool:
    """Whether the job spans nodes, or is an inference stack, which moves caches between NPUs over their network."""
    if asked.purpose:
        return asked.purpose != "one-node"
    packages = python.distributions if python is not None else {}
    named = any(name in asked.image.lower() for name in ("vllm", "sglang", "mindie"))
    return named or (plan is not None and (plan.several or plan.needed)) or any(name in packages for name in _INFERENCE)
