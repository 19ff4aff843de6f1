"""The Ascend Docker runtime of this host, and whether its container engines know it."""

from __future__ import annotations

import contextlib
import json
import posixpath

from npudoctor import knowledge
from npudoctor.facts.node import container_engine
from npudoctor.facts.node.container import Container
from npudoctor.records import record
from npudoctor.sdk import Host, NotApplicable, ParseError, Unavailable, probe

PROGRAM = "/usr/local/Ascend/Ascend-Docker-Runtime/ascend-docker-runtime"
VIRTUAL = "ASCEND_RUNTIME_OPTIONS=VIRTUAL"
"""What the runtime wants beside the number of a vNPU."""
CONTAINERD = "/etc/containerd/config.toml"
IMPORTED = "/etc/containerd/conf.d"


@record(frozen=True)
class AscendRuntime:
    """The runtime that is installed; `engines` are those that are set up here, `known_to` those that start containers
    with it."""

    path: str
    engines: tuple[str, ...]
    known_to: tuple[str, ...]


def runtime_for(engine: str | None) -> str:
    """What `--runtime` of an engine names: podman and nerdctl take the path of the ascend runtime."""
    return PROGRAM if engine in ("podman", "nerdctl") else str(knowledge.layout().more["runtime_name"])


@probe
def ascend_runtime(host: Host, container: Container | None) -> AscendRuntime:
    """From the settings of Docker and containerd."""
    if container is not None:
        raise NotApplicable("container engine settings are not visible inside a container")
    if not host.exists(PROGRAM):
        raise NotApplicable("the Ascend Docker runtime is not installed")
    known: dict[str, bool] = {}
    if host.which("dockerd") is not None or host.exists(container_engine.PATH):
        known["docker"] = _of_docker(host)
    if host.exists(CONTAINERD) and not _serves_docker_alone(host):
        known["containerd"] = any(posixpath.basename(PROGRAM) in text for text in _of_containerd(host))
    return AscendRuntime(PROGRAM, tuple(known), tuple(name for name, is_known in known.items() if is_known))


def _of_docker(host: Host) -> bool:
    if not host.exists(container_engine.PATH):
        return False
    text = host.read(container_engine.PATH)
    with contextlib.suppress(ValueError, ParseError):
        return "ascend" in container_engine.parse(text).runtimes or posixpath.basename(PROGRAM) in json.dumps(text)
    return False


def _of_containerd(host: Host) -> list[str]:
    texts = [host.read(CONTAINERD)]
    with contextlib.suppress(Unavailable):
        texts += [host.read(f"{IMPORTED}/{name}") for name in host.list_dir(IMPORTED) if name.endswith(".toml")]
    return texts


def _serves_docker_alone(host: Host) -> bool:
    """Whether its plugin for Kubernetes is off, as Docker's packages install it."""
    text = host.read(CONTAINERD)
    return any(line.strip().startswith("disabled_plugins") and '"cri"' in line for line in text.splitlines())
