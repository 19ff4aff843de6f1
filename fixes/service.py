"""npudoctor's own services: the daemon that watches the node, and what makes a node ready at its first boot."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator

from npudoctor.facts.node.container import Container
from npudoctor.records import record
from npudoctor.sdk import Host, Note, Parameters, Refused, Step, SystemdUnit, fix, others_hand

DAEMON, SETUP = "npudoctor.service", "npudoctor-setup.service"
USUAL_COMMAND = "/usr/local/bin/npudoctor"
NEEDED = ("starlette", "uvicorn", "prometheus_client")
_SYSTEMD = "/run/systemd/system"


@record(frozen=True)
class Service(Parameters):
    """`command` is the npudoctor that the service starts, empty for this one. `setup` adds the service that makes the
    node ready at boot; `network` and `fixes` leave out what forbids the daemon other addresses, and changes."""

    command: str = ""
    setup: bool = False
    network: bool = False
    fixes: bool = False


@fix("service.install", mends=(), root=True)
def install(asked: Service, host: Host, container: Container | None) -> Iterator[Step | Note]:
    """Install npudoctor's daemon as a service of systemd, enable it and start it."""
    _needs_systemd(host, container)
    command = _command(asked, host)
    if not host.exists(_SYSTEMD):
        yield Note("systemd does not run here: the service is enabled, and starts at the next boot")
    text = unit(DAEMON, command, network=asked.network, fixes=asked.fixes)
    if asked.setup:
        yield SystemdUnit(name=SETUP, content=unit(SETUP, command), enabled=True)
    yield SystemdUnit(name=DAEMON, content=text, enabled=True, active=True)


@fix("service.remove", mends=(), root=True)
def remove(host: Host, container: Container | None) -> Iterator[Step | Note]:
    """Stop npudoctor's services and remove their units; the history below /var/lib/npudoctor stays."""
    _needs_systemd(host, container)
    for name in (DAEMON, SETUP):
        yield SystemdUnit(name=name, content=None, enabled=False, active=False)


def unit(name: str, command: str = USUAL_COMMAND, *, network: bool = False, fixes: bool = False) -> str:
    """The text of a unit: the file that npudoctor ships, for this command, without what was asked to be left out."""
    from importlib.resources import files

    shipped = files("npudoctor").joinpath(f"deploy/systemd/{name}").read_text(encoding="utf-8")
    left_out = [option for option, wanted in (("network", network), ("fixes", fixes)) if wanted]
    marks = tuple(f"# Left out by `npudoctor service install --{option}`" for option in left_out)
    paragraphs = [one for one in shipped.split("\n\n") if not (marks and one.startswith(marks))]
    return "\n\n".join(paragraphs).replace(USUAL_COMMAND, command)


def _needs_systemd(host: Host, container: Container | None) -> None:
    if container is not None and not host.exists(_SYSTEMD):
        raise Refused("no systemd runs in this container; install the service on its host")
    if host.which("systemctl") is None:
        raise Refused("systemctl is not installed: there is no systemd here", instead="npudoctor daemon")


def _command(asked: Service, host: Host) -> str:
    """The command that root will run at every boot: nobody else may be able to change it."""
    command = asked.command or os.path.join(os.path.dirname(sys.executable), "npudoctor")
    if not re.fullmatch(r"/[\w@+=:,./-]+", command):
        raise Refused(f"{command!r} cannot stand in a unit: give an absolute path of plain characters")
    if not host.exists(command) or "x" not in host.stat(command).access:
        raise Refused(f"{command} is no command here", instead="--set command=/path/of/npudoctor")
    if problem := others_hand(host, command, only_root=True):
        raise Refused(
            f"root would run {command} at every boot, and {problem}; install npudoctor where only root writes"
        )
    if not asked.command and (missing := [name for name in NEEDED if not _is_importable(name)]):
        raise Refused(
            f"the daemon lacks {', '.join(missing)}", instead=f"{sys.executable} -m pip install 'npudoctor[daemon]'"
        )
    return command


def _is_importable(name: str) -> bool:
    from importlib.util import find_spec

    return find_spec(name) is not None
