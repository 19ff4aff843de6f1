"""Cards of 950 as npu-smi's own source prints them: one page for each NPU, no chip numbers, `-c` refused."""

from collections.abc import Mapping
from typing import Any

import pytest

from npudoctor.findings import Severity, Status
from npudoctor.testing import run_check

from .test_npu import only

COUNT = 4
HEAD = """\
+-------------------------------------------------------------------------------------------------+
| npu-smi 25.7.rc1                                 Version: 25.7.rc1                              |
+--------+------------------+---------------+-----------------------------------------------------+
| NPU ID | Name             | Health        | Power(W)    Temp(C)           Hugepages-Usage(page) |
|        |                  | Bus-Id        | NPU Util(%) Memory-Usage(MB)  HBM-Usage(MB)         |
+========+==================+===============+=====================================================+
"""
RULE = "+========+==================+===============+=====================================================+\n"
PROCESSES = """\
+---------------------------+---------------+-----------------------------------------------------+
| NPU ID                    | Process id    | Process name             | Process memory(MB)       |
+===========================+===============+=====================================================+
"""
DOUBLE = "+===========================+===============+=====================================================+\n"
WARNING = (
    "[WARNING]The driver package may not be completely installed, which may cause function abnormal. "
    "Please reinstall it.\n"
)


def table(health: Mapping[int, str], silent: frozenset[int], bus: str) -> str:
    text = HEAD
    for npu in range(COUNT):
        power, celsius, used, total = (0.0, 0, 0, 0) if npu in silent else (201.5, 52, 4439, 86016)
        text += f"| {npu:<7}| {'Ascend950PR':<17}| {health.get(npu, 'OK'):<13} | {power:<11.1f} {celsius:<17}"
        text += f" {0:<6}/ {0:<13} |\n|{'':<8}|{'':<18}| {bus:<13} | {0:<11} {0:<5}/ {0:<10} {used:<6}/ {total:<13} |\n"
        text += RULE
    text += PROCESSES
    for npu in range(COUNT):
        text += f"| {f'No running processes found in NPU {npu}':<95} |\n{DOUBLE}"
    return text


def row(key: str, value: object) -> str:
    return f"\t{key:<30} : {value}\n"


def pages(npu: int, health: str, codes: tuple[str, ...], events: tuple[str, ...]) -> dict[str, str]:
    page = row("NPU ID", npu) + row("Health Status", health) + row("Error Code", " ".join(codes) or "NA")
    page += "\n".join(row("" if place else "Error Information", f"fault {code}") for place, code in enumerate(codes))
    page += "" if codes else row("Error Information", "NA")
    told = row("Fault Event Count", len(events))
    for place, event in enumerate(events):
        numbers = "node type ex=215, node id=0, sub node type ex=0, sub node id=0"
        told += row("" if place else "Fault Event Information", f"event id=0x{event}, severity=2, {numbers}")
    return {
        f"npu-smi info -t health -i {npu}": page,
        f"npu-smi info -t health -i {npu} -c 0": "This device does not support input parameter of -c.\n",
        f"npu-smi info -t current-fault-event -i {npu}": told,
    }


def cards(id: str, **said: Any) -> Any:
    health: dict[int, str] = said.pop("health", {})
    codes: dict[int, tuple[str, ...]] = said.pop("codes", {})
    events: dict[int, tuple[str, ...]] = said.pop("events", {})
    commands = {
        "npu-smi info": table(health, said.pop("silent", frozenset()), said.pop("bus", "NA")) + said.pop("end", "")
    }
    for npu in range(COUNT):
        commands |= pages(npu, health.get(npu, "OK"), codes.get(npu, ()), events.get(npu, ()))
    files = {f"/dev/davinci{npu}": "" for npu in range(COUNT)}
    files |= {"/usr/local/Ascend/driver/version.info": "Version=25.7.rc1\n"}
    return run_check(id, commands=commands, files=files, measures={"pci": []}, **said)


def test_the_codes_stand_on_the_page_of_the_npu() -> None:
    finding = only(cards("npu.health", health={2: "Alarm"}, codes={2: ("80E01801", "A8028001")}))
    assert (finding.subject, finding.evidence[1].source) == ("npu:2", "npu-smi info -t health -i 2")
    assert finding.evidence[1].actual == "80E01801, A8028001"


def test_active_fault_events_stand_in_for_codes_that_the_page_lacks() -> None:
    finding = only(cards("npu.health", health={1: "Warning"}, events={1: ("81AF8000", "80C98009")}))
    assert finding.evidence[1].actual == "81AF8000, 80C98009"


@pytest.mark.parametrize("bus", ["NA", "0000:91:00.0"])
def test_an_npu_that_answers_nothing_is_an_error(bus: str) -> None:
    finding = only(cards("npu.health", silent=frozenset({3}), bus=bus))
    assert (finding.subject, finding.code, finding.severity) == ("npu:3", "npu.health/no-answer", Severity.ERROR)


@pytest.mark.parametrize("id", ["npu.health", "npu.temperature", "npu.count", "driver.npu-smi"])
def test_healthy_npus_with_a_warning_below_the_table_are_well(id: str) -> None:
    assert cards(id, end=WARNING).status is Status.OK
