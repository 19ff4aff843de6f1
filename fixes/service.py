"""npudoctor's own services: the daemon that watches the node, and what makes a node ready at its first boot."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator

from npudoctor.facts.node.container import Container
from npudoctor.records import dataclass
from npudoctor.sdk import Host, Note, Parameters, Refused, Step, SystemdUnit, fix, untrusted_writer

from . import messages

DAEMON, SETUP = "npudoctor.service", "npudoctor-setup.service"
USUAL_COMMAND = "/usr/local/bin/npudoctor"
NEEDED = ("starlette", "uvicorn", "prometheus_client")
_SYSTEMD = "/run/systemd/system"


@dataclass(frozen=True)
class Service(Parameters):
    """`command` is the npudoctor that the service starts, empty for this one. `setup` adds the service that makes the
    node ready at boot; `network` and `fixes` leave out what forbids the daemon other addresses, and changes."""

    command: str = ""
    setup: bool = False
    network: bool = False
    fixes: bool = False


@fix("service.install", resolves=(), root=True)
def install(asked: Service, host: Host, container: Container | None) -> Iterator[Step | Note]:
    """Install npudoctor's daemon as a systemd service, enabled and started."""
    _needs_systemd(host, container)
    command = _command(asked, host)
    if not host.exists(_SYSTEMD):
        yield Note(messages.AT_NEXT_BOOT.text())
    text = unit(DAEMON, command, network=asked.network, fixes=asked.fixes)
    if asked.setup:
        yield SystemdUnit(name=SETUP, content=unit(SETUP, command), enabled=True)
    yield SystemdUnit(name=DAEMON, content=text, enabled=True, active=True)


@fix("service.remove", resolves=(), root=True)
def remove(host: Host, container: Container | None) -> Iterator[Step | Note]:
    """Stop and remove npudoctor's systemd services.

    The history in /var/lib/npudoctor is kept.
    """
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
        raise Refused(messages.SYSTEMD_OF_HOST.text())
    if host.which("systemctl") is None:
        raise Refused(messages.NO_SYSTEMD.text(), instead="npudoctor daemon")


def _command(asked: Service, host: Host) -> str:
    """The command that root will run at every boot: no other user may be able to change it."""
    command = asked.command or os.path.join(os.path.dirname(sys.executable), "npudoctor")
    if not re.fullmatch(r"/[\w@+=:,./-]+", command):
        raise Refused(messages.BAD_COMMAND.text(command=command))
    if not host.exists(command) or "x" not in host.stat(command).access:
        raise Refused(messages.NOT_A_COMMAND.text(command=command), instead="--set command=/path/of/npudoctor")
    if problem := untrusted_writer(host, command, only_root=True):
        raise Refused(messages.COMMAND_NOT_TRUSTED.text(command=command, problem=problem))
    if not asked.command and (missing := [name for name in NEEDED if not _is_importable(name)]):
        reason = messages.DAEMON_LACKS.text(packages=missing)
        raise Refused(reason, instead=f"{sys.executable} -m pip install 'npudoctor[daemon]'")
    return command


def _is_importable(name: str) -> bool:
    from importlib.util import find_spec

    return find_spec(name) is not None
