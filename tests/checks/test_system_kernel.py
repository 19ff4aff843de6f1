"""Kernel, C library, processors, connections and clock, as a user would see the findings."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npudoctor.facts.network import hostname
from npudoctor.facts.system import cpu_tuning
from npudoctor.findings import Because, Finding, Result, Severity, Skip, Status
from npudoctor.sdk import ParseError
from npudoctor.testing import run_check

Nodes = Callable[..., Any]
GOVERNOR = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"


def only(result: Result) -> Finding:
    assert len(result.findings) == 1, [finding.summary for finding in result.findings]
    return result.findings[0]


@pytest.mark.parametrize("id", ["system.platform", "system.cpu", "system.conntrack", "system.clock"])
def test_a_healthy_node_yields_nothing(node: Nodes, id: str) -> None:
    result = node().check(id)
    assert (result.status, result.findings) == (Status.OK, ())


@pytest.mark.parametrize(
    ("id", "because"),
    [
        ("system.platform", Because.NOT_RECORDED),
        ("system.cpu", Because.NOT_RECORDED),
        ("system.conntrack", Because.ABSENT),
        ("system.clock", Because.ABSENT),
    ],
)
def test_without_its_source_nothing_is_judged(id: str, because: Because) -> None:
    result = run_check(id, files={"/dev/davinci0": ""})
    assert (result.status, result.because) == (Status.SKIPPED, because)


# system.platform


def python(glibc: str, torch_npu: str = "2.7.1") -> dict[str, Any]:
    packages = {"torch": {"version": "2.7.1", "requires": []}, "torch-npu": {"version": torch_npu, "requires": []}}
    said = {"executable": "/opt/bin/python", "version": "3.10.2", "glibc": glibc, "distributions": packages}
    return {"python environment": {"stdout": json.dumps(said)}}


@pytest.mark.parametrize(("glibc", "found"), [("2.38", False), ("2.28", False), ("2.27", True), ("2.17", True)])
def test_a_c_library_older_than_the_wheel_s_is_a_warning(node: Nodes, glibc: str, found: bool) -> None:
    result = node(commands=python(glibc)).check("system.platform")
    assert [(one.severity, one.pitfall) for one in result.findings] == ([(Severity.WARNING, "P039")] if found else [])
    summary = f"torch_npu 2.7.1 requires glibc 2.28 or newer; found {glibc}"
    assert [one.summary for one in result.findings] == ([summary] if found else [])


def test_a_kernel_outside_the_recommended_lines_is_info(node: Nodes) -> None:
    finding = only(node(kernel="4.19.90-2112.aarch64").check("system.platform"))
    assert (finding.severity, finding.evidence[0].expected) == (Severity.INFO, "5.4, 5.10, 6.8")
    assert finding.summary == "Kernel 4.19.90-2112.aarch64 is not one that the driver is recommended for"


def test_a_host_that_has_nothing_of_ascend_needs_no_certain_system(node: Nodes) -> None:
    bare = node(
        product="none", kernel="3.10.0", cann={"installed": False}, python={"torch": "", "torch_npu": ""}
    ).check("system.platform")
    assert bare.skip is Skip.NOT_APPLICABLE


# system.cpu


def test_processors_that_save_power_are_info(node: Nodes) -> None:
    finding = only(node(files={GOVERNOR: "powersave\n"}).check("system.cpu"))
    assert (finding.severity, finding.pitfall) == (Severity.INFO, "P090")
    assert finding.summary == "CPU governor is powersave, not performance"


def test_huge_pages_that_are_off_are_info(node: Nodes) -> None:
    off = {"/sys/kernel/mm/transparent_hugepage/enabled": "always madvise [never]\n"}
    finding = only(node(files=off).check("system.cpu"))
    assert (finding.severity, finding.summary) == (Severity.INFO, "Transparent huge pages disabled")


@pytest.mark.parametrize(
    ("threads", "expected"),
    [
        ("1", []),
        ("24", []),
        ("25", [(Severity.INFO, "OMP_NUM_THREADS=25 for 8 ranks exceeds the 192 CPUs of this host")]),
        ("4,2", []),
        (
            "none",
            [
                (
                    Severity.WARNING,
                    "OMP_NUM_THREADS invalid: 'none' is not of the form a number from 1, or one per nesting level "
                    "joined by commas",
                )
            ],
        ),
    ],
)
def test_more_threads_than_processors_are_info(node: Nodes, threads: str, expected: list[tuple[Severity, str]]) -> None:
    result = node(environ={"OMP_NUM_THREADS": threads}).check("system.cpu")
    assert [(finding.severity, finding.summary) for finding in result.findings] == expected


def test_the_ranks_of_this_node_count_and_not_its_cards(node: Nodes) -> None:
    result = node(environ={"OMP_NUM_THREADS": "96", "LOCAL_WORLD_SIZE": "2"}).check("system.cpu")
    assert result.findings == ()


@given(st.text())
def test_the_mode_of_huge_pages_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(ParseError):
        assert f"[{cpu_tuning.parse_huge_pages(text)}]" in text


@given(
    st.lists(
        st.sampled_from(
            ["127.0.1.1 node-1", "10.0.0.7 node-1.example node-1", "# 10.0.0.1 node-1", "", "x", "x node-1"]
        )
    )
)
def test_the_first_line_of_a_name_counts(lines: list[str]) -> None:
    found = hostname.parse("\n".join(lines), "node-1")
    wanted = next((number for number, line in enumerate(lines, 1) if line[:1].isdecimal()), None)
    assert found.line_number == wanted


# system.conntrack


@pytest.mark.parametrize(("count", "found"), [(79, False), (80, True), (100, True)])
def test_a_table_of_connections_that_fills_up_is_a_warning(node: Nodes, count: int, found: bool) -> None:
    sysctl = {"net.netfilter.nf_conntrack_count": str(count), "net.netfilter.nf_conntrack_max": "100"}
    result = node(sysctl=sysctl).check("system.conntrack")
    assert [(one.severity, one.pitfall) for one in result.findings] == ([(Severity.WARNING, "P079")] if found else [])
    assert [one.summary for one in result.findings] == ([f"Connection tracking table {count} % full"] if found else [])


def test_how_full_a_table_may_be_is_the_site_s_to_say(node: Nodes) -> None:
    said = {"settings": {"conntrack_used_percent": 0.1}}
    assert only(node().check("system.conntrack", **said)).severity is Severity.WARNING


def test_a_table_without_limit_is_never_full(node: Nodes) -> None:
    assert node(sysctl={"net.netfilter.nf_conntrack_max": "0"}).check("system.conntrack").findings == ()


# system.clock


def clock(ntp: str, synchronized: str) -> dict[str, Any]:
    return {"timedatectl show": {"stdout": f"Timezone=UTC\nNTP={ntp}\nNTPSynchronized={synchronized}\n"}}


@pytest.mark.parametrize(
    ("ntp", "summary"),
    [("yes", "Clock not synchronised"), ("no", "Clock not synchronised: no time service enabled")],
)
def test_a_clock_that_nobody_keeps_is_info(node: Nodes, ntp: str, summary: str) -> None:
    finding = only(node(commands=clock(ntp, "no")).check("system.clock"))
    assert (finding.severity, finding.summary) == (Severity.INFO, summary)


def test_a_time_service_that_does_not_answer_is_no_verdict(node: Nodes) -> None:
    result = node(commands={"timedatectl show": {"timed_out": True}}).check("system.clock")
    assert (result.skip, result.because) == (Skip.COULD_NOT_LOOK, Because.TIMED_OUT)
