"""The process that asks the driver's library: what it may load, and what is left of it when the library goes wrong."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from npudoctor.findings import Because
from npudoctor.host import Completed, Unavailable
from npudoctor.host.live import library, reader
from npudoctor.host.live.local import LocalHost
from npudoctor.host.live.process_tree import children
from tests.fake_dcmi import answers, build
from tests.plain_user import ALICE, as_root, give
from tests.security.served import wait_for

pytestmark = pytest.mark.thorough
PLACE = "usr/local/Ascend/driver/lib64/driver"
Start = Callable[..., LocalHost]


@pytest.fixture(scope="module")
def a2() -> answers.Answers:
    return answers.of_scenario({"product": "atlas-800t-a2-910b3"})


@pytest.fixture
def node(fake_dcmi: build.Library, open_folder: Path) -> Iterator[Start]:
    """A host with the stub library below its root."""
    hosts: list[LocalHost] = []

    def start(said: answers.Answers, **more: Any) -> LocalHost:
        fake_dcmi.put(open_folder / PLACE, said.text(), **more)
        hosts.append(LocalHost(root=str(open_folder)))
        return hosts[-1]

    yield start
    for host in hosts:
        host.close()


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine must not make a question seem to hang."""
    monkeypatch.setattr(library, "CALL_S", 60.0)
    monkeypatch.setattr(library, "INIT_S", 60.0)


def running() -> set[int]:
    """The children of this process; one that was killed ends after a moment, and is then nobody's work."""
    found = set()
    for pid in children():
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z":
                found.add(pid)
    return found


def _rows(done: Completed) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def _told(done: Completed, name: str) -> dict[tuple[int, int | None], Any]:
    rows = [row for row in _rows(done) if row.get("tells") == name and row["rc"] == 0]
    return {(row["npu"], row["chip"]): row["value"] for row in rows}


def _lost(done: Completed) -> list[tuple[str | None, str]]:
    return [(row["lost"], row["how"]) for row in _rows(done) if "lost" in row]


def test_every_chip_is_asked_and_no_reader_is_left(node: Start, a2: answers.Answers) -> None:
    before = running()
    done = node(a2).ask_library(timeout=60.0)
    assert done.returncode == 0
    assert len(_told(done, "temperature")) == 8
    wait_for(lambda: running() <= before)


def test_it_is_asked_once(node: Start, a2: answers.Answers, open_folder: Path) -> None:
    host = node(a2)
    assert host.ask_library(timeout=60.0) is host.ask_library(timeout=60.0)
    calls = build.calls(open_folder / PLACE / build.NAME)
    assert sum(call.startswith("dcmi_init") for call in calls) == 1


def test_a_chip_that_hangs_is_lost_and_no_other_one(
    node: Start, a2: answers.Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "CALL_S", 3.0)  # the others take milliseconds, on a busy machine too
    done = node(a2.but("dcmi_get_device_temperature 3 0 hang")).ask_library(timeout=60.0)
    assert _lost(done) == [("temperature", "hang")]
    assert (3, 0) not in _told(done, "power")
    assert set(_told(done, "power")) == {(card, 0) for card in range(8) if card != 3}


@pytest.mark.parametrize(("fault", "how"), [("segv", "signal 11"), ("abort", "signal 6"), ("exit 3", "exit status 3")])
def test_a_question_that_crashes_is_lost_and_the_chip_is_asked_the_rest(
    node: Start, a2: answers.Answers, fault: str, how: str
) -> None:
    done = node(a2.but(f"dcmi_get_device_power_info 3 0 {fault}")).ask_library(timeout=60.0)
    assert _lost(done) == [("power", how)]
    assert set(_told(done, "hbm")) == {(card, 0) for card in range(8)}


@pytest.mark.parametrize("fault", ["segv", "hang"])
def test_an_initialisation_that_fails_ends_the_reading(
    node: Start, a2: answers.Answers, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    monkeypatch.setattr(library, "INIT_S", 1.0 if fault == "hang" else 60.0)
    done = node(a2.but(f"dcmi_init * * {fault}")).ask_library(timeout=60.0)
    assert done.returncode == 1
    assert len(_lost(done)) == 1
    assert not [row for row in _rows(done) if "npu" in row]


def test_a_slow_initialisation_takes_no_time_from_the_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    """On servers it asks the controller of every board; one that does not answer costs two seconds."""
    monkeypatch.setattr(library, "INIT_S", 20.0)
    monkeypatch.setattr(library, "CALL_S", 2.0)
    now = [100.0]
    monkeypatch.setattr(library, "time", SimpleNamespace(monotonic=lambda: now[0]))
    reading = library._Reading(library.Library(""), None, "", (), "", pages=False, timeout=10.0)
    loading, starting, asking = b'{"asks": "load"}\n', b'{"asks": "init"}\n', b'{"asks": "npus"}\n'
    assert reading._until_then(bytearray(loading)) == 120.0
    now[0] = 116.0
    assert reading._until_then(bytearray(loading + starting)) == 136.0
    assert reading._until_then(bytearray(loading + starting + asking)) == 118.0
    now[0] = 125.0
    assert reading._until_then(bytearray(asking)) == 126.0
    assert reading._until_then(bytearray(starting)) == 126.0  # a process that is started again


def test_what_the_library_starts_ends_with_it(
    node: Start, a2: answers.Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "INIT_S", 1.0)
    before = running()
    done = node(a2.but("dcmi_init * * child 600")).ask_library(timeout=60.0)
    assert done.returncode == 1
    wait_for(lambda: running() <= before)


def test_what_it_prints_is_no_answer(node: Start, a2: answers.Answers) -> None:
    noise = 'print {"tells": "health", "npu": 0, "chip": 0, "rc": 0, "value": 3}'
    done = node(a2.but(f"* * * {noise}")).ask_library(timeout=60.0)
    assert set(_told(done, "health").values()) == {0}


def test_a_symbol_that_is_missing_costs_that_answer_alone(node: Start, a2: answers.Answers) -> None:
    done = node(a2, without=("dcmi_get_device_chip_info_v2", "dcmi_get_device_temperature")).ask_library(timeout=60.0)
    assert [row["rc"] for row in _rows(done) if row.get("tells") == "temperature"] == [-99998] * 8
    assert {one["chip_name"] for one in _told(done, "chip_info").values()} == {"910B3"}


@pytest.mark.parametrize("change", ["grow 8", "shrink 4"])
def test_a_structure_of_another_size_does_no_harm(node: Start, a2: answers.Answers, change: str) -> None:
    done = node(a2.but(f"dcmi_get_device_ecc_info * * {change}")).ask_library(timeout=60.0)
    assert {one["double"] for one in _told(done, "ecc_hbm").values()} == {0}


def test_sixty_four_processes_fit(node: Start) -> None:
    said = answers.of_scenario({"product": "atlas-800t-a2-910b3"}, more_processes=64)
    done = node(said).ask_library(timeout=60.0)
    assert {len(one) for one in _told(done, "processes").values()} == {64}


def test_a_question_that_does_not_arise_is_not_asked_twice(node: Start, a2: answers.Answers, open_folder: Path) -> None:
    node(a2.but("dcmi_get_device_power_info 3 0 segv")).ask_library(timeout=60.0)
    calls = build.calls(open_folder / PLACE / build.NAME)
    refused = [call for call in calls if call.startswith("dcmi_get_device_info")]
    assert len(refused) == len(set(refused)) == 8
    assert not any("FORBIDDEN" in call for call in calls)


def test_an_a2_is_not_asked_for_ddr_that_it_lacks(node: Start, a2: answers.Answers, open_folder: Path) -> None:
    rows = [row for row in _rows(node(a2).ask_library(timeout=60.0)) if row.get("tells") == "memory"]
    assert [row["rc"] for row in rows] == [-8255] * 8
    calls = build.calls(open_folder / PLACE / build.NAME)
    assert not any(call.startswith("dcmi_get_device_memory_info_v3") for call in calls)


def test_faulty_addresses_are_asked_of_a_memory_that_the_chip_has(node: Start, a2: answers.Answers) -> None:
    asked = {row["tells"] for row in _rows(node(a2).ask_library(timeout=60.0)) if "tells" in row}
    assert {"ecc_hbm", "ecc_hbm_addresses", "ecc_ddr"} <= asked  # an 800T A2 has no DDR: -8255
    assert "ecc_ddr_addresses" not in asked


def test_a_library_that_is_none_says_why(open_folder: Path) -> None:
    place = open_folder / PLACE / build.NAME
    place.parent.mkdir(parents=True)
    place.write_text("no library", encoding="utf-8")
    done = LocalHost(root=str(open_folder)).ask_library(timeout=60.0)
    assert [row["rc"] for row in _rows(done) if "tells" in row] == [-99999]


def test_a_node_without_the_library_starts_nothing(open_folder: Path) -> None:
    with pytest.raises(Unavailable, match="is not installed"):
        LocalHost(root=str(open_folder)).ask_library()


@as_root
@pytest.mark.parametrize("part", [PLACE, "usr/local/Ascend", f"{PLACE}/{build.NAME}", f"{PLACE}/libc_sec.so"])
def test_what_another_user_can_write_is_not_loaded(
    node: Start, a2: answers.Answers, open_folder: Path, part: str
) -> None:
    host = node(a2)
    (open_folder / PLACE / "libc_sec.so").touch()
    give(open_folder / part, ALICE)
    with pytest.raises(Unavailable, match="is not loaded") as why:
        host.ask_library()
    assert why.value.because is Because.NO_RIGHT
    assert not build.calls(open_folder / PLACE / build.NAME)


@as_root
def test_a_link_of_another_user_is_not_followed(node: Start, a2: answers.Answers, open_folder: Path) -> None:
    host = node(a2)
    moved = open_folder / "moved"
    (open_folder / PLACE).rename(moved)
    (open_folder / PLACE).symlink_to("../../../../../../moved")
    os.chown(open_folder / PLACE, ALICE, ALICE, follow_symlinks=False)
    with pytest.raises(Unavailable, match="is not loaded"):
        host.ask_library()


def test_the_reader_has_an_environment_of_its_own(
    node: Start, a2: answers.Answers, monkeypatch: pytest.MonkeyPatch, open_folder: Path
) -> None:
    monkeypatch.setenv("LD_PRELOAD", "/nonexistent.so")
    monkeypatch.setenv("SSH_CLIENT", "192.0.2.1")
    assert node(a2).ask_library(timeout=60.0).returncode == 0
    variables = library.environment(library.Library(str(open_folder))._require_trusted("/usr/local/Ascend/driver")[1])
    assert set(variables) == {"PATH", "LD_LIBRARY_PATH", "HOME", "LANG", "LC_ALL"}
    lib64 = f"{open_folder}/usr/local/Ascend/driver/lib64"
    assert variables["LD_LIBRARY_PATH"] == f"{lib64}/driver:{lib64}"  # there is no lib64/common here


def test_a_folder_that_appears_after_it_was_judged_is_not_searched(
    node: Start, a2: answers.Answers, open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node(a2)
    place = library.Library(str(open_folder))
    planted = open_folder / "usr/local/Ascend/driver/lib64/common"
    judged = place._why_not

    def plant(path: str) -> str | None:
        planted.mkdir(exist_ok=True)
        return judged(path)

    monkeypatch.setattr(place, "_why_not", plant)
    _, folders = place._require_trusted("/usr/local/Ascend/driver")
    assert planted.is_dir()
    assert library.environment(folders)["LD_LIBRARY_PATH"] == f"{planted.parent}/driver:{planted.parent}"


def test_a_library_that_lacks_a_symbol_of_another_one_answers_all_the_same(open_folder: Path, node: Start) -> None:
    import shutil

    if shutil.which("gcc") is None:
        pytest.skip("there is no gcc")
    place = open_folder / PLACE
    place.mkdir(parents=True)
    source = (
        "int gone(void); int dcmi_init(void) { return 0; }"
        "int dcmi_get_card_list(int *n, int *list, int len) { (void)len; *n = 1; list[0] = 7; return 0; }"
        "int dcmi_get_device_num_in_card(int card, int *n) { (void)card; *n = 1; return 0; }"
        "int dcmi_get_device_temperature(int card, int device, int *t) { (void)card; (void)device; *t = 41; return 0; }"
        "int dcmi_get_device_power_info(int card, int device, int *w) { (void)card; (void)device; "
        "*w = gone(); return 0; }"
    )
    (open_folder / "x.c").write_text(source, encoding="utf-8")
    build_it = ["gcc", "-shared", "-fPIC", "-Wl,-z,lazy", str(open_folder / "x.c"), "-o", str(place / build.NAME)]
    subprocess.run(build_it, check=True, timeout=60.0)
    done = LocalHost(root=str(open_folder)).ask_library(timeout=60.0)
    assert _told(done, "temperature") == {(7, 0): 41}
    assert _lost(done) == [("power", "exit status 127")]


def test_closing_the_host_ends_a_reading(node: Start, a2: answers.Answers) -> None:
    import threading

    host = node(a2.but("dcmi_init * * hang"))
    found: list[Completed] = []
    reading = threading.Thread(target=lambda: found.append(host.ask_library(timeout=600.0)))
    reading.start()
    while host._library._running is None and reading.is_alive():
        reading.join(0.01)
    host.close()
    reading.join(60.0)
    assert not reading.is_alive()


def test_the_reader_runs_without_site_packages() -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {os.path.dirname(reader.PROGRAM)!r}); "
         "import read_dcmi; print(len(read_dcmi.to_json({'a': [1, None, 'ü\\n']})))"],
        capture_output=True, encoding="utf-8", check=False, timeout=60.0,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 0
