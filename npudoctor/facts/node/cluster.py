"""Whether the job that is configured here, or runs here, spans several nodes."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping

from npudoctor.facts.network.interfaces import Address, Interfaces, parse_address
from npudoctor.facts.node.container import Container
from npudoctor.facts.node.environment import JobEnvironment
from npudoctor.facts.system.processes import Process, Processes
from npudoctor.records import record
from npudoctor.sdk import Host, Unavailable, probe

_COUNTS = ("SLURM_NNODES", "MA_NUM_HOSTS", "VC_WORKER_NUM", "PET_NNODES", "NNODES")
"""Variables with the number of nodes, or with the least and the greatest (torchrun: 2:4)."""

# A text and not a pattern: what a healthy node never needs is not compiled each time a check starts.
_LAUNCHER = r"torchrun|torch\.distributed\.(run|launch)|accelerate|deepspeed|msrun|vllm(\.\S+)?|sglang(\.\S+)?|swift"
"""Programs and modules whose options below mean nodes; elsewhere they may mean those of a graph."""

_NODE_OPTIONS = ("nnodes", "num-nodes", "num-machines")
_PARTS = (("worker-num", "local-worker-num"), ("data-parallel-size", "data-parallel-size-local"))
"""Options with the number of all workers, and of those on this node."""

_MASTER_OPTIONS = ("master-addr", "data-parallel-address", "dist-init-addr", "rdzv-endpoint", "main-process-ip")
_PORT = r"(?P<address>\[[^]]*\]|[^:]*)(:\d+)?"


@record(frozen=True, kw_only=True)
class Cluster:
    """How many nodes the job of this environment has: `several` with its `evidence` (source and value). `master` is the
    address of rank 0's node, which may be this one; None where it is not known."""

    several: bool
    evidence: tuple[str, str] | None = None
    master: Address | None = None


def parse_hosts(text: str) -> dict[str, str]:
    """Names and addresses of /etc/hosts; the first line of a name counts."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        fields = line.partition("#")[0].split()
        for name in fields[1:]:
            found.setdefault(name.lower(), fields[0])
    return found


def master_of(
    environment: Mapping[str, str], interfaces: Interfaces | None, hostname: str, hosts: Mapping[str, str]
) -> tuple[bool, Address | None]:
    """Whether MASTER_ADDR is another node, and its address where it is known."""
    name = (environment.get("MASTER_ADDR") or "").strip().lower()
    if not name or name in ("localhost", hostname.lower(), hostname.lower().partition(".")[0]):
        return False, None
    address = parse_address(name) or parse_address(hosts.get(name, ""))
    if address is None:
        return True, None
    if address.is_loopback or address.is_unspecified or interfaces is None:
        return False, None
    return interfaces.holding(address) is None, address


def servers_of(rank_table: str) -> int | None:
    """How many servers a rank table names; None where it does not say."""
    with contextlib.suppress(ValueError, TypeError, RecursionError):
        table = json.loads(rank_table)
        if isinstance(table, dict):
            count = str(table.get("server_count") or len(table.get("server_list") or ()))
            return int(count) if count.isdecimal() and int(count) else None
    return None


def job_spans(environment: Mapping[str, str]) -> tuple[str, str] | None:
    """The variable, and its value, that says outright that the job has more than one node."""
    for name in _COUNTS:
        value = environment.get(name, "")
        if (_least(value) or 0) > 1:
            return name, value
    world, local = environment.get("WORLD_SIZE", ""), environment.get("LOCAL_WORLD_SIZE", "")
    if world.isdecimal() and local.isdecimal() and int(world) > int(local) > 0:
        return "WORLD_SIZE", f"{world}, with {local} on this node"
    return None


def _least(count: str) -> int | None:
    """The number of nodes, of a range the least; None for no number."""
    first = count.partition(":")[0]
    return int(first) if first.isdecimal() and len(first) < 7 else None


def process_spans(process: Process, interfaces: Interfaces | None) -> tuple[str, Address | None] | None:
    """The options with which a process says that its job has more than one node, and the address of the first one."""
    words = (word.rpartition("/")[2] for word in process.cmdline[:4])
    if not any(re.fullmatch(_LAUNCHER, word) for word in words) or "--standalone" in process.cmdline:
        return None
    options = process.options
    masters = {name: address for name in _MASTER_OPTIONS if (address := _address(options.get(name, "")))}
    master = next(iter(masters.values()), None)
    if any(address.is_loopback for address in masters.values()):
        return None
    counts = {name: count for name in _NODE_OPTIONS if (count := _least(options.get(name, ""))) is not None}
    for name, count in counts.items():
        if count > 1:
            return f"--{name} {options[name]}", master
    if counts:
        return None
    for all_of_them, here in _PARTS:
        total, local = _least(options.get(all_of_them, "")), _least(options.get(here, ""))
        if total is not None and local is not None and total > local > 0:
            return f"--{all_of_them} {total} --{here} {local}", master
        if total is not None and total == local:
            return None
    for name, address in masters.items():
        if interfaces is not None and not address.is_unspecified and interfaces.holding(address) is None:
            return f"--{name} {options[name]}", address
    return None


def _address(text: str) -> Address | None:
    """An address, of which a port is left out."""
    if address := parse_address(text):
        return address
    found = re.fullmatch(_PORT, text)
    name = found["address"].strip("[]") if found else ""
    return parse_address("127.0.0.1" if name == "localhost" else name)


def job_processes(
    environment: JobEnvironment, container: Container | None, processes: Processes | None
) -> tuple[Process, ...]:
    """The processes of the job that --environment names, else all of a container; on a host they may be anybody's."""
    if processes is None:
        return ()
    whose = environment.whose
    if whose.startswith("pid:") and whose[4:].isdigit():
        pids = processes.job_of(int(whose[4:]))
        return tuple(process for pid, process in processes.by_pid.items() if pid in pids)
    return tuple(processes.by_pid.values()) if container is not None else ()


@probe(of_the_moment=True)
def cluster(
    host: Host,
    environment: JobEnvironment,
    interfaces: Interfaces | None,
    container: Container | None,
    processes: Processes | None,
) -> Cluster:
    """From MASTER_ADDR, the counts that launchers set, the rank table, and the options of the processes of the job."""
    hosts: dict[str, str] = {}
    with contextlib.suppress(Unavailable):
        hosts = parse_hosts(host.read("/etc/hosts"))
    elsewhere, master = master_of(environment, interfaces, host.about.hostname, hosts)
    if elsewhere:
        return Cluster(several=True, evidence=("MASTER_ADDR", environment["MASTER_ADDR"]), master=master)
    if spans := job_spans(environment):
        return Cluster(several=True, evidence=spans, master=master)
    path = environment.non_empty("RANK_TABLE_FILE")
    with contextlib.suppress(Unavailable):
        if path and (count := servers_of(host.read(path))) and count > 1:
            return Cluster(several=True, evidence=(path, f"{count} servers"), master=master)
    for process in job_processes(environment, container, processes):
        if found := process_spans(process, interfaces):
            return Cluster(several=True, evidence=(f"process {process.pid}", found[0]), master=master or found[1])
    return Cluster(several=False, master=master)
