"""Plans a smoke run: ranks, devices, ports, environment variables and deadlines; starts nothing.

Safety rules are here: busy or unhealthy NPUs are not used, memory is limited, ports avoid those of live jobs.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from typing import Any

from npudoctor import chip_problems, knowledge
from npudoctor.facts.network import hccl
from npudoctor.facts.network.ports import PortRanges, Sockets
from npudoctor.facts.node.chips import Chips
from npudoctor.facts.node.device_nodes import DeviceNodes, cannot_reach_cards
from npudoctor.facts.node.holders import CardHolders
from npudoctor.facts.npu_smi import Topology
from npudoctor.findings import Result, Severity
from npudoctor.host import User
from npudoctor.records import field, record
from npudoctor.smoke import coverage
from npudoctor.smoke.coverage import VISIBLE
from npudoctor.smoke.events import STAGES, Absence, Excluded, Planned, RankPlan
from npudoctor.smoke.request import LAUNCHERS as LAUNCHERS
from npudoctor.smoke.request import SIZES as SIZES
from npudoctor.smoke.request import Misused as Misused
from npudoctor.smoke.request import Refused as Refused
from npudoctor.smoke.request import Request as Request
from npudoctor.smoke.request import must_make_sense

WORKER = os.path.join(os.path.dirname(__file__), "worker.py")

DEADLINES_S: Mapping[str, Mapping[str, float]] = {
    "cpu": dict(zip(STAGES, (120, 60, 60, 60, 120, 60, 120, 60, 30), strict=True)),
    "npu": dict(zip(STAGES, (180, 180, 240, 120, 300, 60, 300, 120, 30), strict=True)),
}
"""Seconds by device and stage. On NPUs rendezvous exceeds HCCL's 120 s, and collectives includes the first compile."""

STALE = (
    *("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK", "GROUP_RANK", "GROUP_WORLD_SIZE"),
    *("ROLE_RANK", "ROLE_WORLD_SIZE", "ROLE_NAME", "MASTER_ADDR", "MASTER_PORT", "RANK_TABLE_FILE", "RANK_ID"),
    *("NPUDOCTOR_SMOKE", "NPUDOCTOR_SMOKE_PARENT"),
)
"""Variables of launchers that may be stale; none is passed to the ranks."""

STALE_BEGINNINGS = ("TORCHELASTIC_", "OMPI_", "PMI_", "PMIX_", "ACCELERATE_")
NO_BACKEND = "none"
"""The stages of a run without a process group."""

CARD_MEMORY_BYTES = 2 << 30
APART = 32
"""The distance of HCCL's base port from a live job's ports."""

_CPU_DTYPES = ("fp32", "fp16", "bf16", "int8", "int32", "int64")


@record(frozen=True, kw_only=True)
class Known:
    """Facts of the node before the run; None means unknown.

    `health` are the results of the checks of the chips. `user` is the user that root runs the ranks as; None
    where npudoctor does not run as root.
    """

    python: str
    environ: Mapping[str, str] = field(default_factory=dict)
    user: User | None = None
    cards: Chips | None = None
    nodes: DeviceNodes | None = None
    health: Sequence[Result] = ()
    holders: CardHolders | None = None
    topology: Topology | None = None
    hccl_ports: hccl.HcclPorts | None = None
    sockets: Sockets | None = None


@record(frozen=True, kw_only=True)
class Plan:
    """The input of launcher and watcher. `told` is read by the worker; `environ` is the environment of every rank."""

    planned: Planned
    request: Request
    environ: Mapping[str, str]
    told: Mapping[str, Any]
    master_addr: str
    master_port: int
    user: User | None = None

    @property
    def local_ranks(self) -> tuple[int, ...]:
        """The ranks that run on this node."""
        return tuple(one.rank for one in self.planned.ranks)


def make(request: Request, known: Known) -> Plan:
    """Plan a run; raises Refused."""
    notes: list[str] = []
    must_make_sense(request)
    if known.user is not None and known.user.uid:
        notes.append(f"the ranks run as {known.user.name}, the owner of their Python or its environment")
        if request.device == "npu" and (reason := cannot_reach_cards(known.user, known.nodes)):
            raise Refused(reason)
    excluded: list[Excluded] = []
    devices = _cards(request, known, notes, excluded) if request.device == "npu" else tuple(range(request.ranks or 2))
    family = known.cards.family if known.cards and request.device == "npu" else None
    sliced = request.device == "npu" and _is_sliced(known)
    if sliced:
        _must_fit_a_slice(request)
        excluded += [
            Excluded(npu=_subject(known, number), cause=Absence.NOT_SELECTED, reason="test it with --cards")
            for number in devices[1:]
        ]
        devices = devices[:1]
        notes.append("vNPUs do not support HCCL: training with one rank")
    world = len(devices) * request.nnodes
    _must_fit(request, family, world)
    first = request.node_rank * len(devices)
    ranks = _ranks(request, known, devices, first, notes)
    environ = _environ(request, known, devices, notes)
    if request.nnodes > 1:
        master_addr, _, port = (request.rdzv_endpoint or "").rpartition(":")
        master_port = int(port)
    else:
        master_addr, master_port = "127.0.0.1", free_port(known)
    stages = _stages(request, family, notes, sliced=sliced)
    deadlines = {stage: float(DEADLINES_S[request.device][stage]) for stage in stages}
    if request.size == "large":
        deadlines |= {stage: 2 * deadlines[stage] for stage in ("training", "parity", "scaling") if stage in deadlines}
    deadlines |= {stage: value for stage, value in request.deadlines_s.items() if stage in stages}
    planned = Planned(
        device=request.device,
        backend=NO_BACKEND if sliced else "hccl" if request.device == "npu" else "gloo",
        world_size=world,
        nnodes=request.nnodes,
        node_rank=request.node_rank,
        ranks=ranks,
        size=request.size,
        steps=request.steps,
        dtype=request.dtype,
        strategy=request.strategy,
        launcher=request.launcher,
        python=known.python,
        family=family,
        product=known.cards.chips[0].name if known.cards and known.cards.chips and request.device == "npu" else None,
        master=f"{master_addr}:{master_port}",
        deadlines_s=deadlines,
        notes=tuple(notes),
        chips=tuple(chip.subject for chip in known.cards.chips) if known.cards and request.device == "npu" else (),
        excluded=tuple(excluded),
        chosen_by=_chosen_by(request),
    )
    return Plan(
        planned=planned,
        request=request,
        environ=environ,
        told=_parameters(request, planned, stages),
        master_addr=master_addr,
        master_port=master_port,
        user=known.user,
    )


def _is_sliced(known: Known) -> bool:
    return known.nodes is not None and bool(known.nodes.slices) and not known.nodes.cards


def _must_fit_a_slice(request: Request) -> None:
    if request.nnodes > 1 or (request.ranks or 1) > 1 or len(request.cards or (0,)) > 1:
        raise Refused("vNPUs do not support HCCL; use one rank")
    if request.strategy != "ddp":
        raise Refused(f"vNPUs do not support HCCL, which {request.strategy} requires")


def _must_fit(request: Request, family: str | None, world: int) -> None:
    if request.strategy != "ddp" and world < 2:
        raise Misused(f"{request.strategy} shards a model over ranks; requires two ranks or more")
    if request.device == "npu" and request.dtype == "bf16" and family is not None:
        row = knowledge.hardware().family(family)
        if row is not None and not row.bf16:
            raise Refused(f"{family} does not support bf16; use --dtype fp16 or fp32")


# Cards


def _chosen_by(request: Request) -> str | None:
    if request.cards is not None:
        return "--cards"
    return "--ranks" if request.ranks else None


def _subject(known: Known, number: int) -> str:
    chips = known.cards.chips if known.cards else ()
    return chips[number].subject if number < len(chips) else f"npu:{number}"


def _cards(request: Request, known: Known, notes: list[str], excluded: list[Excluded]) -> tuple[int, ...]:
    """The devices to use, by torch_npu's numbers on the whole node; adds the others to `excluded`."""
    chips = known.cards.chips if known.cards else ()
    if not chips:
        if request.cards or request.ranks:
            notes.append("no NPU is known here; the named devices are passed to torch_npu")
            return request.cards or tuple(range(request.ranks or 1))
        raise Refused("no NPU found on this node; --device cpu tests torch and gloo without one")
    visible = coverage.visible_devices(known.environ, len(chips))
    wanted = request.cards if request.cards is not None else visible
    for number in wanted:
        if number >= len(chips):
            raise Misused(f"--cards {number}: this node has devices 0 to {len(chips) - 1}")
        if number not in visible:
            raise Refused(f"--cards {number}: hidden by ASCEND_RT_VISIBLE_DEVICES={known.environ[VISIBLE]}")
    assert known.cards is not None
    absent = {
        number: reason
        for number in range(len(chips))
        if (reason := coverage.why_not(number, known.cards, known.health, known.holders))
    }
    reasons = {number: clause(absent[number]) for number in wanted if number in absent}
    if reasons and request.force:
        notes += [f"{reason}; used because of --force" for reason in reasons.values()]
    elif reasons:
        listed = ", ".join(reasons.values())
        if request.cards is not None or len(reasons) == len(wanted):
            raise Refused(f"{listed}; --force uses it anyway and may disturb running jobs")
        wanted = tuple(number for number in wanted if number not in reasons)
    for number in wanted:
        for problem in chip_problems.problems(known.health, chips[number].subject):
            if problem.severity is not Severity.ERROR:
                notes.append(f"{chips[number].subject}: {problem.text}; it is still used")
    if request.ranks:
        if request.ranks > len(wanted):
            raise Misused(f"--ranks {request.ranks}: only {len(wanted)} devices can be used, one rank on each")
        wanted = wanted[: request.ranks]
    for number, chip in enumerate(chips):
        if number in wanted:
            continue
        other = Excluded(npu=chip.subject, cause=Absence.NOT_SELECTED, reason=f"not selected by {_chosen_by(request)}")
        if number not in visible:
            other = Excluded(npu=chip.subject, cause=Absence.HIDDEN, reason=f"hidden by {VISIBLE}")
        excluded.append(absent.get(number, other))
    excluded += coverage.missing_npus(known.cards, known.health)
    return tuple(sorted(wanted))


def clause(absent: Excluded) -> str:
    """Why a chip is not used, as a clause."""
    if absent.cause is Absence.UNHEALTHY:
        return f"{absent.npu} unhealthy: {absent.reason} ({absent.check})"
    return f"{absent.npu} {absent.reason}"


def _ranks(
    request: Request, known: Known, devices: Sequence[int], first: int, notes: list[str]
) -> tuple[RankPlan, ...]:
    ranks = []
    for place, device in enumerate(devices):
        on_card = request.device == "npu"
        cpus = _affinity(known.topology, device) if on_card else None
        subject = _subject(known, device) if on_card else None
        name = f"npu:{place}" if on_card else "cpu"
        ranks.append(RankPlan(rank=first + place, local_rank=place, device=name, card=subject, cpus=cpus))
    if request.device == "npu" and not any(one.cpus for one in ranks):
        notes.append("ranks are not bound to CPUs: npu-smi shows no affinity")
    return tuple(ranks)


def _affinity(topology: Topology | None, device: int) -> str | None:
    if topology is None or topology.cpu_affinity is None or device >= len(topology.devices):
        return None
    return topology.cpu_affinity.get(topology.devices[device])


def cpus_of(text: str) -> list[int]:
    """The CPUs of a list of ranges: 0-3,8 is 0, 1, 2, 3 and 8."""
    found: list[int] = []
    for part in text.replace(" ", "").split(","):
        first, _, last = part.partition("-")
        if first.isdigit():
            found += range(int(first), int(last or first) + 1)
    return found


# Ports and variables


def free_port(known: Known) -> int:
    """A free port outside HCCL's range."""
    reserved = known.hccl_ports.possible if known.hccl_ports else hccl.host_ports({}, None).possible
    for _ in range(64):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
        if port not in reserved:
            return port
    raise Refused("no free port outside HCCL's range")


def _environ(request: Request, known: Known, devices: Sequence[int], notes: list[str]) -> dict[str, str]:
    environ = {
        name: value
        for name, value in known.environ.items()
        if name not in STALE and not name.startswith(STALE_BEGINNINGS)
    }
    environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // max(len(devices), 1))))
    if request.device == "cpu":
        environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
        if request.nnodes == 1:
            environ["GLOO_SOCKET_IFNAME"] = "lo"
        return environ
    environ["HCCL_DETERMINISTIC"] = "true"
    environ[VISIBLE] = ",".join(map(str, devices))
    if moved := _base_port_beside_a_job(known):
        environ[hccl.BASE_PORT] = str(moved)
        notes.append(
            f"HCCL's default ports are used by a live job; this run uses {moved} and above (default range not tested)"
        )
    return environ


def _base_port_beside_a_job(known: Known) -> int | None:
    """A free base port at least 32 away where HCCL's range is taken; None where it is free."""
    if known.sockets is None or known.hccl_ports is None or not known.sockets.holding(known.hccl_ports.certain):
        return None
    low = min(known.hccl_ports.possible, default=60000)
    for base in range(low + APART, 65520 - APART, APART):
        if not known.sockets.holding(PortRanges.of((base, base + APART - 1))):
            return base
    return None


# Input of the worker


def _stages(request: Request, family: str | None, notes: list[str], *, sliced: bool) -> tuple[str, ...]:
    stages = [stage for stage in STAGES if stage != "memory-seen" or request.device == "npu"]
    if family == "310P":
        notes.append("310P is an inference chip: only forward pass and collectives are tested")
        stages = [stage for stage in stages if stage in ("launch", "rendezvous", "collectives", "memory-seen")]
    if sliced:
        stages = [stage for stage in stages if stage in ("launch", "training", "parity", "memory-seen")]
    if request.strategy != "ddp" and "scaling" in stages:
        stages.remove("scaling")
    return tuple(stages)


def _dtypes(planned: Planned) -> tuple[str, ...]:
    if planned.device == "cpu":
        return _CPU_DTYPES
    row = knowledge.hardware().family(planned.family or "")
    listed = row.allreduce_dtypes if row else ("fp32", "fp16", "int8", "int32")
    return tuple(name for name in listed if name in ("int8", "int16", "int32", "int64", "fp16", "fp32", "bf16"))


def _parameters(request: Request, planned: Planned, stages: Sequence[str]) -> dict[str, Any]:
    on_card = planned.device == "npu"
    top = 28 if on_card or planned.size == "large" else 24
    return {
        "device": planned.device,
        "backend": planned.backend,
        "world_size": planned.world_size,
        "local_world_size": len(planned.ranks),
        "nnodes": planned.nnodes,
        "first_rank": planned.ranks[0].rank,
        "stages": stages,
        "size": planned.size,
        "steps": planned.steps,
        "dtype": planned.dtype,
        "strategy": planned.strategy,
        "forward": "training" not in stages,
        "dtypes": _dtypes(planned),
        "sizes": [8 << (2 * power) for power in range(13) if 3 + 2 * power <= top] + ([1 << 28] if top == 28 else []),
        "warm_ups": 5 if on_card else 2,
        "calls": 21,
        "bandwidth_s": request.bandwidth_s or (10.0 if on_card else 1.5),
        "scaling_s": planned.deadlines_s.get("scaling", 0.0) / 6,
        "reference_steps": request.steps if planned.size == "small" else 5,
        "reference_threads": os.cpu_count() or 1,
        "memory_bytes": CARD_MEMORY_BYTES,
        "collective_timeout_s": 1800,
        "cpus": {str(one.rank): cpus_of(one.cpus) for one in planned.ranks if one.cpus},
    }
