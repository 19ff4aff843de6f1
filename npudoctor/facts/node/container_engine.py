"""What Docker gives to the containers of this host: its default runtime, shared memory and limits."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from npudoctor.facts.node.container import Container
from npudoctor.records import record
from npudoctor.sdk import Host, NotApplicable, ParseError, probe

PATH = "/etc/docker/daemon.json"


@record(frozen=True, kw_only=True)
class ContainerEngine:
    """The settings of the Docker daemon that matter to a job in a container; None where Docker's own default holds.

    `runtimes` are the names of the registered runtimes, `default_ulimits` soft and hard limits by name (-1 is none).
    """

    default_runtime: str | None = None
    runtimes: tuple[str, ...] = ()
    default_shm_size: str | None = None
    default_ulimits: Mapping[str, tuple[int, int]]


def parse(text: str) -> ContainerEngine:
    """Read /etc/docker/daemon.json."""
    try:
        said = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError) as problem:
        raise ParseError(f"{PATH} is not JSON: {problem}") from None
    if not isinstance(said, dict):
        raise ParseError(f"no settings in {PATH}", line_number=1, line=text[:80])
    shm = said.get("default-shm-size")
    return ContainerEngine(
        default_runtime=_text(said.get("default-runtime")),
        runtimes=tuple(sorted(_mapping(said.get("runtimes")))),
        default_shm_size=str(shm) if isinstance(shm, (str, int)) else None,
        default_ulimits={
            name: limits
            for name, given in _mapping(said.get("default-ulimits")).items()
            if (limits := _limits(_mapping(given))) is not None
        },
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _limits(given: Mapping[str, Any]) -> tuple[int, int] | None:
    lower = {name.lower(): value for name, value in given.items()}
    soft, hard = lower.get("soft"), lower.get("hard")
    return (soft, hard) if isinstance(soft, int) and isinstance(hard, int) else None


@probe
def container_engine(host: Host, container: Container | None) -> ContainerEngine:
    """From the daemon's file; inside a container there is none of the host's."""
    if container is not None:
        raise NotApplicable("container engine settings are not visible inside a container")
    return parse(host.read(PATH))
