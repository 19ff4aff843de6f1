"""The Ascend Docker runtime: registered in the settings of Docker or containerd, which are otherwise kept."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any

from npudoctor.facts.node.ascend_runtime import PROGRAM
from npudoctor.facts.node.container import Container
from npudoctor.records import record
from npudoctor.sdk import Host, Note, Parameters, Refused, Step, fix, untrusted_writer, writing

from . import _containerd, messages

SETTINGS = "/etc/docker/daemon.json"


@record(frozen=True)
class Runtime(Parameters):
    """`path` is the program of the runtime. `default` makes it the default runtime of all containers. `engine` is
    docker or containerd, where this node has both: docker if it is not named."""

    path: str = PROGRAM
    default: bool = False
    engine: str = ""


@fix("container.runtime", resolves=("containers.runtime",), root=True)
def register_runtime(asked: Runtime, host: Host, container: Container | None) -> Iterator[Step | Note]:
    """Register the Ascend runtime with Docker or containerd.

    In /etc/docker/daemon.json, or in containerd's config.toml (version 2 or 3) or the file that it imports; other
    settings stay. Neither is restarted or reloaded. The runtime itself has to be installed.
    """
    if container is not None:
        raise Refused(messages.DOCKER_OF_HOST.text())
    docker = any(host.which(name) for name in ("dockerd", "docker")) or host.exists("/etc/docker")
    engine = asked.engine or ("docker" if docker or not host.exists(_containerd.SETTINGS) else "containerd")
    if engine not in ("docker", "containerd"):
        raise Refused(messages.NOT_AN_ENGINE.text(name=engine))
    if engine == "docker" and not docker:
        raise Refused(messages.NO_DOCKER.text())
    if engine == "containerd" and not host.exists(_containerd.SETTINGS):
        raise Refused(
            messages.NO_SETTINGS.text(path=_containerd.SETTINGS),
            instead=f"containerd config default >{_containerd.SETTINGS}",
        )
    if not re.fullmatch(r"(/[\w@+=:,.-]+)+", asked.path):
        raise Refused(messages.NOT_A_PATH.text(path=asked.path))
    if not host.exists(asked.path) or "x" not in host.stat(asked.path).access:
        raise Refused(messages.NO_RUNTIME.text(path=asked.path), instead="--set path=/path/of/ascend-docker-runtime")
    if problem := untrusted_writer(host, asked.path, only_root=True):
        raise Refused(messages.RUNTIME_NOT_TRUSTED.text(path=asked.path, problem=problem))
    if engine == "containerd":
        yield from _in_containerd(asked, host)
        return
    text = host.read(SETTINGS) if host.exists(SETTINGS) else ""
    said = _settings(text)
    runtimes = said.setdefault("runtimes", {})
    if not isinstance(runtimes, dict):
        raise Refused(messages.BAD_SETTINGS.text(path=SETTINGS))
    known = runtimes.get("ascend")
    if known is not None and (not isinstance(known, dict) or known.get("path") != asked.path):
        raise Refused(messages.OTHER_RUNTIME.text(path=SETTINGS))
    before = json.dumps(said)
    runtimes.setdefault("ascend", {"path": asked.path, "runtimeArgs": []})
    if asked.default:
        said["default-runtime"] = "ascend"
    if json.dumps(said) == before:
        return
    yield Note(messages.RELOAD_DOCKER.text(), messages.AFTER_RELOAD.text())
    if asked.default:
        yield Note(messages.EVERY_CONTAINER.text())
    yield from writing(
        host, SETTINGS, json.dumps(said, indent=_indent(text), ensure_ascii=False, allow_nan=False) + "\n"
    )


def _in_containerd(asked: Runtime, host: Host) -> Iterator[Step | Note]:
    if (found := _containerd.changed_file(host, asked.path, default=asked.default)) is None:
        return
    yield Note(messages.RESTART_CONTAINERD.text(), messages.AFTER_RESTART.text())
    yield Note((messages.EVERY_CONTAINER if asked.default else messages.RUNTIME_CLASS).text())
    yield from writing(host, *found)


def _settings(text: str) -> dict[str, Any]:
    try:
        said = json.loads(
            text if text.strip() else "{}",
            object_pairs_hook=_without_repeats,
            parse_constant=_no_number,
            parse_float=_number,
        )
        json.dumps(said, ensure_ascii=False).encode()  # half of a surrogate pair can be read, but not written
    except (ValueError, RecursionError) as problem:
        raise Refused(messages.BAD_SETTINGS.text(path=SETTINGS)) from problem
    if not isinstance(said, dict):
        raise Refused(messages.BAD_SETTINGS.text(path=SETTINGS))
    return said


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; refused where it has a name twice, of which Python would keep only the last."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise Refused(messages.NAMED_TWICE.text(path=SETTINGS, name=name))
        found[name] = value
    return found


def _no_number(text: str) -> float:
    """NaN and Infinity, which are no JSON: ValueError."""
    raise ValueError(text)


def _number(text: str) -> float:
    """A number with a fraction or exponent; ValueError where it is too large, which would be written as Infinity."""
    if not math.isfinite(found := float(text)):
        raise ValueError(text)
    return found


def _indent(text: str) -> str | int:
    """The indent of the file as it is, so that only the new lines differ."""
    found = re.search(r'^([ \t]+)"', text, re.M)
    return found[1] if found else 4
