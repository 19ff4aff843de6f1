"""What npu-smi answers, and what becomes of an answer that is none."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from npudoctor import sim
from npudoctor.facts.by_chip import PerChip
from npudoctor.facts.node.device_access import DeviceAccess
from npudoctor.facts.node.device_nodes import DeviceNode
from npudoctor.facts.npu_smi import Chip, NpuSmiInfo, parse_health, parse_info
from npudoctor.facts.npu_smi.per_chip import PROBES, HealthPages, health_pages
from npudoctor.facts.npu_smi.probes import (
    NpuSmiAnswer,
    npu_list,
    npu_map,
    npu_smi_answer,
    npu_smi_info,
    npu_smi_version,
    topology,
)
from npudoctor.facts.npu_smi.truncation import is_cut
from npudoctor.host import Completed
from npudoctor.host.recording.canned import FakeHost
from npudoctor.sdk import Because, NotApplicable, Options, ParseError, Unavailable, User

TABLE = """+-------------------------------------------------------------------------------------------+
| npu-smi 24.1.0                   Version: 24.1.0                                          |
+---------------------------+---------------+-----------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)      Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)   |
+===========================+===============+===============================================+
| 4     910B3               | OK            | 95.7        36           0    / 0             |
| 0                         | 0000:C1:00.0  | 0           0    / 0     3394 / 65536         |
+===========================+===============+===============================================+
| 5     910B3               | Alarm         | 96.7        37           0    / 0             |
| 0                         | 0000:C2:00.0  | 0           0    / 0     3397 / 65536         |
+===========================+===============+===============================================+
"""
BOARD = (
    "\tNPU ID                         : {}\n\tBoard ID : 0x64\n\tFirmware Version : 7.8.0.5.216\n\tCompatibility : OK\n"
)
ALARM = "\tHealth Status                  : Alarm\n\tError Code : 80E01801 0x81078603\n\tError Information : two\n"


def answer(given: str | Completed | None, **more: Any) -> NpuSmiAnswer:
    commands = {} if given is None else {"npu-smi info": given}
    found = npu_smi_answer.function(FakeHost(commands=commands, **more), Options())
    assert isinstance(found, NpuSmiAnswer)
    return found


def info() -> NpuSmiInfo:
    found = answer(TABLE).info
    assert found is not None
    return found


def test_a_table_is_an_answer() -> None:
    found = answer(Completed(returncode=0, stdout=TABLE, seconds=0.9))
    assert (found.found, found.reason, found.seconds) == (True, None, 0.9)
    assert found.info is not None and [chip.npu_id for chip in found.info.npus] == [4, 5]


def test_a_table_with_a_failing_exit_status_is_an_answer_all_the_same() -> None:
    assert answer(Completed(returncode=1, stdout=TABLE)).info is not None


@pytest.mark.parametrize(
    ("given", "because", "words"),
    [
        (None, Because.ABSENT, "npu-smi is not installed"),
        (Completed(returncode=None, timed_out=True, seconds=20.0), Because.TIMED_OUT, "did not answer within 10 s"),
        (Completed(returncode=1, stdout="dcmi module initialize failed. ret is -8005\n"), Because.FAILED, "-8005"),
        (Completed(returncode=-9), Because.FAILED, "ended by signal 9"),
        (Completed(returncode=3, stderr="boom\n"), Because.FAILED, "exit status 3: boom"),
        (Completed(returncode=3), Because.FAILED, "exit status 3: it printed nothing"),
        ("", Because.FAILED, "printed nothing"),
        ("hello\n", Because.FAILED, "unexpected output"),
        (Completed(returncode=0, stdout="x" * 99, truncated=True), Because.FAILED, "more than 8 MiB"),
    ],
)
def test_whatever_is_no_table_says_why(given: str | Completed | None, because: Because, words: str) -> None:
    found = answer(given)
    assert found.because is because
    assert found.reason is not None and words in found.reason
    with pytest.raises(Unavailable) as caught:
        npu_smi_info.function(found, None, None, Options(), sim.simulate("seed-910b1"))
    assert (caught.value.because, caught.value.reason) == (because, found.reason)


def test_a_tool_that_may_not_be_started_is_there_all_the_same() -> None:
    class Locked(FakeHost):
        def run(self, argv: Sequence[str], *, timeout: float = 10.0) -> Completed:
            raise Unavailable("/usr/bin/npu-smi cannot be started: Permission denied", because=Because.NO_RIGHT)

    found = npu_smi_answer.function(Locked(), Options())
    assert (found.found, found.because) == (True, Because.NO_RIGHT)
    assert found.reason == "/usr/bin/npu-smi cannot be started: Permission denied"


def test_a_call_that_was_not_recorded_is_no_failure_of_the_tool() -> None:
    with pytest.raises(Unavailable) as caught:
        npu_smi_answer.function(FakeHost(commands={"npu-smi -v": "npu-smi version: 24.1.0"}), Options())
    assert caught.value.because is Because.NOT_RECORDED


@pytest.mark.parametrize("denied", [True, False])
def test_a_failure_is_blamed_on_the_rights_only_where_they_are_denied(denied: bool) -> None:
    node = DeviceNode(path="/dev/davinci0", number=0)
    access = DeviceAccess(user=User(), nodes=(node,), denied=(node,) if denied else ())
    failed = answer(Completed(returncode=1, stdout="dcmi module initialize failed. ret is -8005\n"))
    with pytest.raises(Unavailable) as caught:
        npu_smi_info.function(failed, access, None, Options(), sim.simulate("seed-910b1"))
    assert caught.value.blocked_by == ("driver.access" if denied else None)


boards = PROBES["boards"]


def test_every_npu_s_board_is_asked_and_a_failing_one_left_out() -> None:
    commands: dict[str, str | Completed] = {
        "npu-smi info -t board -i 4": BOARD.format(4),
        "npu-smi info -t board -i 5": Completed(returncode=1, stdout="Invalid card id.\n"),
    }
    found = boards.function(FakeHost(commands=commands), Options(), info())
    assert isinstance(found, PerChip)
    assert [board.firmware_version for board in found.by_subject.values()] == ["7.8.0.5.216"]
    assert "Invalid card id" in found.failed["npu:5"]


def test_quick_asks_no_card_by_itself() -> None:
    for probe in (boards, health_pages):
        with pytest.raises(NotApplicable):
            probe.function(FakeHost(), Options(profile="quick"), info())


def test_only_chips_that_are_not_ok_are_asked_for_their_health() -> None:
    found = health_pages.function(FakeHost(commands={"npu-smi info -t health -i 5": ALARM}), Options(), info())
    assert isinstance(found, HealthPages)
    assert list(found.by_subject) == ["npu:5"]
    assert found.by_subject["npu:5"].error_codes == ("80E01801", "81078603")


def test_a_chip_of_several_is_asked_by_its_number() -> None:
    two = NpuSmiInfo(npus=(Chip(npu_id=2, chip_id=0, health="OK"), Chip(npu_id=2, chip_id=1, health="Warning")))
    found = health_pages.function(FakeHost(commands={"npu-smi info -t health -i 2 -c 1": ALARM}), Options(), two)
    assert list(found.by_subject) == ["npu:2/chip:1"]


@pytest.mark.parametrize(
    ("text", "health", "codes"),
    [
        ("\tHealth Status : OK\n\tError Code : NA\n\tError Information : NA\n", "OK", ()),
        ("NPU ID : 0\nHealth : OK\nError Code : NA\n", "OK", ()),
        ("Health Status : Alarm\nError Code : 80E3A203\n", "Alarm", ("80E3A203",)),
    ],
)
def test_health_pages_of_all_products_are_read(text: str, health: str, codes: tuple[str, ...]) -> None:
    page = parse_health(text)
    assert (page.health, page.error_codes) == (health, codes)


def test_another_page_is_no_health_page() -> None:
    with pytest.raises(ParseError):
        parse_health(BOARD.format(1))


def test_the_other_listings_are_read_and_refusals_are_not_applicable() -> None:
    host = FakeHost(
        commands={
            "npu-smi info -l": "\tTotal Count : 1\n\n\tNPU ID : 4\n\tChip Count : 1\n",
            "npu-smi info -m": "\tNPU ID    Chip ID   Chip Logic ID   Chip Name\n\t4    0   0   Ascend 910B3\n",
            "npu-smi -v": "npu-smi version: 24.1.0\n",
            "npu-smi info -t topo": "This device does not support querying topo.\n",
        }
    )
    assert npu_list.function(host, Options(), info()).total == 1
    assert npu_map.function(host, Options(), info()).rows[0].logic_id == 0
    assert npu_smi_version.function(host, Options(), info()).version == "24.1.0"
    with pytest.raises(NotApplicable):
        topology.function(host, Options(), info())


def test_a_listing_that_hangs_or_fails_says_so() -> None:
    for given, because in (
        (Completed(returncode=None, timed_out=True, seconds=10.0), Because.TIMED_OUT),
        (Completed(returncode=1, stdout="dcmi module initialize failed. ret is -8005\n"), Because.FAILED),
    ):
        with pytest.raises(Unavailable) as caught:
            topology.function(FakeHost(commands={"npu-smi info -t topo": given}), Options(), info())
        assert caught.value.because is because


# A text that ends too early

TABLES = sorted((Path(__file__).parent / "data/npu-smi-info").glob("*.txt"))


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_a_table_is_whole_and_every_cut_of_it_that_a_reader_could_see_is_seen(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    whole = parse_info("".join(lines))
    assert not is_cut("".join(lines), whole)
    for number in range(5, len(lines)):
        cut = "".join(lines[:number])
        with contextlib.suppress(ParseError):
            found = parse_info(cut)
            if len(found.npus) < len(whole.npus) and "|" in lines[number - 1]:
                assert is_cut(cut, found), f"cut after line {number}"


def test_a_copy_without_the_last_border_that_tells_of_every_npu_is_whole() -> None:
    text = (Path(__file__).parent / "data/npu-smi-info/910B-98.txt").read_text(encoding="utf-8")
    copied = text.rstrip().rpartition("\n")[0]
    assert not is_cut(copied, parse_info(copied))


def test_half_a_page_of_links_is_no_topology() -> None:
    rows = "\n".join(f"NPU{n} " + " ".join("X" if m == n else "HCCS" for m in range(4)) for n in range(2))
    commands = {"npu-smi info -t topo": f"     NPU0 NPU1 NPU2 NPU3 CPU Affinity\n{rows}\n"}
    with pytest.raises(Unavailable, match="an incomplete page: its matrix has 2 whole rows for 4 devices") as caught:
        topology(FakeHost(commands=commands), Options(), NpuSmiInfo())
    assert caught.value.because is Because.FAILED


WARNING = (
    "[WARNING]The driver package may not be completely installed, which may cause function abnormal. "
    "Please reinstall it.\n"
)


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_message_around_a_table_does_not_make_it_a_cut_one(path: Path, end: str) -> None:
    lines = path.read_text(encoding="utf-8").replace("\n", end).splitlines(keepends=True)
    whole = parse_info("".join(lines))
    for place in range(len(lines) + 1):
        text = "".join([*lines[:place], WARNING.replace("\n", end), *lines[place:], end * 3])
        found = parse_info(text)
        assert (found, is_cut(text, found)) == (whole, False), f"message before line {place + 1}"


def test_a_cut_table_stays_one_with_a_message_below_it() -> None:
    lines = (
        (Path(__file__).parent / "data/npu-smi-info/910B-98.txt").read_text(encoding="utf-8").splitlines(keepends=True)
    )
    for number in range(7, 12):
        text = "".join(lines[:number]) + WARNING
        assert is_cut(text, parse_info(text)) is ("|" in lines[number - 1])
