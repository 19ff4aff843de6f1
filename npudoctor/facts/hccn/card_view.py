"""The network of the NPUs as jobs need it: which links count here, and no more questions than that takes.

hccn_tool answers for one device at a time and is never run twice at once, so each question is asked only of the devices
and in the situations where its answer can matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from npudoctor.facts.by_chip import PerPort, graver_reason
from npudoctor.facts.hccn.answers import Address, Fec, Gateway, Link, NetHealth, Vnic
from npudoctor.facts.hccn.conf import CONF_PATH
from npudoctor.facts.hccn.counters import LinkStat
from npudoctor.facts.hccn.per_port import ask, default_gateways, source_of
from npudoctor.facts.hccn.port import Lldp
from npudoctor.facts.hccn.probes import NetworkDevices, PortSettings
from npudoctor.facts.node.chips import Chips
from npudoctor.facts.node.cluster import Cluster, job_processes
from npudoctor.facts.node.container import Container
from npudoctor.facts.node.environment import JobEnvironment
from npudoctor.facts.system.processes import Process, Processes
from npudoctor.records import field, record
from npudoctor.sdk import Host, NotApplicable, Options, Unavailable, probe

A = TypeVar("A")
ROCE = "link"
SUPERPOD = "vnic"
INTER_HCCS = "HCCL_INTER_HCCS_DISABLE"
INTRA_ROCE = "HCCL_INTRA_ROCE_ENABLE"


@record(frozen=True, kw_only=True)
class NetworkPlan:
    """Which network joins the NPUs of several nodes: `link` is RoCE, `vnic` the HCCS fabric of a SuperPoD.

    `several` tells whether a job here spans nodes, `needed` whether it uses the network, on one node too; `evidence`
    (source and value) why.
    """

    network: str
    several: bool
    needed: bool = False
    evidence: tuple[str, str] | None = None

    @property
    def is_roce(self) -> bool:
        """Whether the NPUs' own Ethernet ports carry it."""
        return self.network == ROCE


@probe
def network_plan(
    cards: Chips,
    cluster: Cluster | None,
    environment: JobEnvironment | None,
    container: Container | None,
    processes: Processes | None,
) -> NetworkPlan:
    """From the family of the NPUs, and from what the job says: an A3 uses RoCE only where HCCS is switched off."""
    off = (environment.get(INTER_HCCS) or "").strip().lower() if environment else ""
    fabric = cards.family == "A3" and off not in ("true", "1")
    several = cluster is not None and cluster.several
    evidence = cluster.evidence if cluster is not None and several else None
    if evidence is None and environment is not None:
        evidence = _use_on_one_node(environment, job_processes(environment, container, processes))
    return NetworkPlan(
        network=SUPERPOD if fabric else ROCE, several=several, needed=evidence is not None, evidence=evidence
    )


def _use_on_one_node(environment: JobEnvironment, job: Iterable[Process]) -> tuple[str, str] | None:
    """Why a job on one node uses the ports of the NPUs: HCCL is told to, or a connector of vLLM moves caches there."""
    if (environment.get(INTRA_ROCE) or "").strip() == "1":
        return INTRA_ROCE, "1"
    for process in job:
        value = process.options.get("kv-transfer-config", "")
        if value.startswith("{"):  # of another connector no value is kept
            return f"process {process.pid}", f"--kv-transfer-config {value}"
    return None


@record(frozen=True, kw_only=True)
class CardLinks:
    """UP, DOWN or another word for each device; `subjects` are how findings name them, `command` asks for one.

    `addresses` are those inside a SuperPoD, which the same answer holds.
    """

    statuses: Mapping[int, str]
    subjects: Mapping[int, str]
    failed: Mapping[int, str]
    command: str
    addresses: Mapping[int, str | None] = field(default_factory=dict)
    why: Unavailable | None = field(default=None, compare=False)

    @property
    def by_subject(self) -> dict[str, str | None]:
        """The state of each link by the name of its chip in findings; None where it did not answer."""
        return {subject: self.statuses.get(device) for device, subject in self.subjects.items()}

    @property
    def up(self) -> tuple[int, ...]:
        """The devices whose link is up."""
        return tuple(device for device, status in self.statuses.items() if status == "UP")


@probe
def card_links(host: Host, options: Options, devices: NetworkDevices, plan: NetworkPlan) -> CardLinks:
    """From `hccn_tool -link -g`, inside a SuperPoD from `-vnic -g`."""
    addresses: dict[int, str | None] = {}
    if plan.is_roce:
        links: PerPort[Link] = ask(host, options, devices, "link")
        found = {device: link.status for device, link in links.by_device.items()}
        failed, why = links.failed, links.why
    else:
        vnics: PerPort[Vnic] = ask(host, options, devices, "vnic")
        found = {device: vnic.link_status for device, vnic in vnics.by_device.items()}
        failed, why = vnics.failed, vnics.why
        addresses = {device: vnic.ipaddr for device, vnic in vnics.by_device.items()}
    statuses = {device: status for device, status in found.items() if status is not None}
    if not statuses:
        raise NotApplicable("hccn_tool shows no link state on this product")
    return CardLinks(
        statuses=statuses,
        subjects=devices.subjects,
        failed=failed,
        command=f"hccn_tool -i {{}} -{plan.network} -g",
        addresses=addresses,
        why=why,
    )


@record(frozen=True, kw_only=True)
class CardAddresses:
    """The address of each device, None for one without; `gateways` only where they were asked for or are on disk.

    They are those in force on the NPUs, or where no NPU was asked, those on disk; `source` says where an address was
    read, by device, and `gateway_source` the same of a gateway. `in_force` is what each NPU that was asked answered:
    address, netmask, gateway; `on_disk` is what /etc/hccn.conf sets. `gateway_unknown` says why an NPU did not tell its
    gateway.
    """

    addresses: Mapping[int, str | None]
    gateways: Mapping[int, str | None]
    source: Mapping[int, str]
    subjects: Mapping[int, str]
    failed: Mapping[int, str]
    gateway_source: Mapping[int, str] = field(default_factory=dict)
    in_force: Mapping[int, Mapping[str, str | None]] = field(default_factory=dict)
    on_disk: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    gateway_unknown: Unavailable | None = field(default=None, compare=False)
    why: Unavailable | None = field(default=None, compare=False)


@probe
def card_addresses(
    host: Host,
    options: Options,
    devices: NetworkDevices,
    plan: NetworkPlan,
    links: CardLinks,
    set_here: PortSettings | None,
) -> CardAddresses:
    """From `hccn_tool -ip -g` and `-gateway -g`, which say what is in force; /etc/hccn.conf is what is wanted.

    The file alone counts where no NPU is asked: its link is down, and one node alone does not need it.
    """
    if not plan.is_roce:
        return CardAddresses(
            addresses=links.addresses,
            gateways={},
            source={device: links.command.format(device) for device in links.addresses},
            subjects=devices.subjects,
            failed=links.failed,
            why=links.why,
        )
    on_disk = set_here.by_device if set_here is not None else {}
    if not links.up and not plan.several:
        asked = NetworkDevices({})
    else:
        asked = NetworkDevices({device: name for device, name in devices.subjects.items() if device in links.statuses})
    live: PerPort[Address] = ask(host, options, asked, "ip") if asked.subjects else PerPort({})
    gateways = {device: entry.get("gateway") for device, entry in on_disk.items() if device in devices.subjects}
    gateway_unknown: Unavailable | None = None
    told: dict[int, str | None] = {}
    gateway_source = dict.fromkeys(devices.subjects, CONF_PATH)
    if asked.subjects and (plan.several or any(gateways.values())):
        try:
            answers: PerPort[Gateway] = default_gateways(host, options, asked)
            told = {device: one.default_gateway for device, one in answers.by_device.items()}
            gateway_source |= {
                device: source_of(answers, device, devices.subjects[device], "gateway") for device in told
            }
            gateway_unknown = answers.why
        except Unavailable as why:
            gateway_unknown = why
    addresses: dict[int, str | None] = {}
    source: dict[int, str] = {}
    for device in devices.subjects:
        if device in live.by_device:
            addresses[device] = live.by_device[device].ipaddr
            source[device] = source_of(live, device, devices.subjects[device], "ip")
        elif device not in live.failed and device not in asked.subjects and device not in links.failed:
            addresses[device] = on_disk.get(device, {}).get("address")
            source[device] = CONF_PATH
    return CardAddresses(
        addresses=addresses,
        gateways={**gateways, **told},
        source=source,
        gateway_source=gateway_source,
        subjects=devices.subjects,
        failed=live.failed,
        in_force={
            device: {
                "address": one.ipaddr,
                "netmask": one.netmask,
                **({"gateway": told[device]} if device in told else {}),
            }
            for device, one in live.by_device.items()
        },
        on_disk=on_disk,
        gateway_unknown=gateway_unknown,
        why=live.why,
    )


@record(frozen=True)
class CardNetHealth:
    """What each device with a link says of its network: Success, Init (no detect address), Fault and others."""

    statuses: Mapping[int, str]
    failed: Mapping[int, str]
    source: Mapping[int, str]
    why: Unavailable | None = field(default=None, compare=False)


@probe
def card_net_health(
    host: Host, options: Options, devices: NetworkDevices, plan: NetworkPlan, links: CardLinks
) -> CardNetHealth:
    """From `hccn_tool -net_health -g`, of devices whose link is up."""
    if not plan.is_roce:
        raise NotApplicable("the SuperPoD network reports no health")
    linked = {device: devices.subjects[device] for device in links.up}
    if not linked:
        raise NotApplicable("no NPU network port is up")
    health: PerPort[NetHealth] = ask(host, options, NetworkDevices(linked), "net_health")
    return CardNetHealth(
        {device: one.status for device, one in health.by_device.items() if one.status is not None},
        health.failed,
        {device: source_of(health, device, devices.subjects[device], "net_health") for device in health.by_device},
        health.why,
    )


@record(frozen=True, kw_only=True)
class CardFabric:
    """How the ports of the NPUs do: FEC mode, changes of the link, error counters and neighbours, by device.

    Each is empty where it could not be had; `failed` then says why, by the name of the question.
    """

    fec: Mapping[int, str]
    changes: Mapping[int, LinkStat]
    counters: Mapping[int, Mapping[str, int]]
    neighbours: Mapping[int, Lldp]
    subjects: Mapping[int, str]
    failed: Mapping[str, str]


@probe
def card_fabric(
    host: Host, options: Options, devices: NetworkDevices, plan: NetworkPlan, links: CardLinks
) -> CardFabric:
    """From `-fec`, `-link_stat` and `-stat` of hccn_tool, and `-lldp` where several nodes are to meet.

    Asked in profile full, and elsewhere only where several nodes are configured: one node alone does not need them.
    """
    if not plan.is_roce:
        raise NotApplicable("NPUs of a SuperPoD are connected by HCCS, not by network ports")
    if not plan.several and options.profile != "full":
        raise NotApplicable("a single node does not use the NPU network; profile full checks it anyway")
    linked = NetworkDevices({device: devices.subjects[device] for device in links.up})
    if not linked.subjects:
        raise NotApplicable("no NPU network port is up")
    failed: dict[str, str] = {}
    first: Unavailable | None = None
    answers: dict[str, Mapping[int, object]] = {}
    for name in ("fec", "link_stat", "stat", *(["lldp"] if plan.several else [])):
        try:
            pages: PerPort[Any] = ask(host, options, linked, name)
            answers[name] = pages.by_device
            if pages.why is not None:
                failed[name] = pages.why.reason
        except Unavailable as why:
            failed[name] = why.reason
            first = graver_reason(first, why)
    if first is not None and not answers:
        raise first
    fec = answers.get("fec", {})
    return CardFabric(
        fec={device: one.fec_mode for device, one in fec.items() if isinstance(one, Fec) and one.fec_mode},
        changes=_of(answers.get("link_stat", {}), LinkStat),
        counters={
            device: {name: value for name, value in one.items() if isinstance(value, int)}
            for device, one in answers.get("stat", {}).items()
            if isinstance(one, Mapping)
        },
        neighbours=_of(answers.get("lldp", {}), Lldp),
        subjects=devices.subjects,
        failed=failed,
    )


def _of(answers: Mapping[int, object], kind: type[A]) -> dict[int, A]:
    return {device: one for device, one in answers.items() if isinstance(one, kind)}
