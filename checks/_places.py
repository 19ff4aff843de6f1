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


def run_again(container: Container, options: Iterable[str]) -> str:
    """The command that starts this container with these options; one for docker where its engine is not known."""
    sentence = messages.WITH_OTHER_OPTIONS if container.engine else messages.WITH_OPTIONS_OF_DOCKER
    return sentence.text(command=" ".join([container.engine or "docker", "run", *options]))


def start_again(
    container: Container, *options: str, pod: str, request: str, pod_commands: Iterable[str] = ()
) -> Change:
    """How this container gets other options: by its engine, as `pod` says, or by a `request` to its platform."""
    place = place_of(container)
    if place is Place.NOTEBOOK:
        return Change(messages.ASK_THE_OPERATOR.text(request=request), ())
    if place is Place.POD:
        return Change(pod, tuple(pod_commands))
    return Change(None, (run_again(container, options),))
