"""A library that nobody here knows: it numbers as it likes, and disturbs the process that loads it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from npudoctor.facts.dcmi import answer, pages
from npudoctor.host import Unavailable
from npudoctor.host.live import library as door
from tests.fake_dcmi import build, nodes
from tests.security.served import wait_for

SOURCE = Path(__file__).with_name("foreign.c")
DISTURBS = (
    *("reads stdin", "starts what reads stdin", "leaves processes", "ignores signals", "prints from threads"),
    *("leaves its session", "changes its process", "counts in 64 bits"),
)
SECRETIVE = ("does not know its units", "refuses its units")


def _asked(root: Path, mode: str) -> answer.LibraryAnswer:
    if missing := build.missing_tools():
        pytest.skip(f"not installed: {', '.join(missing)}")
    place = root / nodes.FOLDER
    place.mkdir(parents=True)
    said = (f'-DMODE="{mode}"', f'-DPIDS="{root / "pids"}"')
    target = str(place / build.NAME)
    subprocess.run(["gcc", "-shared", "-fPIC", *said, str(SOURCE), "-o", target, "-lpthread"], check=True)
    told = door.Library(str(root)).ask("/usr/local/Ascend/driver", pages=True, timeout=nodes.PATIENT_S)
    return answer.parse(told.stdout)


def _is_running(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("mode", DISTURBS)
def test_a_library_that_disturbs_its_process_is_read_and_leaves_nothing(mode: str, tmp_path: Path) -> None:
    found = _asked(tmp_path, mode)
    told = [(one.npu_id, one.chip_id, one.told["phy_id"], one.told["health"]) for one in found.chips]
    assert told == [(7, 0, 0, 0), (3, 0, 4, 2), (100663296, 0, 6, 0), (1, 0, 2, 0)]
    assert found.problem is None
    pids = (tmp_path / "pids").read_text(encoding="ascii").split() if mode == "leaves processes" else ()
    assert len(pids) == (4 if mode == "leaves processes" else 0)
    wait_for(lambda: not any(map(_is_running, pids)))


@pytest.mark.parametrize("mode", SECRETIVE)
def test_units_of_which_the_library_does_not_tell_the_kind_are_no_chips(mode: str, tmp_path: Path) -> None:
    found = _asked(tmp_path, mode)
    assert "npu:7" in (found.problem or "")
    with pytest.raises(Unavailable, match="npu:7"):
        pages.table(found)


def test_a_library_that_closes_the_descriptors_of_its_process_is_left(tmp_path: Path) -> None:
    found = _asked(tmp_path, "closes descriptors")
    assert found.chips == ()
    assert found.problem


def test_a_loaded_library_has_the_whole_time_of_its_initialisation() -> None:
    """Between the word that it is loaded and the word that it is initialised now, its time must not be another."""
    reading = door._Reading(door.Library("/"), None, "", ("",), "", pages=True, timeout=1.0)
    for line in ('{"tells": "load", "rc": 0}\n', '{"asks": "init"}\n', '{"tells": "init", "rc": -8255}\n'):
        reading._until_then(bytearray(line, "ascii"))
        assert reading._limit_s == 2.0
    reading._until_then(bytearray(b'{"asks": "npus"}\n'))
    assert reading._limit_s == 1.0
