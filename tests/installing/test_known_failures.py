"""Each known failure of the vendor's installers ends with its cause named, and with what is different on the node."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from npudoctor.explain.causes import causes_in
from npudoctor.installing import run, state
from npudoctor.records import replace

from .known_failures import examples
from .node import Tree, caller, opened, package, step, tree


class Failing(Tree):
    """A node whose installer prints a text, may remove the old driver, and ends with an exit code; no process runs."""

    text = ""
    code = 1
    removes = False

    def start_apart(self, argv: Sequence[str], variable: str) -> None:
        folder = Path(variable.partition("=")[2]).parent
        (folder / "pid").write_text("1 1\n", encoding="utf-8")
        (folder / "log").write_text(f"[Driver] [2026-05-06 07:08:09] {self.text}\n", encoding="utf-8")
        if self.removes:
            for name in ("version.info", "tools/upgrade-tool"):
                Path(self.outside(f"/usr/local/Ascend/driver/{name}")).unlink()
        Path(self.outside(run.HANDS_OFF)).unlink()
        (folder / "code").write_text(f"{self.code}\n", encoding="utf-8")


@pytest.fixture(autouse=True)
def _brisk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "POLL_S", 0.0)


def failed(folder: Path, text: str, *, code: int = 1, removes: bool = False) -> tuple[str, list[str], list[str]]:
    tree(folder)
    host = Failing(root=str(folder))
    host.text, host.code, host.removes = text, code, removes
    driver = folder / "usr/local/Ascend/driver/tools"
    driver.mkdir(parents=True)
    (driver / "upgrade-tool").touch()
    (driver.parent / "version.info").write_text("Version=25.3.1\n", encoding="utf-8")
    one = step(host, package(folder, "driver", "25.5.2"), now_installed="25.3.1", way_back="driver-25.3.1.run in /old")
    journal, id = opened(host, [one])
    said: list[str] = []
    told = replace(caller(host, said), causes=causes_in)
    line = run.Installation(host, journal, id, told).go_on()
    ending = journal.document(id, state.ENDING)
    assert ending is not None
    return line, said, ending["different"]


@pytest.mark.parametrize("text", examples("driver", "run file", "user"))
def test_the_cause_is_named_and_the_node_is_as_it_was(tmp_path: Path, text: str) -> None:
    line, said, different = failed(tmp_path, text)
    assert line == "INTERRUPTED at step 1: its installer ended with exit code 1"
    assert any(one.startswith("  cause: ") for one in said)
    files = "not verified; the vendor's files and modules are as they were"
    assert different == [f"step 1, driver 25.5.2: {files}; way back: driver-25.3.1.run in /old"]


def test_what_an_upgrade_has_removed_is_named_file_by_file(tmp_path: Path) -> None:
    _, _, different = failed(tmp_path, "[ERROR]Driver_ko_install failed", removes=True)
    (said,) = different
    assert "it has changed /usr/local/Ascend/driver/tools/upgrade-tool " in said
    assert "/usr/local/Ascend/driver/version.info 25.3.1 → none; way back: driver-25.3.1.run in /old" in said


def test_exit_code_0_of_an_installer_that_did_nothing_is_a_failure(tmp_path: Path) -> None:
    text = "[ERROR]ERR_NO:0x0094;ERR_DES:Operation failed, An all-in-one RUN package is found"
    line, _, _ = failed(tmp_path, text, code=0)
    assert line.endswith("/usr/local/Ascend/driver/version.info names 25.3.1, not 25.5.2")
