"""Whatever the driver's library does, a check ends, leaves nothing running, and calls nothing OK that was not seen."""

from __future__ import annotations

import contextlib
import os
import re
import time
from pathlib import Path
from typing import Any

import pytest

from npudoctor import sim
from npudoctor.facts.dcmi import answer, pages
from npudoctor.host import Unavailable
from npudoctor.host.live import library as door
from tests.fake_dcmi import answers, build, interface, nodes

pytestmark = pytest.mark.thorough

SICK = "sick-cards"
TIMES = 20
GONE_S = 30.0
CODES = (
    *range(-8017, -8000),
    *(-8020, -8022, -8023, -8255, -99997, -99998, -99999),
    *(1, 0xFFFE),  # some calls pass on a code of the layer below them
)
WHOLE = {  # the library as a whole cannot be used, and npu-smi tells all
    "init refused": ["dcmi_init * * refuse -8005"],
    "init used by another": ["dcmi_init * * refuse -8020"],
    "segfault in init": ["dcmi_init * * segv"],
    "abort in the list": ["dcmi_get_card_list * * abort"],
    "silent list": ["dcmi_get_card_list * * silent"],
    "list without end": ["dcmi_get_card_list * * count 4000"],
    "negative list": ["dcmi_get_card_list * * count -1"],
    "junk": ["* * * junk"],
}
OF_ONE = {  # one call of one chip goes wrong: the chip that is sick, so that nobody calls it OK
    "health refused": ["dcmi_get_device_health 2 0 refuse -8012"],
    "health is junk": ["dcmi_get_device_health 2 0 junk"],
    "segfault": ["dcmi_get_device_health 2 0 segv"],
    "abort": ["dcmi_get_device_errorcode_v2 2 0 abort"],
    "exit without a word": ["dcmi_get_device_temperature 2 0 exit 0"],
    "two crashes": ["dcmi_get_device_health 2 0 segv", "dcmi_get_device_ecc_info 5 0 abort"],
    "every chip crashes": ["dcmi_get_device_ecc_info * * segv"],
    "codes without end": ["dcmi_get_device_errorcode_v2 2 0 count 4000"],
    "processes without end": ["dcmi_get_device_resource_info 2 0 count 100000"],
    "a negative count of processes": ["dcmi_get_device_resource_info 2 0 count -5"],
    "noise": ['* * * print {"tells": "health", "card": 2, "chip": 0, "rc": 0, "value": 0}'],
    "a longer structure": ["dcmi_get_device_ecc_info * * grow 8", "dcmi_get_device_hbm_info * * grow 64"],
    "a late answer": ["dcmi_get_device_power_info * * delay 20"],
}
HANGS = {
    "a chip hangs": ["dcmi_get_device_health 2 0 hang"],
    "two chips hang": ["dcmi_get_device_network_health 2 0 hang", "dcmi_get_device_ecc_info 5 0 hang"],
    "a chip hangs, another crashes": ["dcmi_get_device_power_info 2 0 hang", "dcmi_get_device_health 3 0 segv"],
}
LIBRARY_HANGS = {
    "init hangs": ["dcmi_init * * hang"],
    "init waits for a program": ["dcmi_init * * child 1000"],
    "every chip hangs": ["dcmi_get_device_temperature * * hang"],
    "the list hangs": ["dcmi_get_card_list * * hang"],
}


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What hangs is given up soon; a busy machine may then make a chip hang that does not."""
    monkeypatch.setattr(door, "CALL_S", 1.0)
    monkeypatch.setattr(door, "INIT_S", 3.0)


@pytest.fixture(scope="module")
def seen_by_npu_smi() -> dict[str, Any]:
    return nodes.judgements(nodes.known(sim.simulate(SICK))[0])


@pytest.fixture(scope="module")
def sick() -> answers.Answers:
    return answers.of(SICK)


def _running() -> list[str]:
    """The processes that a door of this process has started, and theirs: they have its mark."""
    mark = f"NPUDOCTOR_CALL={os.getpid()}.dcmi".encode()
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark in (place / "environ").read_bytes().split(b"\0"):
                found.append(f"{place.name} {(place / 'cmdline').read_bytes()!r}")
    return found


def _must_be_alone() -> None:
    until = time.monotonic() + GONE_S
    while (left := _running()) and time.monotonic() < until:
        time.sleep(0.05)
    assert left == []


def _checked(library: build.Library, root: Path, said: answers.Answers, **options: Any) -> Any:
    nodes.put(library, root, said, **options)
    report, facts = nodes.known(nodes.WithLibrary(sim.simulate(SICK), root))
    _must_be_alone()
    return nodes.judgements(report), facts


def _is_no_better(judged: dict[str, Any], than: dict[str, Any]) -> None:
    """Where a chip hangs nobody asks it again: a check may know less, and calls nothing OK that it does not know."""
    for check, (status, findings) in judged.items():
        said = than[check]
        lost = [one for one in said[1] if one not in findings]
        more = [one for one in findings if one not in said[1] and one[0] != "info"]
        assert status in (said[0], "skipped"), check
        assert status == "skipped" or not lost, check
        assert not more, check


def _calls(root: Path) -> list[str]:
    return build.calls(root / nodes.FOLDER / build.NAME)


@pytest.mark.parametrize("name", WHOLE)
def test_npu_smi_tells_what_a_broken_library_does_not(
    name: str, fake_dcmi: build.Library, sick: answers.Answers, seen_by_npu_smi: dict[str, Any], tmp_path: Path
) -> None:
    judged, facts = _checked(fake_dcmi, tmp_path, sick.but(*WHOLE[name]))
    assert judged == seen_by_npu_smi
    assert facts["node.chips"].source == "npu-smi"


@pytest.mark.parametrize("name", OF_ONE)
def test_one_bad_answer_changes_no_judgement(
    name: str, fake_dcmi: build.Library, sick: answers.Answers, seen_by_npu_smi: dict[str, Any], tmp_path: Path
) -> None:
    judged, _ = _checked(fake_dcmi, tmp_path, sick.but(*OF_ONE[name]))
    assert judged == seen_by_npu_smi


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("name", HANGS)
def test_a_chip_that_hangs_is_not_asked_again(
    name: str, fake_dcmi: build.Library, sick: answers.Answers, seen_by_npu_smi: dict[str, Any], tmp_path: Path
) -> None:
    judged, _ = _checked(fake_dcmi, tmp_path, sick.but(*HANGS[name]))
    _is_no_better(judged, seen_by_npu_smi)
    asked = _calls(tmp_path)
    assert "hangs" in asked
    hung = asked[asked.index("hangs") - 1].split(" ")[1]
    later = asked[asked.index("hangs") :]
    assert [
        call for call in later if re.match(rf"dcmi_get_device_(?!num_in_card|id_in_card)\w+ {hung} 0\b", call)
    ] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", [*WHOLE, *OF_ONE])
def test_every_fault_ends_the_same_way_each_time(
    name: str, fake_dcmi: build.Library, sick: answers.Answers, seen_by_npu_smi: dict[str, Any], tmp_path: Path
) -> None:
    for number in range(TIMES):
        judged, _ = _checked(fake_dcmi, tmp_path / str(number), sick.but(*(WHOLE | OF_ONE)[name]))
        assert judged == seen_by_npu_smi


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("name", HANGS)
def test_every_chip_that_hangs_is_left_each_time(
    name: str, fake_dcmi: build.Library, sick: answers.Answers, seen_by_npu_smi: dict[str, Any], tmp_path: Path
) -> None:
    for number in range(TIMES):
        judged, _ = _checked(fake_dcmi, tmp_path / str(number), sick.but(*HANGS[name]))
        _is_no_better(judged, seen_by_npu_smi)


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("name", LIBRARY_HANGS)
def test_a_library_that_hangs_is_left_each_time(
    name: str, fake_dcmi: build.Library, sick: answers.Answers, seen_by_npu_smi: dict[str, Any], tmp_path: Path
) -> None:
    """The table of chips then is npu-smi's; where every chip hangs, their errors of memory were not seen at all."""
    for number in range(TIMES):
        judged, facts = _checked(fake_dcmi, tmp_path / str(number), sick.but(*LIBRARY_HANGS[name]))
        _is_no_better(judged, seen_by_npu_smi)
        assert facts["node.chips"].source == "npu-smi"
        seen = {check for check, judgement in judged.items() if judgement == seen_by_npu_smi[check]}
        assert judged.keys() - seen <= ({"npu.ecc"} if name == "every chip hangs" else set())


def _asked(library: build.Library, root: Path, said: answers.Answers, **options: Any) -> answer.LibraryAnswer:
    """What one question to the library gives, without a check around it."""
    nodes.put(library, root, said, **options)
    said_by = door.Library(str(root)).ask("/usr/local/Ascend/driver", pages=True, timeout=nodes.PATIENT_S)
    found = answer.parse(said_by.stdout)
    _must_be_alone()
    return found


@pytest.mark.parametrize("code", CODES)
def test_a_chip_whose_health_is_refused_is_not_ok(
    code: int, fake_dcmi: build.Library, sick: answers.Answers, tmp_path: Path
) -> None:
    found = _asked(fake_dcmi, tmp_path, sick.but(f"dcmi_get_device_health 2 0 refuse {code}"))
    chip = found.chip("npu:2")
    assert chip is not None
    assert chip.refused["health"] == code
    assert pages.health(chip) is None
    with pytest.raises(Unavailable):
        pages.table(found)
    assert pages.health(found.chips[3]) is not None


def test_functions_that_an_older_library_lacks_are_no_ok(
    fake_dcmi: build.Library, sick: answers.Answers, seen_by_npu_smi: dict[str, Any], tmp_path: Path
) -> None:
    without = ("dcmi_get_device_health", "dcmi_get_device_ecc_info", "dcmi_get_device_chip_info_v2")
    judged, _ = _checked(fake_dcmi, tmp_path, sick, without=without)
    assert judged == seen_by_npu_smi


def test_a_library_without_any_function_is_none(
    fake_dcmi: build.Library, sick: answers.Answers, seen_by_npu_smi: dict[str, Any], tmp_path: Path
) -> None:
    judged, facts = _checked(fake_dcmi, tmp_path, sick, without=tuple(interface.load()["functions"]))
    assert judged == seen_by_npu_smi
    assert facts["node.chips"].source == "npu-smi"


def test_only_what_reads_is_called(fake_dcmi: build.Library, tmp_path: Path) -> None:
    forbidden = set(interface.load()["never_call"])
    for number, name in enumerate(("seed-910b1", "healthy-a3", "duo-310p", "healthy-910a")):
        _asked(fake_dcmi, tmp_path / str(number), answers.of(name))
        asked = {call.split(" ")[0] for call in _calls(tmp_path / str(number))}
        assert asked
        assert not asked & (forbidden | {"FORBIDDEN"})


def test_v2_is_tried_only_where_v1_says_that_it_is_not_for_this_chip(
    fake_dcmi: build.Library, sick: answers.Answers, tmp_path: Path
) -> None:
    _asked(fake_dcmi, tmp_path / "v1", sick)
    assert not [call for call in _calls(tmp_path / "v1") if call.startswith("dcmiv2")]
    _asked(fake_dcmi, tmp_path / "refused", sick.but("dcmi_init * * refuse -8005"))
    assert not [call for call in _calls(tmp_path / "refused") if call.startswith("dcmiv2")]
    found = _asked(fake_dcmi, tmp_path / "v2", answers.as_950(sick))
    assert found.api == "v2"
    assert len(found.chips) == 8
    assert {call.split("_")[0] for call in _calls(tmp_path / "v2")[1:]} == {"dcmiv2"}


def test_controllers_and_processors_are_no_chips(fake_dcmi: build.Library, tmp_path: Path) -> None:
    found = _asked(fake_dcmi, tmp_path, answers.of("healthy-a3", cpus=True))
    assert [(one.npu_id, one.chip_id) for one in found.chips] == [(card, chip) for card in range(8) for chip in (0, 1)]


def test_64_processes_are_64(fake_dcmi: build.Library, tmp_path: Path) -> None:
    found = _asked(fake_dcmi, tmp_path, answers.of("seed-910b1", more_processes=64))
    assert [len(one.told["processes"]) for one in found.chips] == [64] * 8


def test_a_lost_card_is_counted(fake_dcmi: build.Library, tmp_path: Path) -> None:
    said = {"product": "atlas-800t-a3", "card": [{"id": 3, "chip": 1, "missing": ["npu-smi"]}]}
    found = _asked(fake_dcmi, tmp_path, answers.of_scenario(said))
    assert found.lost_npus == 1
    assert len(found.chips) == 14


def test_a_silent_chip_is_not_ok_and_its_neighbours_are(fake_dcmi: build.Library, tmp_path: Path) -> None:
    said = {"product": "atlas-800t-a2-910b3", "card": [{"id": 2, "silent": True}]}
    found = _asked(fake_dcmi, tmp_path, answers.of_scenario(said))
    words = [None if (page := pages.health(one)) is None else page.health for one in found.chips]
    assert words == ["OK", "OK", None, *["OK"] * 5]
