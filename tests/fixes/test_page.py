"""docs/fixes.md is what the fixes say of themselves."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from npudoctor import plugins
from npudoctor.cli import main
from npudoctor.explain import fixes
from npudoctor.sdk import Fix

PAGE = Path(__file__).resolve().parents[2] / "docs" / "fixes.md"
CATALOG = plugins.load(folder="")


def test_the_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == fixes.page(CATALOG), (
        "write it anew: npudoctor list --fixes --format markdown >docs/fixes.md"
    )


def test_the_command_prints_the_page_and_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--fixes", "--format", "markdown"]) == 0
    assert capsys.readouterr().out == fixes.page(plugins.load())
    assert main(["list", "--fixes", "--json"]) == 0
    assert {one["id"] for one in json.loads(capsys.readouterr().out)} == plugins.load().fixes.keys()
    assert main(["list", "--fixes"]) == 0
    assert re.search(r"^hccl.reserve-ports +safe  root  Reserve HCCL ports", capsys.readouterr().out, re.M)


@pytest.mark.parametrize("fix", CATALOG.fixes.values(), ids=lambda fix: fix.id)
def test_a_fix_explains_itself_and_each_parameter(fix: Fix) -> None:
    told = fixes.of_fix(fix, CATALOG)
    assert all(f"`{one['name']}`" in told["about_parameters"] for one in told["parameters"])
    assert all(id in CATALOG.checks for id in told["mends"])
    assert f"\n## {fix.id}\n" in fixes.page(CATALOG)


def test_the_tests_that_hold_the_promises_are_there() -> None:
    text = (PAGE.parent / "safety.md").read_text(encoding="utf-8")
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", text)
    assert len(named) > 10
    for file, test in named:
        folder = Path(__file__).parent if "/" not in file else Path(__file__).parents[1]
        assert f"\ndef {test}(" in (folder / file).read_text(encoding="utf-8"), test
