"""The port on which the service of a framework is told to listen, and who else listens there."""

from __future__ import annotations

from collections.abc import Iterable

from npudoctor import knowledge
from npudoctor.facts.network.ports import PortRanges, Socket, Sockets
from npudoctor.facts.node.container import Container
from npudoctor.facts.node.environment import JobEnvironment
from npudoctor.facts.node.working_folder import job_process
from npudoctor.facts.system.processes import Process, Processes
from npudoctor.records import record
from npudoctor.sdk import NotApplicable, Unavailable, probe


@record(frozen=True, kw_only=True)
class ServicePort:
    """The port of a service, as its command line says; `others` are the sockets of processes outside its job there.

    `listens` says whether the service itself has the port already.
    """

    title: str
    pid: int
    port: int
    listens: bool
    others: tuple[Socket, ...] = ()


@probe(of_the_moment=True)
def service_port(
    environment: JobEnvironment | None, container: Container | None, processes: Processes, sockets: Sockets
) -> ServicePort:
    """Of the job that --environment names, else of a pod; only a port that the command line names."""
    job = processes.job_of(job_process(environment, container))
    found = _service(one for pid in sorted(job) if (one := processes.get(pid)) is not None)
    if found is None:
        raise NotApplicable("no service with an option --port in this job")
    title, process, port = found
    holding = [one for one in sockets.holding(PortRanges.of((port, port))) if one.status == "LISTEN"]
    if holding and all(one.pid is None for one in sockets.sockets):
        raise Unavailable("owners of sockets unknown")
    return ServicePort(
        title=title,
        pid=process.pid,
        port=port,
        listens=any(one.pid in job for one in holding),
        others=tuple(one for one in holding if one.pid not in job),
    )


def _service(job: Iterable[Process]) -> tuple[str, Process, int] | None:
    for process in job:
        port = _port(process.cmdline)
        line = " ".join(word.rpartition("/")[2] for word in process.cmdline)
        for framework in knowledge.stacks().frameworks:
            if port is not None and any(f" {words} " in f" {line} " for words in framework.serves_as):
                return framework.title, process, port
    return None


def _port(cmdline: tuple[str, ...]) -> int | None:
    for word, following in zip(cmdline, (*cmdline[1:], ""), strict=False):
        name, equals, value = word.partition("=")
        text = value if equals else following
        if name == "--port" and text.isdecimal() and 0 < int(text) < 1 << 16:
            return int(text)
    return None
