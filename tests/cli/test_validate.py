"""`npudoctor validate`: its rows on simulated nodes and on stub tools, its archive, and taking that in as samples."""

from __future__ import annotations

import argparse
import contextlib
import json
import tarfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from npudoctor.cli import main, node, validation_rows
from npudoctor.facts.parsers import KINDS
from npudoctor.host import TOOL_TIMEOUT_S, Completed
from npudoctor.host.forwarding import ForwardingHost
from npudoctor.host.live import library
from npudoctor.records import replace
from tests.facts import take_in
from tests.fake_dcmi import answers, build, nodes


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("validate") / "node.tar.gz"
    assert main(["validate", "--simulate", "healthy-a3", str(path), "--no-color"]) == 0
    return path


def member(archive: Path, name: str) -> bytes:
    with tarfile.open(archive) as tar:
        file = tar.extractfile(f"node/{name}")
        assert file is not None
        return file.read()


def rows_of(archive: Path) -> dict[str, dict[str, Any]]:
    data = json.loads(member(archive, "validation.json"))
    assert data["schema"] == validation_rows.SCHEMA
    return {row["id"]: row for row in data["rows"]}


def test_the_page_is_the_first_file_and_has_every_row(archive: Path) -> None:
    with tarfile.open(archive) as tar:
        assert tar.getnames()[0] == "node/README.txt"
    page = member(archive, "README.txt").decode()
    assert all(f"| {id} |" in page for id in rows_of(archive))


def test_a_healthy_simulated_node_differs_in_no_row(archive: Path) -> None:
    rows = rows_of(archive)
    assert {row["status"] for row in rows.values()} <= {"passed", "measured", "not run"}
    assert rows["parse.npu-smi-info"]["status"] == rows["chips.same"]["status"] == "passed"
    assert rows["smoke"]["status"] == rows["devices.opened"]["status"] == "not run"
    assert rows["check.time"]["status"] == "not run", "the tools' times are those of the scenario"


def test_without_the_library_the_rows_of_both_sources_say_why(archive: Path) -> None:
    rows = rows_of(archive)
    found = [rows[f"sources.{name}"] for name in ("checks", "values", "time")]
    assert {row["status"] for row in found} == {"not run"} and all(row["actual"] for row in found)
    assert rows["files.left"]["actual"] == "no new file"


def open_as(monkeypatch: pytest.MonkeyPatch, wrap: Callable[[Any], Any]) -> None:
    """Let the command open a host that is wrapped."""
    opened = node.open_node

    @contextlib.contextmanager
    def opening(args: argparse.Namespace, config: Any) -> Iterator[Any]:
        with opened(args, config) as host:
            yield wrap(host)

    monkeypatch.setattr(node, "open_node", opening)


IDENTIFYING = (
    "zhangsan", "lisi", "wangwu", "52:54:00:ab:cd:ef", "8a2e:370", "feab:cdef", "10.31.7.9", "hunter2", "gpu-node-77",
)  # fmt: skip
SAID = (
    "session opened for user zhangsan by lisi(uid=1003); /home/wangwu/run.sh; mac 52:54:00:ab:cd:ef; from "
    "2001:db8:85a3::8a2e:370:7334 fe80::5054:ff:feab:cdef 10.31.7.9 password=hunter2 ssh wangwu@gpu-node-77.corp"
)


def test_nothing_that_identifies_is_in_the_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Users of others, addresses and credentials in what every tool prints."""

    class Saying(ForwardingHost):
        def run(self, argv: Sequence[str], *, timeout: float = TOOL_TIMEOUT_S) -> Completed:
            done = super().run(argv, timeout=timeout)
            return replace(done, stdout=f"{done.stdout}\n{SAID}\n", stderr=f"{done.stderr}\n{SAID}\n")

    open_as(monkeypatch, Saying)
    path = tmp_path / "node.tar.gz"
    main(["validate", "--simulate", "sick-cards", str(path), "--no-color"])
    with tarfile.open(path) as tar:
        texts = {one.name: tar.extractfile(one) for one in tar if one.isfile()}
        read = {name: file.read().decode("utf-8", "replace") for name, file in texts.items() if file}
    assert any("session opened for user" in text for text in read.values()), "it was said"
    for name, text in read.items():
        assert not [word for word in IDENTIFYING if word in text], name


def with_library(
    fake_dcmi: build.Library, root: Path, monkeypatch: pytest.MonkeyPatch, told: answers.Answers
) -> dict[str, dict[str, Any]]:
    """The rows of a node whose driver has the stub library."""
    nodes.put(fake_dcmi, root, told)
    open_as(monkeypatch, lambda host: nodes.WithLibrary(host, root))
    for limit in ("CALL_S", "INIT_S"):
        monkeypatch.setattr(library, limit, nodes.PATIENT_S)  # a busy machine is no hang
    main(["validate", "--simulate", "healthy-a3", str(root / "node.tar.gz"), "--no-color"])
    return rows_of(root / "node.tar.gz")


def test_with_the_library_both_sources_are_compared(
    fake_dcmi: build.Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = with_library(fake_dcmi, tmp_path, monkeypatch, answers.of("healthy-a3"))
    assert {id: row["status"] for id, row in rows.items() if id.startswith("sources.")} == {
        "sources.checks": "passed",
        "sources.values": "passed",
        "sources.time": "measured",
    }
    assert rows["parse.npu-smi-info"]["status"] == "passed", "the tool is asked too"


def test_sources_that_disagree_differ(
    fake_dcmi: build.Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = with_library(fake_dcmi, tmp_path, monkeypatch, answers.of("sick-cards"))
    assert rows["sources.checks"]["status"] == rows["sources.values"]["status"] == "differs"
    assert "npu.health" in rows["sources.checks"]["actual"]
    assert rows["sources.values"]["actual"] != "none differs"


def test_the_archive_is_redacted_and_a_recording(archive: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(member(archive, "bundle.json"))["redacted"] is True
    assert main(["check", "--replay", str(archive), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["host"]["hostname"] == "host-1"


def test_with_consent_the_smoke_run_is_a_row(tmp_path: Path) -> None:
    path = tmp_path / "node.tar.gz"
    assert main(["validate", "--simulate", "healthy-a3", "--smoke", str(path)]) == 0
    assert rows_of(path)["smoke"]["status"] == "passed"


def test_an_output_that_no_parser_reads_differs() -> None:
    commands = {
        "npu-smi info": Completed(returncode=0, stdout="a table of next year\n"),
        "npu-smi info -t board -i 0": Completed(returncode=None, timed_out=True),
        "npu-smi info -t flash -i 0": Completed(returncode=1, stdout="This device does not support querying flash.\n"),
    }
    found = {row.id: row for row in validation_rows._outputs(commands)}
    assert {id: row.status for id, row in found.items()} == {
        "parse.npu-smi-info": "differs",
        "parse.npu-smi-board": "differs",
        "parse.npu-smi-flash": "not run",
    }
    assert "timed out" in found["parse.npu-smi-board"].actual


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("npu-smi info", "npu-smi-info"),
        ("npu-smi info -l", "npu-smi-list"),
        ("npu-smi info -m", "npu-smi-map"),
        ("npu-smi -v", "npu-smi-version"),
        ("npu-smi info -t usages -i 3 -c 1", "npu-smi-usages"),
        ("npu-smi info -t invented -i 3", None),
        ("hccn_tool -i 3 -net_health -g", "hccn-net-health"),
        ("hccn_tool", None),
        ("ip addr", None),
    ],
)
def test_a_command_has_the_parser_of_its_output(key: str, kind: str | None) -> None:
    assert validation_rows.kind_of(key) == kind
    assert kind is None or kind in KINDS


@pytest.mark.parametrize(
    ("stderr", "status"),
    [
        ("", "passed"),
        ("strace: Process 4242 attached\n", "passed"),
        ('[pid 4242] openat(AT_FDCWD, "/dev/davinci3", O_RDWR) = 7\n', "differs"),
    ],
)
def test_an_opened_device_node_differs(stderr: str, status: str) -> None:
    assert validation_rows.opened_row(Completed(returncode=0, stderr=stderr)).status == status
    assert validation_rows.opened_row(None, "no strace").status == "not run"


def test_what_a_node_says_cannot_break_the_table_of_the_page() -> None:
    assert validation_rows._cells("a|b", "c\nd\x1b[31m", 1) == "| a\\|b | c d\\x1b[31m | 1 |"


def test_an_archive_is_taken_in_as_samples_that_their_parsers_read(
    archive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert take_in.main([str(archive), "sim", "--into", str(tmp_path)]) == 0, "what the tools refused is no failure"
    written = sorted(path.parent.name for path in tmp_path.glob("*/sim.txt"))
    passed = {id.removeprefix("parse.") for id, row in rows_of(archive).items() if row["status"] == "passed"}
    assert set(written) == passed & set(KINDS)
    for path in tmp_path.glob("*/sim.txt"):
        said = take_in.without_nulls(KINDS[path.parent.name](path.read_text(encoding="utf-8")))
        assert json.loads(path.with_suffix(".json").read_text(encoding="utf-8")) == said
    (tmp_path / "npu-smi-info" / "sim.txt").write_text("mine", encoding="utf-8")
    take_in.main([str(archive), "sim", "--into", str(tmp_path)])
    assert (tmp_path / "npu-smi-info" / "sim.txt").read_text(encoding="utf-8") == "mine"


def test_the_target_must_be_an_archive(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "--simulate", "healthy-a3", "folder"]) == 2
    assert ".tar.gz" in capsys.readouterr().err
