"""`npudoctor check` on simulated nodes: the contract of its exit codes, and formats that agree with each other."""

import json
import re
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from npudoctor.findings import Report

from .conftest import Command

ROOT = Path(__file__).resolve().parents[2]

CONTRACT = [
    # arguments, exit code, verdict
    (["--simulate", "seed-910b1"], 0, "ok"),
    (["--simulate", "in-service", "--fail-on", "info"], 1, "ok"),
    (["--simulate", "new-node"], 1, "error"),
    (["hccl", "--simulate", "new-node"], 0, "warning"),
    (["hccl", "--simulate", "new-node", "--fail-on", "warning"], 1, "warning"),
    (["--simulate", "new-node", "--skip", "cann", "python"], 0, "warning"),
    (["--simulate", "sick-cards"], 1, "error"),
    (["npu.count", "--simulate", "sick-cards"], 1, "error"),
    (["npu.topology", "--simulate", "sick-cards"], 0, "ok"),
    (["--simulate", "bare-host"], 1, "error"),
    (["npu.count", "--simulate", "bare-host"], 3, "undetermined"),
    (["driver", "--simulate", "bare-host"], 3, "undetermined"),
    (["--simulate", "bare-host", "--skip", "npu.present"], 3, "undetermined"),
    (["npu.processes", "--simulate", "seed-910b1"], 3, "undetermined"),
    (["container.devices", "--simulate", "seed-910b1"], 3, "undetermined"),
    (["--simulate", "container-broken"], 1, "error"),
    (["--simulate", "in-service"], 0, "ok"),
    (["--simulate", "in-service", "--expect-idle"], 1, "error"),
    (["--simulate", "in-service", "--role", "driver-only"], 0, "ok"),
]


@pytest.mark.parametrize(("argv", "code", "verdict"), CONTRACT, ids=[" ".join(row[0]) for row in CONTRACT])
def test_text_json_and_exit_code_agree_on_the_contract(
    npudoctor: Command, argv: list[str], code: int, verdict: str
) -> None:
    as_json = npudoctor("check", "--json", *argv)
    as_text = npudoctor("check", *argv)
    as_lines = npudoctor("check", "--format", "jsonl", *argv)
    as_markdown = npudoctor("check", "--format", "markdown", *argv)
    assert [ran.code for ran in (as_json, as_text, as_lines, as_markdown)] == [code] * 4
    report = as_json.json
    assert (report["exit_code"], report["verdict"]) == (code, verdict)
    counts = {key: number for key, number in report["summary"].items() if number}
    said = " ".join(as_text.out.strip().split("\n\n")[-1].split())
    for status, number in counts.items():
        assert re.search(rf"\b{number} {status}", said), said
    assert as_text.out[0] == {"ok": "✔", "warning": "!", "error": "✖", "undetermined": "?"}[verdict]
    assert as_markdown.out.startswith(f"# npudoctor: {verdict}\n")
    lines = [json.loads(line) for line in as_lines.out.splitlines()]
    assert lines[-1]["type"] == "report"
    assert (lines[-1]["exit_code"], lines[-1]["summary"]) == (code, report["summary"])
    assert {line["check"] for line in lines[:-1]} == {result["check"] for result in report["results"]}


def test_the_first_line_names_the_cause(npudoctor: Command) -> None:
    first = npudoctor("check", "-v", "--simulate", "new-node").out
    assert first.startswith("✖ CANN environment not loaded: ")
    assert "(cann.environment)" in first.split("\n\n")[0]


def test_the_headline_names_the_card_and_the_last_line_is_the_command(npudoctor: Command) -> None:
    ran = npudoctor("check", "-v", "npu.health", "--simulate", "sick-cards")
    assert ran.out.startswith("✖ npu:2: 910B3 reports Alarm")
    for how in ([], ["-v"], ["-vv"]):
        assert npudoctor("check", *how, "python", "--simulate", "new-node").out.splitlines()[-1] == (
            "  $ npudoctor fix python.install-pair --simulate new-node"
        )


def test_each_problem_names_its_page(npudoctor: Command) -> None:
    out = npudoctor("check", "-v", "--simulate", "new-node").out
    for check in ("cann.environment", "python.pairing", "hccl.ports-reserved"):
        assert f"      explain   npudoctor explain {check}\n" in out
        assert npudoctor("explain", check).code == 0


def test_a_cause_that_was_not_selected_is_named(npudoctor: Command) -> None:
    first = npudoctor("check", "cann.single", "--simulate", "new-node").out
    assert first.startswith("? could not determine: cann.environment has an error")
    assert first.rstrip().endswith("$ npudoctor explain cann.environment")
    whole = npudoctor("check", "-v", "cann.single", "--simulate", "new-node").out
    assert whole.rstrip().endswith("Start with cann.environment.")


@pytest.mark.parametrize(("name", "node"), [("containers.complete", "healthy-a3"), ("npu.throttled", "seed-910b1")])
def test_a_check_that_does_not_apply_is_not_called_undetermined(npudoctor: Command, name: str, node: str) -> None:
    ran = npudoctor("check", name, "--simulate", node)
    assert ran.code == 3
    assert ran.out.startswith("? nothing to check: ")


def test_numbers_of_findings_are_plural_in_every_format(npudoctor: Command) -> None:
    summary = json.loads(npudoctor("check", "--simulate", "sick-cards", "--json").out)["summary"]
    assert min(summary[status] for status in ("warning", "error")) > 1
    counted = "{ok} ok, {warning} warnings, {error} errors, {skipped} skipped".format_map(summary)
    for shape in ("markdown", "html"):
        assert counted in npudoctor("check", "--simulate", "sick-cards", "--format", shape).out
    for command in (("check",), ("report", "--markdown")):
        assert counted in npudoctor(*command, "--simulate", "sick-cards").out


def test_what_is_broken_stands_before_everything_else_on_the_first_screen(npudoctor: Command) -> None:
    lines = npudoctor("check", "-v", "--simulate", "sick-cards").out.splitlines()[:24]
    assert any(line.startswith("✖ npu.count") for line in lines)
    assert any(line.strip().startswith("do ") for line in lines)
    assert not any(line.startswith("  ✔") for line in lines)


def test_commands_of_npudoctor_name_the_same_node(npudoctor: Command) -> None:
    out = npudoctor("check", "--simulate", "new-node").out
    fixes = [line for line in out.splitlines() if "npudoctor fix " in line]
    assert fixes
    assert all(line.endswith("--simulate new-node") for line in fixes)


def test_a_tool_that_could_not_determine_is_named_by_what_it_said(npudoctor: Command, tmp_path: Path) -> None:
    scenario = tmp_path / "node.toml"
    scenario.write_text(
        'about = "x"\nproduct = "atlas-800t-a2-910b3"\ndriver = { fault = "device-used" }\n', encoding="utf-8"
    )
    ran = npudoctor("check", "-v", "--simulate", str(scenario))
    assert ran.code == 3
    assert "(driver.npu-smi)" in " ".join(ran.out.split("\n\n")[0].split())
    assert "Start with driver.npu-smi" in " ".join(ran.out.split())


def test_what_fails_the_run_is_in_the_headline_whatever_its_severity(npudoctor: Command) -> None:
    ran = npudoctor("check", "-v", "system.platform", "--simulate", "seed-910b1", "--fail-on", "info")
    assert ran.code == 1
    assert "Kernel 4.19.90" in " ".join(ran.out.split("\n\n")[0].split())
    assert "nothing is wrong" not in ran.out
    assert npudoctor("check", "system.platform", "--simulate", "seed-910b1").code == 0


def test_nothing_is_said_in_words_where_markdown_would_show_two_marks(npudoctor: Command) -> None:
    out = npudoctor("check", "--simulate", "new-node", "--format", "markdown").out
    assert not any("``," in line or line.endswith(" ``") for line in out.splitlines())
    assert "actual nothing" in out


def test_a_healthy_node_says_so_and_asks_for_nothing(npudoctor: Command) -> None:
    ran = npudoctor("check", "--simulate", "healthy-a3")
    assert re.fullmatch(r"✔ No problems found \(\d+ checks, \d+ skipped\)", ran.out.splitlines()[0])
    assert ran.out.rstrip().endswith("Nothing to fix.")
    assert "✖" not in ran.out and "!" not in ran.out


def test_the_report_fits_its_own_schema(npudoctor: Command) -> None:
    named = npudoctor("schema").json
    assert (named["$schema"], named["$id"]) == (
        "https://json-schema.org/draft/2020-12/schema",
        "urn:npudoctor:report:1",
    )
    schema = npudoctor("schema").json
    assert schema["title"] == "Report"
    ran = npudoctor("check", "--json", "--simulate", "sick-cards")
    report = TypeAdapter(Report).validate_json(ran.out)
    assert report.results
    assert set(ran.json) == set(schema["properties"])
    assert list(ran.json)[:4] == ["schema", "tool_version", "started_at", "duration_s"]


@pytest.mark.parametrize("columns", ["40", "80", "160"])
def test_text_stays_within_the_terminal_but_for_commands(
    npudoctor: Command, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    for name in ("sick-cards", "new-node", "container-broken"):
        for how in ([], ["-v"]):
            for line in npudoctor("check", *how, "--simulate", name).out.splitlines():
                assert len(line) <= int(columns) or line.lstrip().startswith("$ ") or "  npudoctor " in line, line


def test_colours_are_for_terminals_and_can_be_had_and_refused(
    npudoctor: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "\x1b[" not in npudoctor("check", "--simulate", "new-node").out
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[" in npudoctor("check", "--simulate", "new-node").out
    assert "\x1b[" not in npudoctor("check", "--no-color", "--simulate", "new-node").out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in npudoctor("check", "--simulate", "new-node").out


@pytest.mark.skipif(
    not str(ROOT).isascii(), reason="an editable installation in such a folder is not found where no UTF-8 is spoken"
)
def test_a_terminal_that_knows_no_unicode_gets_plain_marks(process: Command) -> None:
    plain = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    ran = process("check", "--simulate", "sick-cards", environment=plain)
    assert ran.code == 1
    assert ran.out.startswith("x ")
    assert not set(ran.out) & set("✔✖–…·"), "a pipe is UTF-8 in every locale, and the marks are plain all the same"


def test_verbose_lists_every_skipped_check_by_itself(npudoctor: Command) -> None:
    short = npudoctor("check", "--simulate", "bare-host", "--verbose").out
    long = npudoctor("check", "--simulate", "bare-host", "-vv").out
    assert "skipped: see npu.present" in short
    assert "hccl.ports-reserved" not in short
    assert "hccl.ports-reserved" in long


def test_a_site_s_configuration_is_in_force(npudoctor: Command, tmp_path: Path) -> None:
    path = tmp_path / "site.toml"
    path.write_text(
        'fail_on = "warning"\nsilence = ["python.pairing"]\n[severity]\n"cann.environment" = "info"\n', encoding="utf-8"
    )
    ran = npudoctor("check", "--json", "--simulate", "new-node", "--config", str(path))
    assert ran.code == 1
    assert ran.worse() == {"hccl.ports-reserved": "warning"}
    assert ran.status("python.pairing") == "silenced"


def test_the_demo_is_the_new_node_with_a_word_of_explanation(npudoctor: Command) -> None:
    demo = npudoctor("demo")
    assert demo.code == 1
    assert "This is a simulated, newly installed node" in demo.err
    plain = npudoctor("check", "--simulate", "new-node")
    assert demo.out.splitlines()[:-5] == plain.out.splitlines()[:-5]
    assert npudoctor("demo", "--json").err == ""


def test_the_list_names_every_check_with_title_profile_and_fix(npudoctor: Command) -> None:
    listed = npudoctor("list", "--json").json
    by_id = {entry["id"]: entry for entry in listed}
    assert by_id["hccl.ports-reserved"]["fix"] == "hccl.reserve-ports"
    assert by_id["npu.topology"]["profile"] == "standard"
    assert "health" in by_id["npu.health"]["tags"]
    assert all(entry["title"] and entry["why"] for entry in listed)
    text = npudoctor("list").out
    assert len(text.splitlines()) == len(listed)


GROUPS = (
    *("npu", "driver", "cann", "python", "stack", "hccl", "env"),
    *("system", "container", "containers", "smoke", "install"),
)


def test_every_group_of_the_catalogue_has_a_check(npudoctor: Command) -> None:
    groups = [entry["id"].partition(".")[0] for entry in npudoctor("list", "--json").json]
    assert tuple(dict.fromkeys(groups)) == GROUPS
