"""What is known of HCCL itself: the typed form of hccl.json."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from npudoctor.knowledge import table
from npudoctor.records import record


@record(frozen=True, kw_only=True)
class Ports:
    """HCCL's ports: `base` and the legal bases; `certain_count` ports are taken by every release, `full_count` from
    `full_from_cann` on. `device` is the port on each NPU's own network, `master` torch's store."""

    base: int
    base_min: int
    base_max: int
    certain_count: int
    full_count: int
    full_from_cann: str
    device: int
    master: int
    range_min: int
    range_max: int
    note: str
    sources: tuple[str, ...]


@record(frozen=True, kw_only=True)
class Times:
    """HCCL's waits in seconds: defaults, limits, and what is added to them.

    `release_s` is how long the driver takes to release an NPU. 910 rounds the execution wait down to a multiple of
    `exec_step_910_s`.
    """

    connect_s: int
    connect_extra_s: int
    connect_min_s: int
    connect_max_s: int
    rank_table_extra_s: int
    exec_s: int
    exec_aiv_s: int
    event_s: int
    exec_step_910_s: int
    exec_max_910_s: int
    release_s: tuple[int, int]
    sources: tuple[str, ...]


@record(frozen=True, kw_only=True)
class Buffers:
    """Device memory per communicator: `times_per_communicator` buffers of `collective_mb`, and of `p2p_mb` for groups
    that send and receive, from torch_npu's train `p2p_from_pta` on."""

    collective_mb: int
    p2p_mb: int
    p2p_from_pta: str
    times_per_communicator: int
    sources: tuple[str, ...]


@record(frozen=True, kw_only=True)
class InterfaceChoice:
    """How HCCL chooses the host's interface: `order`; interfaces with `last_resort_prefixes` come last, those with
    `unfit_prefixes` are no candidates for a person."""

    order: tuple[str, ...]
    last_resort_prefixes: tuple[str, ...]
    unfit_prefixes: tuple[str, ...]
    default_family: str
    sources: tuple[str, ...]


@record(frozen=True, kw_only=True)
class HccnQuery:
    """One question to hccn_tool, what a healthy NPU answers (a regular expression), and what to look at otherwise."""

    query: str
    healthy: str
    otherwise: str
    families: tuple[str, ...]


@record(frozen=True)
class Launcher:
    """A way to start a job: which variables it sets, and what to watch."""

    name: str
    sets: str
    watch: str


@record(frozen=True, kw_only=True)
class Hccl:
    """The whole table. `threads` are those of a process in which HCCL lives; `more` holds the facts without a type."""

    as_of: str
    ports: Ports
    times: Times
    buffers: Buffers
    interface: InterfaceChoice
    hccn_queries: tuple[HccnQuery, ...]
    launchers: tuple[Launcher, ...]
    threads: Mapping[str, str]
    several_nodes: tuple[str, ...]
    tls_checked_from_hdk: str
    tls_not_on: tuple[str, ...]
    more: Mapping[str, Any]


def load() -> Hccl:
    """Read hccl.json."""
    return table.record_of(Hccl, table.read("hccl"))
