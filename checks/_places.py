"""Who can carry out a remedy where npudoctor runs: root on a host, the one who starts containers, pods or notebooks."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from npudoctor.facts.node.container import Container
from npudoctor.records import record

from .messages import places as messages


class Place(Enum):
    """Where npudoctor runs."""

    HOST = "host"
    CONTAINER = "container"
    POD = "pod"
    NOTEBOOK = "notebook"


@record(frozen=True)
class Change:
    """What has to be done: a sentence, None where that of the finding fits, and commands."""

    hint: str | None
    commands: tuple[str, ...]


def place_of(container: Container | None) -> Place:
    """Where npudoctor runs, by what is known of the container around it."""
    if container is None:
        return Place.HOST
    if container.notebook:
        return Place.NOTEBOOK
    pod = "Kubernetes" in (container.orchestrator, container.runtime.title())
    return Place.POD if pod else Place.CONTAINER


def engine_of(container: Container | None) -> str:
    """The program that starts this container."""
    return "podman" if container is not None and container.runtime == "podman" else "docker"


def start_again(
    container: Container, *options: str, pod: str, request: str, pod_commands: Iterable[str] = ()
) -> Change:
    """How this container gets other options: by its engine, as `pod` says, or by a `request` to its platform."""
    place = place_of(container)
    if place is Place.NOTEBOOK:
        return Change(messages.ASK_THE_OPERATOR.text(request=request), ())
    if place is Place.POD:
        return Change(pod, tuple(pod_commands))
    command = " ".join([engine_of(container), "run", *options])
    return Change(None, (messages.WITH_OTHER_OPTIONS.text(command=command),))
