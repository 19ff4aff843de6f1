"""How this container has to be started."""

from __future__ import annotations

import re
from collections.abc import Iterator

from npudoctor.records import dataclass
from npudoctor.sdk import Note, Parameters, Refused, Step, fix


@dataclass(frozen=True)
class RunCommand(Parameters):
    """`devices` are the device nodes to pass in, `image` what to start."""

    devices: tuple[str, ...] = ()
    image: str = "IMAGE"


@fix("container.run-command", mends=("container.devices",))
def run_command(asked: RunCommand) -> Iterator[Step | Note]:
    """Print how the container is started with its cards: docker run, compose, Kubernetes. Changes nothing."""
    from npudoctor.facts import _container_stanzas as stanzas

    if not asked.devices:
        raise Refused("say which devices", instead="--set devices=/dev/davinci0,/dev/davinci_manager")
    for path in asked.devices:
        if not re.fullmatch(r"/dev/[\w/]+", path):
            raise Refused(f"{path!r} is no device node")
    if not re.fullmatch(r"[\w./:@-]+", asked.image):
        raise Refused(f"{asked.image!r} is no name of an image")
    one = stanzas.stanza(asked.devices, asked.image)
    yield Note(f"with plain Docker:\n{stanzas.docker(one)}")
    yield Note(f"or with the ascend runtime:\n{stanzas.ascend_runtime(one)}")
    yield Note(f"or with compose:\n{stanzas.compose(one)}")
    yield Note(f"or in Kubernetes:\n{stanzas.kubernetes(one)}")
