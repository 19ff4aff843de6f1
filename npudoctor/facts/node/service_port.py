"""The ports on which the service of a framework is told to listen, or listens by default, and who else has one."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterable, Iterator, Mapping

from npudoctor import knowledge
from npudoctor.facts.network.interfaces import Address, Interfaces, parse_address
from npudoctor.facts.network.ports import PortRanges, Socket, Sockets
from npudoctor.facts.node.container import Container
from npudoctor.facts.node.environment import JobEnvironment
from npudoctor.facts.node.working_folder import job_process
from npudoctor.facts.system.processes import Process, Processes
from npudoctor.knowledge.tables.services import ListenPort, Service
from npudoctor.records import record
from npudoctor.sdk import Because, Host, NotApplicable, Unavailable, probe

_LOCALHOST = ("127.0.0.1", "::1")
_IN_A_FILE = "--config"
"""With this option a file may set what the command line leaves out, so that no default holds."""


@record(frozen=True, kw_only=True)
class ServicePort:
    """A port of a service; `others` are the sockets of processes outside its job that keep it from listening there.

    `listens` says whether the service itself has the port already. `source` is where the port comes from: the option
    with its value (`--port 8001`), the key of a file, or None for the default of the service.
    """

    title: str
    pid: int
    port: int
    listens: bool
    others: tuple[Socket, ...] = ()
    source: str | None = None


@record(frozen=True, kw_only=True)
class _Wanted:
    """A port that a service is to have at these addresses; none of them where it has a name that is not known."""

    port: int
    addresses: tuple[Address, ...]
    source: str | None


@probe(of_the_moment=True)
def service_port(
    host: Host,
    environment: JobEnvironment | None,
    container: Container | None,
    processes: Processes,
    sockets: Sockets,
    interfaces: Interfaces | None,
) -> ServicePort:
    """Of the job that --environment names, else of a pod: the first port that others have, else the first one."""
    pids = sorted(processes.job_of(job_process(environment, container)))
    job = [one for pid in pids if (one := processes.get(pid)) is not None]
    found = [
        _judge(title, process, wanted, processes, sockets)
        for title, process, service in _services(job)
        for wanted in _ports(host, process, service)
        if not _is_elsewhere(wanted.addresses, interfaces)
    ]
    if not found:
        raise NotApplicable("no service of a known framework with a known port in this job")
    taken = next((one for one in found if one.others and not one.listens), found[0])
    if taken.others and all(one.pid is None for one in sockets.sockets):
        raise Unavailable("owners of sockets unknown")
    return taken


def _services(job: Iterable[Process]) -> Iterator[tuple[str, Process, Service]]:
    """The processes of a job that start a service, each with the title of its framework."""
    for process in job:
        line = " ".join(word.rpartition("/")[2] for word in process.cmdline)
        service = knowledge.services().started_by(line)
        if service is not None and not set(service.unless) & set(process.cmdline):
            yield knowledge.stacks().framework(service.framework).title, process, service


def _judge(title: str, process: Process, wanted: _Wanted, processes: Processes, sockets: Sockets) -> ServicePort:
    own = processes.job_of(process.pid)
    there = [one for one in sockets.holding(PortRanges.of((wanted.port, wanted.port))) if one.status == "LISTEN"]
    others = (one for one in there if one.pid not in own and _meet(wanted.addresses, one.address))
    return ServicePort(
        title=title,
        pid=process.pid,
        port=wanted.port,
        listens=any(one.pid in own for one in there),
        others=tuple(others),
        source=wanted.source,
    )


def _meet(addresses: tuple[Address, ...], other: str) -> bool:
    """Whether two programs cannot both listen: at one address, or where one of them listens at every address."""
    there = _plain(parse_address(other))
    if there is None or there.is_unspecified:
        return True
    return any(one.is_unspecified or one == there for one in addresses)


def _plain(address: Address | None) -> Address | None:
    """An address, of version 4 where it is one within version 6 (::ffff:127.0.0.1)."""
    return getattr(address, "ipv4_mapped", None) or address


def _is_elsewhere(addresses: tuple[Address, ...], interfaces: Interfaces | None) -> bool:
    """Whether the address is another node's: the service then connects to it, and does not listen."""
    return interfaces is not None and any(
        not (one.is_unspecified or one.is_loopback or interfaces.holding(one)) for one in addresses
    )


def _ports(host: Host, process: Process, service: Service) -> Iterator[_Wanted]:
    """The ports of a service that its command line or its file names, and those that it has by default."""
    if service.config:
        path, told = _of_config(host, process, service)
        sources = {name: f"{path}: {name} {value}" for name, value in told.items()}
    else:
        told = process.options
        sources = {name: f"--{name} {value}" for name, value in told.items()}
    in_a_file = _IN_A_FILE in process.cmdline
    for one in service.ports:
        text = told.get(one.option)
        if text is None:
            if one.default is not None and not in_a_file:
                yield _Wanted(port=one.default, addresses=_addresses(told, one, in_a_file), source=None)
        elif text.isdecimal() and len(text) < 6 and 0 < int(text) < 1 << 16:
            addresses = _addresses(told, one, in_a_file)
            yield _Wanted(port=int(text), addresses=addresses, source=sources[one.option])


def _addresses(told: Mapping[str, str], port: ListenPort, in_a_file: bool) -> tuple[Address, ...]:
    text = told.get(port.address_option)
    if text is None and in_a_file:
        return ()
    name = (text or port.address).strip("[]")
    known = [_plain(parse_address(one)) for one in (_LOCALHOST if name == "localhost" else (name,))]
    return tuple(one for one in known if one is not None)


def _of_config(host: Host, process: Process, service: Service) -> tuple[str, dict[str, str]]:
    """The file that a service reads, and the values of its ServerConfig; nothing where no file is found.

    A program PATH/bin/mindieservice_daemon reads PATH/conf/config.json.
    """
    program = process.cmdline[0]
    if not program.startswith("/"):
        try:
            program = posixpath.join(host.read_link(f"/proc/{process.pid}/cwd") or "/", program)
        except Unavailable:
            program = ""
    beside = posixpath.normpath(posixpath.join(posixpath.dirname(program), "../conf/config.json")) if program else ""
    for path in dict.fromkeys((beside, *service.config)):
        if not path:
            continue
        try:
            said = json.loads(host.read(path))
        except Unavailable as why:
            if why.because is Because.ABSENT:
                continue
            raise Unavailable(f"port of {service.command} unknown: {why.reason}", because=why.because) from why
        except (ValueError, RecursionError) as problem:
            raise Unavailable(f"port of {service.command} unknown: {path} is not JSON") from problem
        server = said.get("ServerConfig") if isinstance(said, dict) else None
        values = server.items() if isinstance(server, dict) else ()
        return path, {name: str(value) for name, value in values if isinstance(value, (str, int))}
    return "", {}
