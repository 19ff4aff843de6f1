"""Whether the job that is configured here spans several nodes."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping

from npudoctor.facts.network.interfaces import Address, Interfaces, parse_address
from npudoctor.facts.node.environment import JobEnvironment
from npudoctor.records import record
from npudoctor.sdk import Host, Unavailable, probe

_COUNTS = ("SLURM_NNODES", "MA_NUM_HOSTS", "VC_WORKER_NUM")


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
        if value.isdecimal() and int(value) > 1:
            return name, value
    world, local = environment.get("WORLD_SIZE", ""), environment.get("LOCAL_WORLD_SIZE", "")
    if world.isdecimal() and local.isdecimal() and int(world) > int(local) > 0:
        return "WORLD_SIZE", f"{world}, with {local} on this node"
    return None


@probe(of_the_moment=True)
def cluster(host: Host, environment: JobEnvironment, interfaces: Interfaces | None) -> Cluster:
    """From MASTER_ADDR, the counts that launchers set, and the rank table."""
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
    return Cluster(several=False, master=master)
