"""The proof in an image of the site: the smoke run, in a container that is started with all NPUs of this node."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Callable

from npudoctor.facts.node import _container_stanzas as stanzas
from npudoctor.facts.node.device_nodes import DeviceNodes
from npudoctor.host import Refused, Unavailable
from npudoctor.host.apart import ApartHost

ENGINES = ("docker", "nerdctl", "podman")
LIMIT_S = 1800.0
ASKED_S = 60.0
SHOWN_LINES = 40
_NAME = re.compile(r"[\w.][\w./:@-]*")
_OF_SYSTEM = ("/", "/usr", "/usr/local")


def must_be_there(host: ApartHost, image: str) -> str:
    """The engine that has this image; raises Refused where none has it, or npudoctor cannot run in a container."""
    if not _NAME.fullmatch(image):
        raise Refused(f"--image {image!r}: expected the name of an image")
    itself()
    engines = [one for one in ENGINES if host.which(one) is not None]
    if not engines:
        raise Refused(f"--image requires {', '.join(ENGINES[:-1])} or {ENGINES[-1]}, and none is installed")
    for engine in engines:
        try:
            if host.run_streaming((engine, "image", "inspect", image), timeout=ASKED_S).returncode == 0:
                return engine
        except Unavailable:
            continue
    raise Refused(f"no image {image} in {', '.join(engines)}; npudoctor pulls none")


def itself() -> tuple[str, ...]:
    """The folders of this npudoctor and of its Python; raises Refused where these are the system's."""
    folders = tuple(dict.fromkeys(map(os.path.realpath, (sys.prefix, sys.base_prefix))))
    if any(one in _OF_SYSTEM for one in folders):
        raise Refused("--image mounts npudoctor with its Python, and this is the system's: install npudoctor's archive")
    return folders


def command(nodes: DeviceNodes, engine: str, image: str, name: str) -> tuple[str, ...]:
    """What starts the smoke run in the image."""
    devices = tuple(node.path for node in (*nodes.cards, *nodes.managers))
    one = stanzas.stanza(devices, image, command=(sys.executable, "-I", "-m", "npudoctor", "smoke"))
    mounts = (*one.mounts, *((folder, folder) for folder in itself()))
    words = [f"--device={path}" for path in one.devices] + [f"-v={host}:{inside}:ro" for host, inside in mounts]
    more = ("--pull=never", f"--name={name}", f"--shm-size={one.shm}", "--ulimit=memlock=-1")
    return (engine, "run", "--rm", *more, *words, one.image, *one.command)


def problem(host: ApartHost, nodes: object, image: str, say: Callable[[str], None]) -> str:
    """Run the smoke run in the image, with its lines; why it is no proof, empty where it has passed."""
    if not isinstance(nodes, DeviceNodes) or not nodes.cards:
        return f"no smoke run in {image}: no device node of an NPU"
    try:
        engine = must_be_there(host, image)
        name = f"npudoctor-smoke-{os.getpid()}"
        words = command(nodes, engine, image, name)
        say(f"smoke run in {image}:")
        say(f"  $ {shlex.join(words)}")
        ended = host.run_streaming(words, timeout=LIMIT_S)
        if ended.timed_out:
            host.run_streaming((engine, "rm", "--force", name), timeout=ASKED_S)
            return f"the smoke run in {image} has not ended after {LIMIT_S:.0f} s"
    except (Refused, Unavailable) as why:
        return f"no smoke run in {image}: {why.reason}"
    lines = [line for line in f"{ended.stdout}\n{ended.stderr}".splitlines() if line.strip()]
    for line in lines[-SHOWN_LINES:]:
        say(f"  | {line}")
    return "" if ended.returncode == 0 else f"the smoke run in {image} has failed with exit code {ended.returncode}"
