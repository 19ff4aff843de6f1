"""What npu-smi says of each chip by itself, asked in the forms that recordings hold."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from npudoctor import sim
from npudoctor.facts.npu_smi import Chip, NpuSmiInfo, per_chip
from npudoctor.facts.npu_smi.probes import npu_smi_answer
from npudoctor.host import Completed, Host
from npudoctor.host.recording.canned import FakeHost
from npudoctor.sdk import Because, NotApplicable, Options, Probe, Unavailable

DATA = Path(__file__).parent / "data"
ONE_EACH = NpuSmiInfo(npus=(Chip(npu_id=4, chip_id=0), Chip(npu_id=7, chip_id=0)))
TWO_EACH = NpuSmiInfo(npus=tuple(Chip(npu_id=npu, chip_id=chip) for npu in (0, 1) for chip in (0, 1)))
ECC = "\tNPU ID : {}\n\tHBM Single Bit Error Count : 0\n\tHBM Double Bit Error Count : 3\n\tChip ID : 0\n"
ASKED = {page.query: page.probe() for page in per_chip.PAGES}
PER_CHIP = {
    page.query: ASKED[page.query] for page in per_chip.PAGES if page.places is per_chip.chips and not page.shared
}
PER_CARD = {page.query: ASKED[page.query] for page in per_chip.PAGES if page.places is per_chip.npus}
EVERY = PER_CHIP | PER_CARD | {"ecc": ASKED["ecc"]}
SCENARIOS = ("seed-910b1", "healthy-a3", "healthy-910a", "duo-310p", "sick-cards", "in-service")


class Listening(FakeHost):
    """A host without a single answer that remembers what it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def run(self, argv: Sequence[str], *, timeout: float = 10.0) -> Completed:
        self.asked.append(" ".join(argv))
        return Completed(returncode=0, stdout="Command or option is not found.\n")


def ask(probe: Probe, host: Host, info: NpuSmiInfo = ONE_EACH, **options: Any) -> Any:
    return probe.function(host, Options(**options), info)


def asked(probe: Probe, info: NpuSmiInfo) -> list[str]:
    host = Listening()
    with pytest.raises(NotApplicable):
        ask(probe, host, info)
    return sorted(host.asked)


@pytest.mark.parametrize("query", PER_CHIP)
def test_a_chip_is_named_only_where_its_card_has_several(query: str) -> None:
    assert asked(PER_CHIP[query], ONE_EACH) == [f"npu-smi info -t {query} -i {npu}" for npu in (4, 7)]
    several = [f"npu-smi info -t {query} -i {npu} -c {chip}" for npu in (0, 1) for chip in (0, 1)]
    assert asked(PER_CHIP[query], TWO_EACH) == several


@pytest.mark.parametrize("query", PER_CARD)
def test_processes_and_the_bus_are_asked_once_a_card(query: str) -> None:
    assert asked(PER_CARD[query], TWO_EACH) == [f"npu-smi info -t {query} -i {npu}" for npu in (0, 1)]


def test_the_links_of_a_chip_are_asked_with_its_number_whatever_its_card() -> None:
    assert asked(ASKED["hccs"], ONE_EACH) == [f"npu-smi info -t hccs -i {npu} -c 0" for npu in (4, 7)]
    text = (DATA / "npu-smi-hccs/910B-seven-links.txt").read_text(encoding="utf-8")
    found = ask(ASKED["hccs"], FakeHost(commands={"npu-smi info -t hccs -i 4 -c 0": text}))
    assert found.by_subject["npu:4"].link_speed_gbps == (224,) * 7


def test_numbers_of_chips_are_asked_by_the_physical_one() -> None:
    with pytest.raises(NotApplicable, match="no physical chip ids"):
        ask(ASKED["phyid-remap"], FakeHost())
    info = NpuSmiInfo(npus=(Chip(npu_id=3, chip_id=0, phy_id=6),))
    commands = {"npu-smi info -t phyid-remap -p 6": (DATA / "npu-smi-phyid-remap/910.txt").read_text(encoding="utf-8")}
    assert ask(ASKED["phyid-remap"], FakeHost(commands=commands), info).by_subject["npu:3"].logic_id == 6


def test_the_flash_of_a_card_is_read() -> None:
    commands = {"npu-smi info -t flash -i 4": (DATA / "npu-smi-flash/two-chips.txt").read_text(encoding="utf-8")}
    found = ask(ASKED["flash"], FakeHost(commands=commands))
    assert [part.capacity_mb for part in found.by_subject["npu:4"].flash] == [32, 32]
    assert "npu:7" in found.failed


@pytest.mark.parametrize("query", EVERY)
def test_quick_asks_no_card_by_itself(query: str) -> None:
    with pytest.raises(NotApplicable, match="profile quick"):
        ask(EVERY[query], FakeHost(), profile="quick")


def test_a_page_that_fails_is_left_out_with_its_reason() -> None:
    commands: dict[str, str | Completed] = {
        "npu-smi info -t ecc -i 4": ECC.format(4),
        "npu-smi info -t ecc -i 7": Completed(returncode=1, stdout="Invalid card id.\n"),
    }
    found = ask(ASKED["ecc"], FakeHost(commands=commands))
    assert found.by_subject["npu:4"].hbm_double == 3
    assert found.failed == {"npu:7": "`npu-smi info -t ecc -i 7` failed: Invalid card id."}


def test_a_page_that_nobody_recorded_spoils_no_other() -> None:
    found = ask(ASKED["ecc"], FakeHost(commands={"npu-smi info -t ecc -i 4": ECC.format(4)}))
    assert list(found.by_subject) == ["npu:4"]
    assert "not in this recording" in found.failed["npu:7"]


@pytest.mark.parametrize(
    ("given", "because"),
    [
        (Completed(returncode=None, timed_out=True, seconds=10.0), Because.TIMED_OUT),
        (Completed(returncode=1, stdout="dcmi module initialize failed. ret is -8005\n"), Because.FAILED),
        (Completed(returncode=0, stdout="what is this?\n"), Because.FAILED),
        (Completed(returncode=0, stdout="This device does not support querying ecc.\n"), Because.NOT_APPLICABLE),
    ],
)
def test_where_no_card_answers_the_fact_is_unavailable_for_that_reason(given: Completed, because: Because) -> None:
    commands = {f"npu-smi info -t ecc -i {npu}": given for npu in (4, 7)}
    with pytest.raises(Unavailable) as caught:
        ask(ASKED["ecc"], FakeHost(commands=commands))
    assert caught.value.because is because


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_simulator_s_pages_are_read(name: str) -> None:
    host = sim.simulate(name)
    info = npu_smi_answer.function(host, Options()).info
    assert info is not None
    chips = len(info.npus)
    for query, probe in {**PER_CHIP, "ecc": ASKED["ecc"]}.items():
        found = ask(probe, host, info)
        assert (len(found.by_subject), found.failed) == (chips, {}), query
    errors = ask(ASKED["pcie-err"], host, info)
    assert {one.retry_count for page in errors.by_subject.values() for one in page.chips or (page,)} == {0}
    held = {subject: page.processes for subject, page in ask(ASKED["proc-mem"], host, info).by_subject.items()}
    assert {process.pid for processes in held.values() for process in processes} == {row.pid for row in info.processes}
    common = ask(ASKED["common"], host, info).by_subject.values()
    shown = [one.temp_c for page in common for one in page.chips if one.chip_id is not None]
    assert shown == [chip.temp_c for chip in info.npus]


BOTH = "\tNPU ID : {0}\n\tChip Count : 2\n" + "".join(
    f"\n\tHBM Single Bit Error Count : 0\n\tHBM Double Bit Error Count : {{{chip + 1}}}\n\tChip ID : {chip}\n"
    for chip in (0, 1)
)


def test_bit_errors_of_all_chips_of_a_card_come_with_one_question() -> None:
    host = FakeHost(commands={f"npu-smi info -t ecc -i {npu}": BOTH.format(npu, 0, npu) for npu in (0, 1)})
    found = ask(ASKED["ecc"], host, TWO_EACH)
    doubles = {subject: page.hbm_double for subject, page in found.by_subject.items()}
    assert doubles == {"npu:0/chip:0": 0, "npu:0/chip:1": 0, "npu:1/chip:0": 0, "npu:1/chip:1": 1}
    assert found.failed == {}


def test_a_page_of_one_chip_alone_makes_the_chips_be_asked_by_themselves() -> None:
    commands: dict[str, str | Completed] = {"npu-smi info -t ecc -i 0": BOTH.format(0, 5, 6)}
    commands["npu-smi info -t ecc -i 1"] = ECC.format(1)
    commands["npu-smi info -t ecc -i 1 -c 0"] = ECC.format(1)
    found = ask(ASKED["ecc"], FakeHost(commands=commands), TWO_EACH)
    assert {subject: page.hbm_double for subject, page in found.by_subject.items()} == {
        "npu:0/chip:0": 5,
        "npu:0/chip:1": 6,
        "npu:1/chip:0": 3,
    }
    assert list(found.failed) == ["npu:1/chip:1"]


CLOCK = "\tNPU ID : 4\n\tChip ID : 0\n\tAicore Freq(MHZ) : 1800\n\tAicore curFreq(MHZ) : 1200\n"


def test_only_the_clocks_of_chips_at_work_are_asked_for() -> None:
    info = NpuSmiInfo(npus=(Chip(npu_id=4, chip_id=0, aicore_pct=88), Chip(npu_id=7, chip_id=0, aicore_pct=0)))
    host = FakeHost(commands={"npu-smi info -t common -i 4": CLOCK})
    found = ask(per_chip.busy_clocks, host, info)
    assert (found.by_subject, found.failed) == ({"npu:4": (1800, 1200)}, {})
    with pytest.raises(NotApplicable, match="all chips are idle"):
        ask(per_chip.busy_clocks, FakeHost(), ONE_EACH)
    blank = CLOCK.replace("1800", "NA")
    with pytest.raises(NotApplicable, match="no AI Core clock"):
        ask(per_chip.busy_clocks, FakeHost(commands={"npu-smi info -t common -i 4": blank}), info)
