"""The stub libdcmi.so: it answers as the scenario says, and goes wrong as it is told."""

from __future__ import annotations

import json
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fake_dcmi import answers, build, interface

ASK = Path(__file__).with_name("ask.py")
INIT = ["dcmi_init"]
TEMPERATURE = ["dcmi_get_device_temperature", 2, 0, [4]]
HBM_OF_2 = ["dcmi_get_device_hbm_info", 2, 0, [64]]
ENDS_S = 60.0

Ask = Callable[..., Any]


@pytest.fixture
def ask(fake_dcmi: build.Library, tmp_path: Path) -> Ask:
    """Ask a library with some answers some calls; without results, how its process ended and what it printed."""

    def run(said: answers.Answers, *calls: list[Any], results_of: bool = True, without: tuple[str, ...] = ()) -> Any:
        library = fake_dcmi.put(tmp_path / "lib", said.text(), without=without)
        (tmp_path / "calls.json").write_text(json.dumps(calls), encoding="utf-8")
        argv = [sys.executable, "-I", str(ASK), str(library), str(tmp_path / "calls.json"), str(tmp_path / "results")]
        done = subprocess.run(argv, capture_output=True, encoding="utf-8", check=False, timeout=ENDS_S)
        if not results_of:
            return done
        assert done.returncode == 0, done.stderr
        return json.loads((tmp_path / "results").read_text(encoding="utf-8"))

    return run


@pytest.fixture(scope="module")
def a2() -> answers.Answers:
    return answers.of_scenario({"product": "atlas-800t-a2-910b3"})


def _number(hexed: str) -> int:
    return int.from_bytes(bytes.fromhex(hexed)[:4], "little", signed=True)


def test_a_chip_answers_what_npu_smi_shows(ask: Ask, a2: answers.Answers) -> None:
    results = ask(a2, INIT, ["dcmi_get_card_list", [4], [256], 64], TEMPERATURE, HBM_OF_2)
    assert [one[0] for one in results] == [0, 0, 0, 0]
    assert _number(results[1][1]) == 8
    assert struct.unpack_from("<8i", bytes.fromhex(results[1][2])) == tuple(range(8))
    assert _number(results[2][1]) == 42
    total, mhz, used, celsius = struct.unpack_from("<QIxxxxQi", bytes.fromhex(results[3][1]))
    assert (total, mhz, used, celsius) == (65536, 1600, 3403, 46)


def test_what_a_family_has_not_is_refused(ask: Ask, a2: answers.Answers) -> None:
    calls = (["dcmi_get_device_memory_info_v3", 0, 0, [256]], ["dcmi_get_device_utilization_rate", 0, 0, 1, [4]])
    assert [one[0] for one in ask(a2, INIT, *calls)[1:]] == [answers.NOT_SUPPORTED] * 2
    unknown = ask(a2, INIT, ["dcmi_get_device_temperature", 9, 0, [4]], ["dcmi_get_device_temperature", 0, 3, [4]])
    assert [one[0] for one in unknown[1:]] == [-8001, -8001]


def test_a_list_or_a_text_that_is_too_short_is_not_written(ask: Ask, a2: answers.Answers) -> None:
    results = ask(a2, INIT, ["dcmi_get_card_list", [4], [256], 7], ["dcmi_get_driver_version", [64], 3])
    assert [one[0] for one in results[1:]] == [-8001, -8004]
    assert not any(bytes.fromhex(results[2][1]))


def test_the_size_of_a_buffer_without_a_type_must_be_exact(ask: Ask) -> None:
    said = answers.of("healthy-a3")
    results = ask(said, INIT, ["dcmi_get_device_info", 0, 0, 12, 1, [64], [4]])
    assert results[1][0] == -8001  # the size was zero


def test_before_init_the_library_says_so_or_says_nothing(ask: Ask, a2: answers.Answers) -> None:
    results = ask(a2, ["dcmi_get_device_type", 0, 0, [4]], ["dcmi_get_card_list", [4], [256], 64], TEMPERATURE)
    assert [one[0] for one in results] == [0, -8005, -8255]
    assert _number(results[0][1]) == 255


def test_asking_for_v2_spoils_a_good_v1(ask: Ask, a2: answers.Answers) -> None:
    results = ask(a2, INIT, ["dcmiv2_init"], TEMPERATURE, ["dcmi_get_card_list", [4], [256], 64])
    assert [one[0] for one in results] == [0, -8255, -8001, 0]
    assert _number(results[3][1]) == 0


def test_a_950_answers_v2_alone(ask: Ask, a2: answers.Answers) -> None:
    calls = (["dcmiv2_get_device_list", [256], [4], 64], ["dcmiv2_get_device_temperature", 2, [4]])
    results = ask(
        answers.as_950(a2), INIT, ["dcmiv2_init"], *calls, ["dcmiv2_get_device_chip_info", 2, [256]], TEMPERATURE
    )
    assert [one[0] for one in results] == [-8255, 0, 0, 0, 0, -8255]
    assert (_number(results[2][2]), _number(results[3][1])) == (8, 42)
    assert bytes.fromhex(results[4][1])[32:64].rstrip(b"\0") == b"Ascend950PR"


def test_a_lost_card_is_listed_without_a_number(ask: Ask) -> None:
    said = answers.of_scenario({"product": "atlas-800t-a3", "card": [{"id": 3, "chip": 1, "missing": ["npu-smi"]}]})
    results = ask(said, INIT, ["dcmi_get_card_list", [4], [256], 64], ["dcmi_get_device_num_in_card", -1, [4]])
    listed = struct.unpack_from("<8i", bytes.fromhex(results[1][2]))
    assert listed == (0, 1, 2, 4, 5, 6, 7, -1)
    assert results[2][0] == 0
    assert _number(results[2][1]) == 0


def test_controllers_and_processors_stand_behind_the_chips(ask: Ask) -> None:
    said = answers.of("healthy-a3", cpus=True)
    kinds = [["dcmi_get_device_type", 0, device, [4]] for device in range(4)]
    results = ask(said, INIT, ["dcmi_get_device_id_in_card", 0, [4], [4], [4]], *kinds)
    assert [_number(one) for one in results[1][1:]] == [2, 2, 3]
    assert [_number(one[1]) for one in results[2:]] == [0, 0, 1, 2]


def test_a_silent_chip_times_out_where_its_neighbour_answers(ask: Ask) -> None:
    said = answers.of_scenario({"product": "atlas-800t-a2-910b3", "card": [{"id": 2, "silent": True}]})
    other = ["dcmi_get_device_temperature", 3, 0, [4]]
    assert [one[0] for one in ask(said, INIT, TEMPERATURE, other, ["dcmi_get_device_type", 2, 0, [4]])] == [
        0,
        -8006,
        0,
        0,
    ]


def test_there_can_be_64_processes_on_a_chip(ask: Ask) -> None:
    said = answers.of_scenario({"product": "atlas-800t-a2-910b3"}, more_processes=64)
    results = ask(said, INIT, ["dcmi_get_device_resource_info", 2, 0, [2048], [4]])
    assert _number(results[1][2]) == 64
    assert struct.unpack_from("<ixxxxQ", bytes.fromhex(results[1][1]), 63 * 16) == (700063, 1 << 20)


@pytest.mark.parametrize(
    ("kind", "ended"),
    [("segv", -signal.SIGSEGV), ("abort", -signal.SIGABRT), ("exit 3", 3)],
)
def test_a_call_can_end_the_process(ask: Ask, a2: answers.Answers, kind: str, ended: int) -> None:
    said = a2.but(f"dcmi_get_device_temperature 2 0 {kind}")
    assert ask(said, INIT, ["dcmi_get_device_temperature", 1, 0, [4]], results_of=False).returncode == 0
    assert ask(said, INIT, TEMPERATURE, results_of=False).returncode == ended


def test_a_call_can_hang_until_it_is_killed(fake_dcmi: build.Library, a2: answers.Answers, tmp_path: Path) -> None:
    library = fake_dcmi.put(tmp_path / "lib", a2.but("dcmi_get_device_temperature * * hang").text())
    (tmp_path / "calls.json").write_text(json.dumps([INIT, TEMPERATURE]), encoding="utf-8")
    argv = [sys.executable, "-I", str(ASK), str(library), str(tmp_path / "calls.json"), str(tmp_path / "results")]
    with subprocess.Popen(argv) as process:
        while build.calls(library)[2:] != ["hangs"]:
            assert process.poll() is None
            time.sleep(0.01)
        process.terminate()
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=0.2)
        process.kill()
    assert process.returncode == -signal.SIGKILL


def test_a_call_can_print(ask: Ask, a2: answers.Answers) -> None:
    said = a2.but("dcmi_get_device_temperature * * print a word of the driver")
    assert ask(said, INIT, TEMPERATURE, results_of=False).stdout == "a word of the driver\n"


@pytest.mark.parametrize(
    ("fault", "call", "code", "first"),
    [
        ("dcmi_get_device_temperature 2 * refuse -8012", TEMPERATURE, -8012, 0),
        ("* * * silent", TEMPERATURE, 0, 0),
        ("dcmi_get_device_temperature * * junk", TEMPERATURE, 0, 0x7FFFFFFF),
        ("dcmi_get_device_temperature * * delay 5", TEMPERATURE, 0, 42),
        ("dcmi_get_device_hbm_info * * shrink 28", HBM_OF_2, 0, 65536),
        ("dcmi_get_card_list * * count 4000", ["dcmi_get_card_list", [4], [256], 64], 0, 4000),
        ("dcmi_get_device_resource_info * * count -1", ["dcmi_get_device_resource_info", 2, 0, [2048], [4]], 0, 0),
    ],
)
def test_a_fault_meets_its_call(
    ask: Ask, a2: answers.Answers, fault: str, call: list[Any], code: int, first: int
) -> None:
    result = ask(a2.but(fault), INIT, call)[1]
    assert result[0] == code
    assert _number(result[1]) == first


def test_a_newer_structure_is_written_in_its_length(ask: Ask, a2: answers.Answers) -> None:
    said = a2.but("dcmi_get_device_ecc_info * * grow 8")
    result = ask(said, INIT, ["dcmi_get_device_ecc_info", 2, 0, 2, [64]])[1]
    assert bytes.fromhex(result[1])[26:38] == b"\0\0" + b"\x5a" * 8 + b"\0\0"


def test_init_fails_as_npu_smi_does(ask: Ask, a2: answers.Answers) -> None:
    done = ask(a2.but(init=-8005), INIT, TEMPERATURE, results_of=False)
    assert done.stdout == "DrvMngGetConsoleLogLevel failed. (g_conLogLevel=3)\n"
    refused = {
        fault: answers.of_scenario({"product": "atlas-800t-a2-910b3", "driver": {"fault": fault}})
        for fault in ("no-device", "device-used", "hang", "crash")
    }
    assert [one.init for one in refused.values()] == [-8005, -8020, 0, 0]
    assert [one.faults for one in refused.values()][2:] == [("dcmi_init * * hang",), ("dcmi_init * * segv",)]


def test_functions_can_be_missing(ask: Ask, a2: answers.Answers) -> None:
    without = ("dcmi_get_device_temperature", "dcmi_get_device_hbm_info")
    results = ask(a2, INIT, TEMPERATURE, HBM_OF_2, ["dcmi_get_device_health", 2, 0, [4]], without=without)
    assert results[1:3] == [None, None]
    assert results[3][0] == 0
    assert ask(a2, *([name] for name in without)) != [None, None]


def test_what_changes_a_card_ends_the_process_and_is_noted(ask: Ask, a2: answers.Answers, tmp_path: Path) -> None:
    name = interface.load()["never_call"][0]
    assert ask(a2, INIT, [name], results_of=False).returncode == -signal.SIGABRT
    assert build.calls(tmp_path / "lib" / build.NAME)[-2:] == ["FORBIDDEN", name]


def test_answers_can_change_while_a_library_is_open(
    fake_dcmi: build.Library, a2: answers.Answers, tmp_path: Path
) -> None:
    library = fake_dcmi.put(tmp_path / "lib", a2.text())
    warmer = a2.saying("dcmi_get_device_temperature", 2, 0, temperature=88).text()
    code = (
        "import ctypes, sys; from tests.fake_dcmi import build; from pathlib import Path\n"
        "library = ctypes.CDLL(sys.argv[1]); library.dcmi_init(); value = ctypes.c_int()\n"
        "def ask(): library.dcmi_get_device_temperature(2, 0, ctypes.byref(value)); print(value.value)\n"
        "ask(); build.tell(Path(sys.argv[1]), sys.stdin.read()); ask()\n"
    )
    argv = [sys.executable, "-c", code, str(library)]
    done = subprocess.run(
        argv,
        input=warmer,
        capture_output=True,
        encoding="utf-8",
        check=True,
        cwd=Path(__file__).parents[2],
        timeout=ENDS_S,
    )
    assert done.stdout.split() == ["42", "88"]


def test_the_interface_is_that_of_the_table(shared: Path) -> None:
    table = shared / "knowledge/dcmi-abi.json"
    if not table.exists():
        pytest.skip("../shared has no dcmi-abi.json")
    assert interface.extract(json.loads(table.read_text(encoding="utf-8"))) == interface.load()
