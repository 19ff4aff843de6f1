"""How the digest of a node is made: its checks are run, and the facts that other nodes are compared by are kept."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from npudoctor import __version__, clock, engine
from npudoctor.compare import features
from npudoctor.compare.features import Feature, Values
from npudoctor.facts.hccn.port import parse_pfc
from npudoctor.facts.node.context import Service
from npudoctor.facts.npu_smi.pages import parse_tool_version
from npudoctor.facts.npu_smi.readings import SuperPod, parse_superpod
from npudoctor.fleet import profile
from npudoctor.fleet.digest import Clock, Digest, Event, Identity, Measure, Npu, RankTable, TableServer
from npudoctor.host import Host, ParseError, Unavailable, ask_each
from npudoctor.host import hold as on_hold
from npudoctor.plugins import Catalog
from npudoctor.records import replace
from npudoctor.sdk import Options
from npudoctor.selection import Selection

T = TypeVar("T")

LONGEST_VALUE = 160
"""A longer value is only compared, by its checksum."""
FEW_PACKAGES = 60
"""Of more Python packages only the important ones are named; the others are compared by one checksum."""

FACTS = frozenset(
    {
        *("node.chips", "node.card_presence", "node.container", "node.asker", "node.job_environment", "node.role"),
        *("network.interfaces", "network.own_name", "network.rank_table_file", "network.routes"),
        *("hccn.network_devices", "hccn.card_addresses", "hccn.addresses", "hccn.gateways", "hccn.neighbours"),
        *("hccn.links", "hccn.tls", "hccn.speeds", "hccn.fec", "npu_smi.boards", "system.platform"),
        *("system.time_service", "system.limits", "system.cpu", "system.memory", "system.sysctl_files"),
        *("driver.driver_install", "driver.firmware_install", "driver.loaded_modules", "cann.cann", "cann.nnal"),
        *("python.python_environment", "python.target_python", "system.kernel_log"),
    }
)
"""The facts that are obtained besides those of the checks, by the name of their probe."""

_IMPORTANT = ("torch", "vllm", "mindspore", "mindie", "triton", "transformers", "deepspeed", "numpy", "megatron")
_VARIABLES = ("HCCL_IF_IP", "HCCL_SOCKET_IFNAME", "MASTER_ADDR", "MASTER_PORT", "HCCL_CONNECT_TIMEOUT")


def of_node(catalog: Catalog, host: Host, selection: Selection, *, name: str = "", gentle: bool = False) -> Digest:
    """Check a node and describe it. `gentle`: one in service is checked by profile quick, at low priority."""
    readings = [_now()]
    if gentle and _in_service(catalog, host, selection.options):
        selection = replace(selection, options=replace(selection.options, profile="quick"))
        if host.about.source == "live":
            os.nice(10)
    wanted = [fact for fact, probe in catalog.probes.items() if probe.name in FACTS]
    for event in engine.run(catalog, host, selection, facts=wanted):
        if isinstance(event, engine.Done):
            done = event
    readings.append(_now())
    report = done.report
    facts = {probe.name: fact for probe, fact in done.facts.items()}
    compared = {probe.name: fact for probe, fact in done.facts.items() if not probe.of_the_moment}
    compared.pop("system.machine", None)  # the profile has what of it can be read
    told, known = features.of_facts(compared)
    asked = () if selection.options.profile == "quick" else _mcus(host, facts.get("node.chips"))
    for title, values in (*profile.of_host(host), *_proxies(host), *asked):
        told[features.feature_of("host.profile", title)] = values
    said = _Facts(facts)
    condition = "unknown" if report.in_service is None else "in service" if report.in_service else "idle"
    time_service = said["system.time_service"]
    return Digest(
        tool_version=__version__,
        name=name or host.about.hostname,
        exit_code=report.exit_code,
        report=replace(report, inventory=None),  # the identity has what is compared
        identity=_identity(host, said, selection.options),
        features=tuple((one.source, one.title, value) for one, value in compact(told).items()),
        known=tuple(sorted(known)),
        measures=_measures(said, condition),
        clock=Clock(
            readings=(*readings, _now()),
            timezone=time_service.timezone if time_service else None,
            synchronized=time_service.synchronized if time_service else None,
        ),
        events=tuple(_events(said["system.kernel_log"])),
    )


def _now() -> tuple[float, float]:
    return round(clock.timestamp(), 3), round(time.monotonic(), 3)


def _in_service(catalog: Catalog, host: Host, options: Options) -> bool:
    if options.profile == "quick" or options.expect_idle:
        return False
    found = engine.gather(catalog, host, options, facts=[Service]).get(catalog.probes[Service])
    return isinstance(found, Service) and found.in_service


class _Facts:
    """Facts by the name of their probe; None for one that is unknown."""

    def __init__(self, facts: Mapping[str, Any]) -> None:
        self._facts = facts

    def __getitem__(self, name: str) -> Any:
        fact = self._facts.get(name)
        return None if isinstance(fact, (Unavailable, engine.Crash)) else fact

    def by_device(self, name: str) -> Mapping[int, Any]:
        """The pages of hccn_tool by device."""
        fact = self[name]
        return fact.by_device if fact else {}


def compact(told: Mapping[Feature, Values]) -> dict[Feature, Values]:
    """The features with long values, and the packages of no importance, replaced by checksums."""
    packages = [one for one in told if one.title.startswith("package ")]
    rest = [one for one in packages if not one.title.removeprefix("package ").startswith(_IMPORTANT)]
    dropped = frozenset(rest if len(packages) > FEW_PACKAGES else ())
    found = {one: _short(value) for one, value in told.items() if one not in dropped}
    if dropped:
        texts = sorted(f"{one.title}=={told[one]}" for one in dropped)
        found[features.feature_of("python.python_environment", "package set")] = (_checksum(texts),)
    return found


def _short(value: Values) -> Values:
    return value if sum(map(len, value)) <= LONGEST_VALUE else (_checksum(value),)


def _checksum(texts: Iterable[str]) -> str:
    found = list(texts)
    return f"{len(found)} values, checksum {hashlib.sha256(chr(0).join(found).encode()).hexdigest()[:10]}"


def _proxies(host: Host) -> Iterable[tuple[str, Values]]:
    try:
        environ = {name.lower(): value for name, value in host.environ.items()}
    except Unavailable:
        return
    for name in ("http_proxy", "https_proxy"):
        yield f"variable {name}", ("set" if environ.get(name) else "not set",)  # its value may hold a password
    yield "variable no_proxy", (_checksum(sorted(environ.get("no_proxy", "").split(","))),)


def _identity(host: Host, said: _Facts, options: Options) -> Identity:
    presence, chips, interfaces = said["node.card_presence"], said["node.chips"], said["network.interfaces"]
    environment, limits = said["node.job_environment"] or {}, said["system.limits"]
    visible = {} if presence is None else {name: getattr(presence, name) for name in ("pci", "nodes", "npu_smi")}
    names = sorted({chip.name or chip.family or "?" for chip in chips.chips}) if chips else []
    cgroup = profile.read(host, "/proc/self/cgroup")
    nofile = limits.nofile if limits else None
    pod = _super_pod(host, chips)
    return Identity(
        hostname=host.about.hostname,
        machine_id=profile.read(host, "/etc/machine-id"),
        boot_id=profile.read(host, "/proc/sys/kernel/random/boot_id"),
        user=host.user.name,
        cgroup=cgroup.rpartition(":")[2] if cgroup else None,
        container=said["node.container"].runtime if said["node.container"] else None,
        source=host.about.source,
        hold=on_hold.reason(host, clock.today()),
        hold_ignored=on_hold.why_ignored(host),
        product=", ".join(names) or "no NPU",
        visible={name: number for name, number in visible.items() if number is not None},
        addresses=tuple(
            str(own.ip)
            for one in (interfaces.interfaces if interfaces else ())
            if not one.loopback
            for own in one.addresses
        ),
        variables={name: environment[name] for name in _VARIABLES if environment.get(name)},
        nofile=None if nofile is None else nofile.soft,
        npus=_npus(said, {device: page.sdid for device, page in pod.items()}, _flow_control(host, said, options)),
        super_pod=_place_in_pod(pod),
        rank_table=_rank_table(said["network.rank_table_file"]),
    )


def _npus(said: _Facts, sdids: Mapping[int, int | None], flow_control: Mapping[int, str]) -> dict[int, Npu]:
    """The ports by device, from every page that answered."""
    found: dict[int, dict[str, Any]] = {}

    def put(device: int, **values: Any) -> None:
        found.setdefault(device, {}).update({name: value for name, value in values.items() if value is not None})

    plain = said["hccn.card_addresses"]
    for device, address in (plain.addresses if plain else {}).items():
        put(device, address=address, gateway=plain.gateways.get(device))
    for device, one in said.by_device("hccn.addresses").items():
        put(device, address=one.ipaddr, netmask=one.netmask)
    for device, one in said.by_device("hccn.gateways").items():
        put(device, gateway=one.default_gateway)
    for device, one in said.by_device("hccn.links").items():
        put(device, link=one.status)
    for device, one in said.by_device("hccn.tls").items():
        put(device, tls=next((each.switch for each in one.cards), None))
    for device, one in said.by_device("hccn.fec").items():
        put(device, fec=one.fec_mode)
    for device, one in said.by_device("hccn.speeds").items():
        put(device, speed_mbps=one.speed_mbps)
    for device, one in said.by_device("hccn.neighbours").items():
        put(device, switch=one.system_name or one.chassis_id_mac, port=one.port_ifname)
    for device, sdid in sdids.items():
        put(device, sdid=sdid)
    for device, priorities in flow_control.items():
        put(device, pfc=priorities)
    return {device: Npu(**values) for device, values in sorted(found.items())}


def _flow_control(host: Host, said: _Facts, options: Options) -> dict[int, str]:
    """The priorities of `hccn_tool -pfc -g` by device; a link that is down has no answer, and quick does not ask."""
    devices = said["hccn.network_devices"]
    asked = list(devices.subjects) if devices and options.profile != "quick" else []
    answers = _answers(host, {device: ("hccn_tool", "-i", str(device), "-pfc", "-g") for device in asked}, parse_pfc)
    return {device: ", ".join(map(str, found)) or "off" for device, found in answers.items()}


def _mcus(host: Host, chips: Any) -> Iterable[tuple[str, Values]]:
    """The versions of the boards' MCUs as a feature, where npu-smi tells them."""
    numbers = sorted({chip.npu_id for chip in getattr(chips, "chips", ()) if chip.npu_id is not None})
    asked = {number: ("npu-smi", "upgrade", "-b", "mcu", "-i", str(number)) for number in numbers}
    found = Counter(one.version for one in _answers(host, asked, parse_tool_version).values())
    if found:
        yield "MCU version", tuple(f"{number} × {version}" for version, number in sorted(found.items()))


def _answers(host: Host, asked: Mapping[int, tuple[str, ...]], parse: Callable[[str], T]) -> dict[int, T]:
    """What the commands of several devices print, as it is read; without those that give no answer."""
    found: dict[int, T] = {}
    for device, answer in zip(asked, ask_each(host, list(asked.values())), strict=True):
        with contextlib.suppress(ParseError):
            if not isinstance(answer, Unavailable) and not answer.timed_out:
                found[device] = parse(answer.stdout)
    return found


def _super_pod(host: Host, chips: Any) -> dict[int, SuperPod]:
    """`npu-smi info -t spod-info` of every chip by its device; only an A3 answers it."""
    asked = [chip for chip in (chips.chips if chips else ()) if chip.family == "A3" and chip.npu_id is not None]
    argv = {
        place if chip.device is None else chip.device: (
            *("npu-smi", "info", "-t", "spod-info"),
            *("-i", str(chip.npu_id), "-c", str(chip.chip_id or 0)),
        )
        for place, chip in enumerate(asked)
    }
    return _answers(host, argv, parse_superpod)


def _place_in_pod(pages: Mapping[int, SuperPod]) -> dict[str, int]:
    """What all chips agree on: super pod id, its size, the index of this server."""
    fields = ("super_pod_id", "super_pod_size", "server_index")
    said = {name: {getattr(page, name) for page in pages.values()} for name in fields}
    return {name: values.pop() for name, values in said.items() if len(values) == 1 and None not in values}


def _rank_table(file: Any) -> RankTable | None:
    if file is None:
        return None
    table = file.table
    servers = tuple(
        TableServer(
            id=one.id,
            devices=tuple((each.device_id, str(each.device_ip or "") or None, each.rank) for each in one.devices),
        )
        for one in (table.servers if table else ())
    )
    text = repr([(one.id, one.devices) for one in servers])
    return RankTable(
        path=file.path,
        problem=file.problem,
        digest=hashlib.sha256(text.encode()).hexdigest() if table else None,
        status=table.status if table else None,
        stated_servers=table.stated_servers if table else None,
        servers=servers,
    )


def _measures(said: _Facts, condition: str) -> dict[str, Measure]:
    chips = said["node.chips"]
    found = {}
    for name, unit, of in (("temperature", "°C", "temp_c"), ("power", "W", "power_w")):
        values = {chip.subject: getattr(chip, of) for chip in (chips.chips if chips else ())}
        if known := {subject: value for subject, value in values.items() if value is not None}:
            found[name] = Measure(unit=unit, condition=condition, values=known)
    answer = said["npu_smi.npu_smi_answer"]
    if answer is not None and answer.returncode == 0:
        found["npu-smi latency"] = Measure(unit="s", condition=condition, values={"host": round(answer.seconds, 2)})
    return found


def _events(log: Any) -> Iterable[Event]:
    """The last distinct errors of NPU drivers in the kernel log."""
    seen: dict[str, str | None] = {}
    for line in log.lines[-400:] if log else ():
        if not re.search(r"devdrv|davinci|ascend|drv_|hccs|roce", line, re.I) or not re.search(
            r"err|fail|fault|timeout|alarm|abnormal", line, re.I
        ):
            continue
        stamp = re.match(r"\w{3} +\d+ \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT[\d:]{8}", line)
        text = line[stamp.end() :] if stamp else line
        _, from_kernel, said = text.partition(" kernel: ")
        text = said if from_kernel else text
        text = re.sub(r"0x[0-9a-fA-F]+|\d+", "N", text).strip()[:200]
        seen[text] = stamp[0] if stamp else None
    yield from (Event(text=text, time=time_) for text, time_ in list(seen.items())[-8:])
