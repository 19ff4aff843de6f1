"""What can be compared between nodes: the facts and findings of one node as short texts by title.

What is expected to differ from node to node is not among them: names, addresses, serial numbers, bus and process ids,
temperatures, power, free room, counters. Facts of the moment are left out by the flag of their probe, and so are fields
by `_INDIVIDUAL`; any other fact joins by itself, field by field.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from enum import Enum
from types import MappingProxyType
from typing import Any, NamedTuple

from npudoctor.facts.versions import Version
from npudoctor.findings import Report, Severity, Status
from npudoctor.host import Because, Unavailable
from npudoctor.messages import gigabytes
from npudoctor.records import field, record

Values = tuple[str, ...]
"""What a node has of one feature, in order."""


class Feature(NamedTuple):
    """One thing to compare. `rank` is its place in a listing; `source` the probe that it comes from."""

    rank: int
    source: str
    title: str


@record(frozen=True, kw_only=True)
class Node:
    """One node. `known` names the sources that are complete: a feature of theirs that is absent has no value."""

    path: str
    hostname: str = ""
    features: Mapping[Feature, Values] = field(default_factory=dict)
    known: frozenset[str] = frozenset()

    def value(self, feature: Feature) -> Values | None:
        """What the node has of a feature; None where it is unknown."""
        found = self.features.get(feature)
        return () if found is None and feature.source in self.known else found


FINDINGS = "findings"
FIRMWARE = "firmware of the NPUs"
"""The title of the firmware that runs; other rooms name it by this."""

_INDIVIDUAL = frozenset(
    {
        "alone",  # the import without plug-ins, tried only where the usual one fails
        *("aicore_cur_freq_mhz", "aicore_pct", "aicpu_pct", "aicube_pct", "aivector_pct", "available"),
        *("available_bytes", "bus_gb_s", "bus_id", "by_pid", "card_pids", "chassis_id", "chassis_id_mac", "chip_id"),
        *("container_pid", "correctable_errors", "count", "create_time_s", "ctrlcpu_pct", "current_time"),
        *("ddr_bandwidth_pct", "ddr_hugepages_usage_pct", "ddr_usage_pct", "dev_id", "device_id", "devices_error"),
        *("devid", "dl_dcrc_error_count", "dl_lcrc_error_count", "dvpp_jpegd_pct", "dvpp_jpege_pct", "dvpp_vdec_pct"),
        *("dvpp_venc_pct", "dvpp_vpc_pct", "earlier_bus_gb_s", "ecrc_error_count", "end_time", "error"),
        *("error_codes", "error_count", "error_info", "error_info_count", "failed", "fatal_errors", "files_free"),
        *("first_error_lane", "free_bytes", "hbm_bandwidth_pct", "hbm_temp_c", "hbm_usage_pct", "hbm_used_mb"),
        *("hostname", "hugepages_used", "id", "last_line", "lcrc_error_count", "line_number", "lines"),
        *("link_down_count", "link_up_count", "logic_id", "loss_pct", "max_abs_error", "mem_used_mb"),
        *("memory_usage_pct", "memory_used_mb", "mtime", "ndie_temp_c", "nonfatal_errors", "npu_id"),
        *("npu_utilization_pct", "pcie_bus", "pcs_rx_error_count", "phy_id", "phy_lane_error_count", "pid", "pids"),
        *("plog_line", "port_ifname", "port_ifnames", "power_w", "ppid", "rdev", "reason", "records", "retry_count"),
        *("rx_error_count", "rx_power_high_mw", "rx_power_low_mw", "rx_power_mw", "seconds", "seen", "serial_number"),
        *("sfp_temp_c", "since_s", "size", "size_bytes", "slot", "slot_id", "slots", "soc_temp_c", "start_time"),
        *("subject", "subjects", "temp_c", "text", "time", "tx_error_count", "tx_power_high_mw", "tx_power_low_mw"),
        *("tx_power_mw", "vectorcore_pct", "why", "why_not"),
    }
)
"""Fields of facts that differ from node to node, or from moment to moment. A test asks of each new field that is named
like one of them whether it belongs here."""

_ADDRESS = re.compile(r"(?:\d{1,3}\.){3}\d{1,3}(?:/\d+)?")
_ADDRESS_6 = re.compile(r"(?=(?:.*:){2})[0-9a-fA-F:.]{2,45}(?:%\w+)?(?:/\d+)?")
_VERSION = re.compile("version|release|software|firmware|stated|kernel|compat")
_IDENTITY = re.compile(r"(?:[0-9a-fA-F]{2}[:-]){5}[0-9a-fA-F]{2}|[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.\d")
"""Addresses of network ports and of the PCI bus."""

_NUMBERED = re.compile(r"-?\d+|(?:npu|chip|nic|dev)\W?\d+.*|\(.*\)|/.*|[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:.*", re.I)
"""Keys that number things or name paths, and so say nothing by themselves: 3, npu:3, npu:3/chip:1, (3, 1)."""

_OF_ONE_PERSON = frozenset({"HOME", "USER", "LOGNAME", "SHELL", "SUDO_USER", "TMPDIR", "XDG_CACHE_HOME"})
_OF_ONE_RANK = frozenset(
    {
        *("RANK", "LOCAL_RANK", "NODE_RANK", "GROUP_RANK", "VC_TASK_INDEX", "KUBERNETES_SERVICE_HOST", "MA_JOB_DIR"),
        *("SLURM_PROCID", "SLURM_JOB_ID", "SLURM_STEP_ID", "TORCHELASTIC_RUN_ID"),
    }
)
"""Variables whose value is expected to differ: compared is only whether they are set."""

_FIRST = (
    *("NPUs", "memory per chip", "driver version", "driver package", "firmware of the NPUs", "firmware package"),
    *("CANN", "CANN in use", "operators of CANN", "NNAL", "package torch", "package torch-npu", "Python", "TLS switch"),
    *("IP family of the NPUs", "IP family of the host", "link of the NPUs", "speed of the links", "network health"),
    *("operating system", "kernel", "machine", "reserved ports", "ephemeral ports", "container", "role"),
)
"""What matters most, in the order of a listing; then findings, variables, settings, packages, and all else by name."""

GENERIC = 109
"""The rank of what joined by itself."""

_TITLES = MappingProxyType(
    {
        "hccn.tls: by_device.cards.switch": "TLS switch",
        "hccn.links: by_device.status": "link of the NPUs",
        "hccn.speeds: by_device.speed_mbps": "speed of the links",
        "hccn.net_health: by_device.status": "network health",
        "hccn.addresses: by_device.ipaddr": "IP family of the NPUs",
        "driver.driver_install: file.version": "driver package",
        "driver.firmware_install: file.version": "firmware package",
        "npu_smi.boards: by_subject.firmware_version": "firmware of the NPUs",
        "system.platform: os": "operating system",
        "system.platform: kernel": "kernel",
        "system.platform: machine": "machine",
        "python.python_environment: version": "Python",
        "node.container: runtime": "container",
        "node.role: name": "role",
        "cann.nnal: version": "NNAL",
    }
)


def of_report(report: Report) -> Iterator[tuple[Feature, Values]]:
    """What a report tells: its node, and its findings at warning or above."""
    host = report.host
    for title, source, value in (
        ("operating system", "system.platform", host.os),
        ("kernel", "system.platform", host.kernel),
        ("machine", "system.platform", host.machine),
        ("container", "node.container", host.container),
        ("role", "node.role", report.role),
    ):
        if value:
            yield feature_of(source, title), (value,)
    for result in report.results:
        if result.status in (Status.WARNING, Status.ERROR, Status.CRASHED):
            subjects = {finding.subject for finding in result.findings if finding.severity > Severity.INFO}
            told = sorted(subjects - {"host"}, key=by_number)
            yield feature_of(FINDINGS, f"finding {result.check}"), (result.status.value, *told)


def of_facts(facts: Mapping[str, Any]) -> tuple[dict[Feature, Values], frozenset[str]]:
    """What facts by the name of their probe tell, and which of these probes have told all there is."""
    told: dict[Feature, Values] = {}
    known = set()
    for source, fact in facts.items():
        if isinstance(fact, Unavailable):
            if fact.because in (Because.ABSENT, Because.NOT_APPLICABLE):
                known.add(source)
            continue
        known.add(source)
        view = _VIEWS.get(source)
        pairs = view(fact) if view else ((f"{source}: {'.'.join(path)}", values) for path, values in _spread(fact))
        told.update((feature_of(source, _TITLES.get(title, title)), values) for title, values in pairs if values)
    return told, frozenset(known)


def feature_of(source: str, title: str) -> Feature:
    """The feature of this title, at its place in a listing."""
    if title in _FIRST:
        return Feature(_FIRST.index(title), source, title)
    kinds = ("finding ", "variable ", "setting at boot ", "package ")
    return Feature(100 + next((place for place, kind in enumerate(kinds) if title.startswith(kind)), 9), source, title)


# Any fact, field by field

Pairs = Iterator[tuple[tuple[str, ...], Values]]


def _spread(value: Any, path: tuple[str, ...] = ()) -> Pairs:
    """The fields of a fact by their path; what several items have in one field becomes one value: 7 × UP, 1 × DOWN."""
    if value is None:
        return
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, (str, int, float, Version)):
        if text := _text(value, path[-1] if path else ""):
            yield path, (text,)
    elif names := _fields(type(value)):  # type: ignore[arg-type]  # mypy: a type of anything is hashable
        for name in names:
            yield from _spread(getattr(value, name), (*path, name))
    elif isinstance(value, Mapping) and not any(_NUMBERED.fullmatch(str(key)) for key in value):
        for key, item in value.items():
            yield from _spread(item, (*path, str(key)))
    elif isinstance(value, (Mapping, Set, list, tuple)):
        items = list(value.values() if isinstance(value, Mapping) else value)
        if len(items) > 1 and all(type(item) is int for item in items):
            yield path, (_ranges(items),)
        else:
            yield from _merge(items, path)


def _merge(items: Iterable[Any], path: tuple[str, ...]) -> Pairs:
    counted: dict[tuple[str, ...], Counter[str]] = {}
    for item in items:
        for below, values in _spread(item, path):
            counted.setdefault(below, Counter())[", ".join(values)] += 1
    for below, texts in counted.items():
        unique = all(count == 1 for count in texts.values())
        yield below, tuple(text if unique else f"{count} × {text}" for text, count in sorted(texts.items()))


def _text(value: Any, name: str) -> str:
    """A scalar as text; of an address only its family, nothing of what identifies a device."""
    text = str(value).lower() if isinstance(value, bool) else str(value).strip()
    if _IDENTITY.fullmatch(text):
        return ""
    if _VERSION.search(name):
        return text
    if _ADDRESS.fullmatch(text) and not text.startswith("255."):
        return "IPv4"
    return "IPv6" if _ADDRESS_6.fullmatch(text) else text


@functools.cache
def _fields(kind: Any) -> tuple[str, ...]:
    """The fields of a record that are compared."""
    return tuple(name for name in getattr(kind, "__dataclass_fields__", ()) if name not in _INDIVIDUAL)


def _ranges(numbers: Iterable[int]) -> str:
    spans: list[list[int]] = []
    for number in sorted(set(numbers)):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)


def by_number(text: str) -> list[tuple[int, str]]:
    """A key that sorts npu:10 behind npu:9, however many digits there are."""
    parts = re.split(r"([0-9]+)", text)
    return [(len(part.lstrip("0")), part.lstrip("0")) if place % 2 else (-1, part) for place, part in enumerate(parts)]


# Facts of which more is known than their fields

Views = Iterator[tuple[str, Values]]


def _count_texts(texts: Iterable[str]) -> Values:
    return tuple(f"{count} × {text}" for text, count in sorted(Counter(texts).items()))


def _chips(info: Any) -> Views:
    yield "NPUs", _count_texts(chip.name or "?" for chip in info.npus)
    yield "driver version", (info.driver_version,) if info.driver_version else ()
    yield "memory per chip", _count_texts(gigabytes(chip.hbm_total_mb or chip.mem_total_mb or 0) for chip in info.npus)


def _cann(cann: Any) -> Views:
    yield "CANN", tuple(sorted({install.stated or "?" for install in cann.installs}))
    if install := cann.chosen:
        build = f" ({install.innerversion})" if install.innerversion else ""
        yield "CANN in use", (f"{install.stated or '?'}{build} at {install.names[0]}",)


def _operators(ops: Any) -> Views:
    told = (ops.stated or ("installed" if ops.installed else ""), "emptied" if ops.emptied else "", *ops.chips)
    yield "operators of CANN", tuple(filter(None, told))


def _environment(environment: Mapping[str, str]) -> Views:
    from npudoctor import knowledge

    for name, value in environment.items():
        if name in _OF_ONE_PERSON or name not in knowledge.environment().recorded:
            continue
        if name in _OF_ONE_RANK:
            yield f"variable {name}", ("set",)
        elif ":" in value and "/" in value:
            yield f"variable {name}", tuple(value.split(":"))
        else:
            yield (
                f"variable {name}",
                ("IPv6" if ":" in value else "IPv4",) if name == "HCCL_IF_IP" else (value or "empty",),
            )


def _modules(modules: Any) -> Views:
    yield "modules of the driver", tuple(sorted(modules.names))
    yield "versions of the modules", _count_texts(modules.versions.values())


def _python(python: Any) -> Views:
    yield "Python", (python.version,)
    for name, distribution in python.distributions.items():
        yield f"package {name}", (distribution.version,)
    for name, copies in python.copies.items():
        yield f"copies of package {name}", tuple(f"{version} in {folder}" for version, folder in copies)
    for name, place in python.shadows.items():
        yield f"package {name} is hidden by", (place,)


def _interfaces(interfaces: Any) -> Views:
    real = [one for one in interfaces.interfaces if one.up and one.name != "lo" and one.addresses]
    families = {"IPv6" if ":" in address else "IPv4" for one in real for address in map(str, one.addresses)}
    yield "IP family of the host", tuple(sorted(families))
    yield "interfaces with an address", tuple(sorted(one.name for one in real))
    for one in real:
        yield f"MTU of {one.name}", (str(one.mtu),)


def _sysctl(files: Any) -> Views:
    for setting in files.settings:
        yield f"setting at boot {setting.key}", (setting.value,)


def _gib(total: int | None) -> Values:
    return (f"{round(total / (1 << 30))} GiB",) if total else ()


_VIEWS: Mapping[str, Callable[[Any], Views]] = MappingProxyType(
    {
        "npu_smi.npu_smi_info": _chips,
        "cann.cann": _cann,
        "driver.loaded_modules": _modules,
        "cann.cann_ops": _operators,
        "node.job_environment": _environment,
        "python.python_environment": _python,
        "python.target_python": lambda python: iter([("Python examined", (python.path,))]),
        "network.interfaces": _interfaces,
        "system.sysctl_files": _sysctl,
        "network.kernel_ports": lambda ports: iter(
            [
                ("ephemeral ports", (str(ports.ephemeral),)),
                ("reserved ports", tuple(filter(None, [str(ports.reserved)]))),
            ]
        ),
        "system.memory": lambda memory: iter([("memory of the host", _gib(memory.total_bytes))]),
        "system.shared_memory": lambda shared: iter([("size of /dev/shm", _gib(shared.total_bytes))]),
    }
)
