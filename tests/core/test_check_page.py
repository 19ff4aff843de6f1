"""docs/checks.md is what the checks say of themselves."""

from pathlib import Path

import pytest

from npudoctor import plugins
from npudoctor.cli import main
from npudoctor.explain import documents, pages
from npudoctor.sdk import Check

PAGE = Path(__file__).resolve().parents[2] / "docs" / "checks.md"
CATALOG = plugins.load(folder="")
CHECKS = list(CATALOG.checks.values())


def test_the_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == pages.catalogue(CATALOG), (
        "write it anew: npudoctor list --format markdown >docs/checks.md"
    )


def test_the_command_prints_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--format", "markdown"]) == 0
    assert capsys.readouterr().out == pages.catalogue(plugins.load())


@pytest.mark.parametrize("check", CHECKS, ids=[check.id for check in CHECKS])
def test_a_check_has_its_section(check: Check) -> None:
    section = pages.catalogue(CATALOG).partition(f"\n### {check.id}\n")[2].partition("\n### ")[0]
    told = documents.of_check(check, CATALOG)
    assert check.why and " ".join(check.why.split()) in section
    assert all(f"threshold `{one.name}`" in section and one.reason in section for one in check.thresholds)
    assert all(f"- {pitfall['id']} " in section for pitfall in told["pitfalls"])
    assert f"profile {check.profile}" in section


@pytest.mark.parametrize("check", [check for check in CHECKS if check.thresholds], ids=lambda check: check.id)
def test_a_threshold_is_named_with_its_unit_and_has_a_number_and_a_reason(check: Check) -> None:
    for one in check.thresholds:
        assert one.name == one.name.lower() and one.name.isidentifier()
        assert one.usual >= 0 and one.unit and len(one.reason) > 20
        assert not one.name.endswith(("_pct", "_sec"))


def test_one_name_is_one_threshold() -> None:
    named = {one.name: one for check in CHECKS for one in check.thresholds}
    assert all(named[one.name] is one for check in CHECKS for one in check.thresholds)


def test_explain_shows_the_limits_of_a_check(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "npu.temperature"]) == 0
    assert "temperature_warn_celsius = 80 °C" in capsys.readouterr().out
