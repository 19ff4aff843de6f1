"""docs/checks.md and the page of each check are what the checks say of themselves."""

import sys
from pathlib import Path

import pytest

from npudoctor import plugins
from npudoctor.cli import main
from npudoctor.explain import documents, pages
from npudoctor.report import markup
from npudoctor.sdk import Check
from npudoctor.sdk import pages as links

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tools import pages as pages_tool

CATALOG = plugins.load(folder="")
MADE = pages_tool.made()
CHECKS = list(CATALOG.checks.values())


@pytest.mark.parametrize("name", [*MADE])
def test_the_page_is_current(name: str) -> None:
    page = pages_tool.DOCS / name
    assert page.is_file() and page.read_text(encoding="utf-8") == MADE[name], "write it anew: python -m tools.pages"


def test_no_page_is_of_a_check_that_is_gone() -> None:
    names = {f"checks/{path.name}" for path in (pages_tool.DOCS / "checks").iterdir()}
    assert names <= set(MADE), "write them anew: python -m tools.pages"


@pytest.mark.thorough
def test_a_result_with_a_finding_names_the_page_of_its_check(capsys: pytest.CaptureFixture[str]) -> None:
    main(["check", "python.pairing", "--simulate", "new-node", "-v"])
    assert "npudoctor explain python.pairing" in capsys.readouterr().out
    for shape in ("markdown", "html"):
        main(["check", "--simulate", "new-node", "--format", shape])
        said = capsys.readouterr().out
        assert "npudoctor explain python.pairing" in said and "docs/checks/" not in said, "a path of the sources"
    main(["check", "--simulate", "new-node", "--json"])
    assert "docs/checks/python.pairing.md" in capsys.readouterr().out


def test_an_address_of_a_page_is_shown() -> None:
    assert markup.link_to("npu.count", "https://h.example/npu.count.md") == "<https://h.example/npu.count.md>"


def test_the_address_of_the_pages_is_in_the_metadata_of_the_package() -> None:
    assert links.base([]) == "docs/checks"
    assert links.base(["Home, https://h.example", "Checks, https://h.example/d/"]) == "https://h.example/d"
    assert links.base(["Checks, javascript:x"]) == "docs/checks"


def test_the_command_prints_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--format", "markdown"]) == 0
    assert capsys.readouterr().out == pages.catalogue(plugins.load())


@pytest.mark.parametrize("check", CHECKS, ids=[check.id for check in CHECKS])
def test_a_check_has_its_section(check: Check) -> None:
    section = pages.page(check, CATALOG)
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
