"""What a person and a script see of a smoke run, and the stream of events as the command prints it."""

import json
from pathlib import Path

import pytest

from npudoctor.cli import main
from npudoctor.data import to_json
from npudoctor.models import adapter
from npudoctor.report import smoke as page
from npudoctor.report.text import Look
from npudoctor.smoke import events
from npudoctor.smoke.events import SmokeReport

DATA = Path(__file__).parent / "data"


def report_of(name: str) -> SmokeReport:
    last = events.read((DATA / name).read_text(encoding="utf-8").splitlines()[-1])
    assert isinstance(last, events.Done)
    return last.report


def test_the_page_has_a_row_a_rank_the_loss_and_the_bandwidth() -> None:
    text = page.render(report_of("two-ranks.jsonl"))
    assert text.startswith("✔ PASS: 2 ranks, ")
    rows = [line.split() for line in text.splitlines()]
    assert [row[1] for row in rows if row[:1] == ["✔"] and len(row) > 2 and row[2] == "cpu"] == ["0", "1"]
    assert "█" in next(line for line in text.splitlines() if line.startswith("  loss"))
    assert any(row[:2] == ["2", "MiB"] for row in rows)
    assert "✔ smoke.training" in text


def test_a_broken_run_names_the_rank_first() -> None:
    text = page.render(report_of("rank-exits.jsonl"), look=Look(width=100))
    assert " ".join(text.split()).startswith("✖ FAIL: 2 ranks, 5 of 9 stages; rank 1 exited with status 3 in training")
    assert "failed in training" in text


@pytest.mark.parametrize("width", [40, 80, 120])
def test_it_keeps_to_ascii_where_the_terminal_has_nothing_else(width: int) -> None:
    assert page.render(report_of("rank-exits.jsonl"), look=Look(width=width, unicode=False)).isascii()


def test_curves() -> None:
    assert page.sparkline([0.0, 7.0, None]) == "▁█x"
    assert page.sparkline([]) == ""
    assert page.sparkline([1.0, 1.0]) == "▁▁"
    assert len(page.sparkline(list(range(1000)), width=50)) == 50


def test_the_report_validates_against_its_schema() -> None:
    text = to_json(report_of("two-ranks.jsonl"))
    assert json.loads(text)["schema"] == "npudoctor.smoke/1"
    assert adapter(SmokeReport).validate_json(text) == report_of("two-ranks.jsonl")


def test_the_schema_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "smoke"]) == 0
    schema = json.loads(capsys.readouterr().out)
    assert set(json.loads(to_json(report_of("two-ranks.jsonl")))) <= set(schema["properties"])


def test_the_headline_counts_ranks_and_the_stages_that_ran() -> None:
    report = report_of("two-ranks.jsonl")
    skipped = sum(result.status.value == "skipped" for result in report.results)
    total = len(report.results)
    assert page.render(report).splitlines()[0] == f"✔ PASS: 2 ranks, {total - skipped} of {total} stages"


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--cards", "0,0"], "expected distinct devices"),
        (["--deadline", "lunch=3"], "STAGE=SECONDS"),
        (["--simulate", "seed-910b1", "--cards", "0"], "require a live node"),
        (["--root", "/"], "--root has none"),
        (["--ranks", "0"], "expected a number above 0"),
        (["--timeout", "nan"], "expected seconds above 0"),
        (["--bandwidth-time", "-1"], "expected seconds above 0"),
        (["--device", "cpu", "--cards", "0"], "--ranks N"),
        (["--device", "cpu", "--keep-logs", "/proc/npudoctor"], "--keep-logs /proc/npudoctor"),
    ],
)
def test_what_is_asked_wrongly_is_one_line(argv: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code = main(["smoke", *argv])
    except SystemExit as ended:
        code = int(ended.code or 0)
    assert code == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("node", "code", "said"),
    [
        ("healthy-a3", 0, "simulated: 16 ranks"),
        ("new-node", 1, "all ranks failed in launch, at import torch_npu: ImportError: libhccl.so"),
        ("bare-host", 3, "no NPU found on this node"),
    ],
)
def test_a_simulated_node_tells_of_a_run(node: str, code: int, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["smoke", "--simulate", node]) == code
    assert said in " ".join("".join(capsys.readouterr()).split())


def test_a_recording_without_a_run_says_how_to_get_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["record", "--simulate", "seed-910b1", f"{tmp_path}/node/"]) == 0
    assert main(["smoke", "--replay", str(tmp_path / "node")]) == 3
    assert "the recording holds no smoke run: record it with --profile full" in capsys.readouterr().err


def test_a_recorded_run_is_judged_anew(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["record", "--simulate", "seed-910b1", "--profile", "full", f"{tmp_path}/node/"]) == 0
    capsys.readouterr()
    assert main(["smoke", "--replay", str(tmp_path / "node"), "--json"]) == 0
    report = adapter(SmokeReport).validate_json(capsys.readouterr().out)
    assert len(report.ranks) == 8 and len(report.results) == 9
