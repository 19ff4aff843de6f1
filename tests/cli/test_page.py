"""`npudoctor check` answers on one page: 24 rows of 80 columns for up to two findings."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from npudoctor import plugins
from npudoctor.findings import Evidence, Report
from npudoctor.models import adapter
from npudoctor.report import cause, page
from npudoctor.report.text import Look
from npudoctor.sdk import Finding, Host, Severity, check
from npudoctor.testing import FakeHost, run
from tests.nodes import labels

from .conftest import Command

NODES = [node for node in labels.written() if not node.needs_a_folder]
LONG = "/opt/miniforge3/envs/train-with-a-long-name/lib/python3.10/site-packages/torch_npu/lib/libtorch_npu.so"


def rows(text: str, columns: int = 80) -> int:
    """How many rows of a terminal a text takes."""
    return sum(max(1, -(-len(line) // columns)) for line in text.splitlines())


def problems(report: Report) -> list[Finding]:
    least = cause.action_threshold(report)
    return [one for result in report.results for one in cause.actionable_findings(result, least)]


@pytest.mark.parametrize("node", NODES, ids=[node.name for node in NODES])
def test_a_node_with_up_to_two_findings_fits_a_screen(node: labels.Label) -> None:
    report = node.diagnose()
    found = problems(report)
    shown = page.render(report, node="--replay node.tar.gz")
    assert len(found) > 2 or rows(shown) <= 24, shown
    flat = "".join(shown.split())
    for one in found[: page.MOST_IN_FULL]:
        assert "".join(cause.with_subject(one).split()) in flat or one.code, one
        assert not one.fix or f"$ npudoctor fix {one.fix.id}  # on the node itself" in shown
        assert not one.evidence or "\n  evidence  " in shown


@check("test.two")
def two(_: Host) -> Iterator[Finding]:
    """Two problems with long texts."""
    for number in range(2):
        yield Finding(
            subject=f"npu:{number}",
            severity=Severity.ERROR,
            summary=f"import torch_npu failed: ImportError: {LONG}: undefined symbol, version {number}",
            hint=f"Do this first. {'Then read a long text about it. ' * 9}",
            commands=(f"ls {number}", "second", "third"),
            evidence=(
                Evidence(source="long", actual="x " * 400),
                Evidence(source="import", actual="failed", expected=LONG),
            ),
        )


def made(node: str = "") -> str:
    report = run(FakeHost(), "test.two", catalog=plugins.Catalog(checks={two.id: two}, probes={}))
    return page.render(report, node=node)


def test_long_texts_are_shortened_between_sentences_and_never_within_one() -> None:
    shown = made()
    assert rows(shown) <= 24
    assert "…" not in shown and "x x" not in shown
    assert shown.count("evidence  import: actual failed") == 2
    for number in range(2):
        assert f"$ ls {number}  # first of 3 commands, -v shows all\n" in shown
    assert shown.count("  do        Do this first.") == 1
    assert shown.startswith("✖ 2 problems found\n")
    assert shown.endswith("  $ ls 0  # first of 3 commands, -v shows all\n")


@check("test.set")
def several_commands() -> Iterator[Finding]:
    """A fix of several commands, and advice of three lines that says what they do."""
    yield Finding(
        summary="The releases do not match",
        hint="Smallest change: install the release that fits most versions found here, and torch 2.7.1, "
        "torch_npu 2.7.1, vllm 0.11.0, triton-ascend 3.2.0, transformers 4.57.4 and accelerate 1.10.1.",
        commands=("install one", "install two"),
    )


def test_the_advice_comes_with_the_first_of_several_commands() -> None:
    report = run(
        FakeHost(), "test.set", catalog=plugins.Catalog(checks={several_commands.id: several_commands}, probes={})
    )
    shown = page.render(report)
    assert "  do        Smallest change: install the release" in shown and "accelerate 1.10.1." in shown
    assert "  $ install one" in shown


@pytest.mark.parametrize("name", ["new-node", "sick-cards", "bare-host", "healthy-a3", "container-broken"])
def test_each_group_has_one_line_and_the_next_command_is_last(npudoctor: Command, name: str) -> None:
    report = npudoctor("check", "--json", "--simulate", name).json
    shown = npudoctor("check", "--simulate", name).out
    groups = dict.fromkeys(result["check"].partition(".")[0] for result in report["results"])
    lines = [line for line in shown.splitlines() if line[:2] in ("✔ ", "✖ ", "! ", "– ")]
    for group in groups:
        named = [line for line in lines if group in line[2:].split("  ")[0].split(", ")]
        assert len(named) == 1, (group, named)
    last = shown.splitlines()[-1]
    assert last.startswith("  $ ") or (report["exit_code"] == 0 and last.endswith("Nothing to fix."))


@pytest.mark.parametrize("name", ["sick-cards", "bare-host", "container-broken"])
def test_each_problem_without_a_fix_says_what_to_do(npudoctor: Command, name: str) -> None:
    report = npudoctor("check", "--json", "--simulate", name).json
    shown = " ".join(npudoctor("check", "--simulate", name).out.split())
    found = [one for result in report["results"] for one in result["findings"]]
    asked = [one for one in found if one["severity"] in ("error", "warning") and not one["fix"] and one["hint"]]
    for one in asked[: page.MOST_IN_FULL]:
        assert one["summary"] not in shown or " ".join(one["hint"].split()[:3]) in shown, one["hint"]


def test_quiet_is_one_line(npudoctor: Command) -> None:
    ran = npudoctor("check", "-q", "--simulate", "new-node")
    assert (ran.code, ran.out.count("\n")) == (1, 1)
    assert ran.out.startswith("✖ CANN environment not loaded: ")
    assert ran.out.endswith(" (cann.environment) and 2 more\n")
    assert npudoctor("check", "-q", "--simulate", "healthy-a3").out.startswith("✔ No problems found (")


def test_silenced_checks_are_counted_beside_the_problems(npudoctor: Command, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('silence = ["hccl.ports-reserved"]\n', encoding="utf-8")
    config = ("--config", str(tmp_path / "config.toml"), "--simulate", "new-node")
    assert npudoctor("check", *config).out.startswith("✖ 2 problems found, 1 silenced\n")
    assert npudoctor("check", "-q", *config).out.endswith(" (cann.environment) and 1 more, 1 silenced\n")


def test_no_advice_of_many_problems_is_cut(npudoctor: Command) -> None:
    shown = npudoctor("check", "--simulate", "sick-cards").out
    report = npudoctor("check", "--json", "--simulate", "sick-cards").json
    assert len(problems(adapter(Report).validate_python(report))) > 2
    assert "..." not in shown and "…" not in shown
    assert "ask the vendor about this one." in " ".join(shown.split())


def test_more_verbose_prints_more(npudoctor: Command) -> None:
    outs = [npudoctor("check", *how, "--simulate", "new-node").out for how in (["-q"], [], ["-v"], ["-vv"])]
    assert [len(out) for out in outs] == sorted(len(out) for out in outs)
    assert "\n  ✔ npu.present " not in outs[1] and "\n  ✔ npu.present " in outs[2]


def test_many_problems_of_one_kind_share_a_line() -> None:
    findings = tuple(
        Finding(code="test.two/one", subject=f"npu:{number}", summary="chip is unhappy") for number in range(16)
    )

    @check("test.many")
    def many(_: Host) -> Iterator[Finding]:
        """Many findings of one kind."""
        yield from findings

    report = run(FakeHost(), "test.many", catalog=plugins.Catalog(checks={many.id: many}, probes={}))
    shown = page.render(report, look=Look(width=100))
    assert shown.count("chip is unhappy") == 1
    assert "and 15 more of this kind: npu:1, npu:2," in shown


def test_a_group_of_which_nothing_was_judged_has_nothing_to_check(npudoctor: Command) -> None:
    ran = npudoctor("check", "containers", "--simulate", "new-node")
    assert ran.code == 3
    assert ran.out.startswith("? nothing to check: no running container uses an NPU (containers.complete)\n")
    assert npudoctor("check", "containers", "env", "--simulate", "new-node").code == 0
