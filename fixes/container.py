"""How this container has to be started."""

from __future__ import annotations

import re
from collections.abc import Iterator

from npudoctor.facts.node.container import Container
from npudoctor.facts.node.device_nodes import DeviceNodes
from npudoctor.records import record
from npudoctor.sdk import Note, Parameters, Refused, Step, fix


@record(frozen=True)
class RunCommand(Parameters):
    """`devices` are the device nodes to pass in, empty for all of this host; `image` what to start, `command` what to
    run in it, `group` the number of the nodes' group for an image whose user is not root."""

    devices: tuple[str, ...] = ()
    image: str = "IMAGE"
    command: tuple[str, ...] = ()
    group: str = ""


@fix("container.run-command", mends=("container.devices",))
def run_command(asked: RunCommand, nodes: DeviceNodes | None, container: Container | None) -> Iterator[Step | Note]:
    """Print how the container is started with its cards: docker run, compose, Kubernetes. Changes nothing."""
    from npudoctor.facts.node import _container_stanzas as stanzas

    devices = asked.devices
    if not devices and nodes is not None and container is None:
        devices = tuple(node.path for node in (*nodes.cards, *nodes.managers))
    if not devices:
        raise Refused("say which devices", instead="--set devices=/dev/davinci0,/dev/davinci_manager")
    for path in devices:
        if not re.fullmatch(r"/dev/[\w/]+", path):
            raise Refused(f"{path!r} is no device node")
    if not re.fullmatch(r"[\w./:@-]+", asked.image):
        raise Refused(f"{asked.image!r} is no name of an image")
    if asked.group and not re.fullmatch(r"[1-9]\d{0,9}", asked.group):
        raise Refused(f"{asked.group!r} is no number of a group; stat -c %g /dev/davinci_manager prints it")
    one = stanzas.stanza(devices, asked.image, group=asked.group or None, command=asked.command)
    yield Note(f"with plain Docker:\n{stanzas.docker(one)}")
    yield Note(f"or with the ascend runtime:\n{stanzas.ascend_runtime(one)}")
    yield Note(f"or with compose:\n{stanzas.compose(one)}")
    yield Note(f"or with compose and the ascend runtime:\n{stanzas.ascend_compose(one)}")
    yield Note(f"or in Kubernetes:\n{stanzas.kubernetes(one)}")
