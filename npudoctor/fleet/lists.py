"""Lists for other programs, made from a verdict: the nodes to use and the nodes to take out. They change nothing."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence

from npudoctor.findings import Severity
from npudoctor.fleet.checks.messages import ON_HOLD
from npudoctor.fleet.merge import Fleet, Member
from npudoctor.fleet.targets import fold, is_name
from npudoctor.fleet.verdict import FleetReport

OWNER = "npudoctor-fleet"
"""Who gives a reason to a scheduler; the health script and setup have other names, and each resumes only its own."""
CHANGING = ("slurm-drain", "k8s-taints")
"""The lists that change the state of a node: those on hold are not in them."""


def failing_nodes(report: FleetReport) -> dict[str, str]:
    """The nodes not to use, with the reason: an error of their own, an error that names them, or no answer."""
    reasons: dict[str, str] = {}
    for row in report.nodes:
        if row.verdict is None:
            reasons[row.name] = f"no answer ({row.outcome})"
    for result in report.report.results:
        for finding in result.open_findings:
            if finding.severity is Severity.ERROR and not (finding.code or "").endswith("/tie"):
                for name in finding.params.get("nodes", ()):
                    reasons.setdefault(str(name), result.check)
    return {name: reason for name, reason in reasons.items() if is_name(name)}  # another is the name of a file


def left_out(report: FleetReport) -> Iterator[str]:
    """Sentences that name the nodes that are not to be used, by reason."""
    for reason, names in _by_reason(failing_nodes(report)).items():
        yield f"npudoctor: not to be used: {fold(names)} ({reason})"


def held_nodes(report: FleetReport) -> set[str]:
    """The nodes that somebody holds: nothing is to be done to them."""
    findings = (finding for result in report.report.results for finding in result.findings)
    return {str(name) for one in findings if one.code == ON_HOLD.code for name in one.params.get("nodes", ())}


def render(kind: str, report: FleetReport, fleet: Fleet) -> str:
    """One list; raises KeyError for an unknown kind."""
    bad = failing_nodes(report)
    good = [member for member in fleet.members if member.name not in bad and is_name(member.name)]
    if kind in CHANGING:
        bad = {name: reason for name, reason in bad.items() if name not in held_nodes(report)}
    return KINDS[kind](good, bad, report.run or "run")


def _hostfile(good: Sequence[Member], _bad: Mapping[str, str], _run: str) -> str:
    return "".join(f"{member.name} slots={len(member.identity.npus) or 1}\n" for member in good)


def _machinefile(good: Sequence[Member], _bad: Mapping[str, str], _run: str) -> str:
    """As MPICH's mpirun has it, which hccl_test is started by."""
    return "".join(f"{member.name}:{len(member.identity.npus) or 1}\n" for member in good)


def _nodelist(good: Sequence[Member], _bad: Mapping[str, str], _run: str) -> str:
    return "".join(f"{member.name}\n" for member in good)


def _exclude(_good: Sequence[Member], bad: Mapping[str, str], _run: str) -> str:
    return f"--exclude={fold(bad)}\n" if bad else ""


def _by_reason(bad: Mapping[str, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, reason in bad.items():
        found.setdefault(reason, []).append(name)
    return found


def _drain(_good: Sequence[Member], bad: Mapping[str, str], run: str) -> str:
    return "".join(
        shlex.join(
            ["scontrol", "update", f"NodeName={fold(names)}", "State=DRAIN", f"Reason={OWNER} {_word(run)}: {reason}"]
        )
        + "\n"
        for reason, names in _by_reason(bad).items()
    )


def _taints(_good: Sequence[Member], bad: Mapping[str, str], run: str) -> str:
    return "".join(
        shlex.join(["kubectl", "taint", "nodes", *names, f"{OWNER}={_word(run)}:NoSchedule", "--overwrite"]) + "\n"
        for names in _by_reason(bad).values()
    )


def _word(run: str) -> str:
    name = run.rstrip("/").rpartition("/")[2]
    return "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in name)[:63].strip("-_.") or "run"


def _rank_table(good: Sequence[Member], _bad: Mapping[str, str], _run: str) -> str:
    """Version 1.0; 1.2 with super pods where every node says which one it is in."""
    pods = [member.identity.super_pod.get("super_pod_id") for member in good]
    rank, servers = 0, []
    for member in good:
        devices = []
        for device, npu in sorted(member.identity.npus.items()):
            said = {"device_id": str(device), "device_ip": npu.address or "", "rank_id": str(rank)}
            devices.append(said | ({"super_device_id": str(npu.sdid)} if npu.sdid is not None else {}))
            rank += 1
        host = next(iter(member.identity.addresses), member.name)
        servers.append({"server_id": host, "host_ip": host, "device": devices})
    table: dict[str, object] = {
        "status": "completed",
        "version": "1.0",
        "server_count": str(len(servers)),
        "server_list": servers,
    }
    if good and None not in pods:
        grouped: dict[int, list[dict[str, str]]] = {}
        for pod, server in zip(pods, servers, strict=True):
            grouped.setdefault(pod or 0, []).append({"server_id": str(server["server_id"])})
        table["version"] = "1.2"
        table["super_pod_list"] = [{"super_pod_id": str(pod), "server_list": rows} for pod, rows in grouped.items()]
    return json.dumps(table, indent=2) + "\n"


KINDS: Mapping[str, Callable[[Sequence[Member], Mapping[str, str], str], str]] = {
    "hostfile": _hostfile,
    "nodelist": _nodelist,
    "slurm-exclude": _exclude,
    "slurm-drain": _drain,
    "k8s-taints": _taints,
    "rank-table": _rank_table,
    "machinefile": _machinefile,
}
