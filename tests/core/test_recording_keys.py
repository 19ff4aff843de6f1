"""What a recording may hold and what npudoctor reads of it are the same, and the documentation says so."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from npudoctor.facts.python import devices, imports, target_python
from npudoctor.host.live import measures

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "recordings.md").read_text(encoding="utf-8")
DESIGN = ROOT.parent / "shared" / "design" / "BUNDLE.md"
SOURCES = [path for folder in ("npudoctor", "checks", "fixes") for path in (ROOT / folder).rglob("*.py")]


def documented(command: str) -> set[str]:
    """The keys that the table names for a command."""
    rows = [line.split("|") for line in PAGE.splitlines() if line.startswith("| `") and line.count("|") == 4]
    return {key for row in rows if f"`{command}" in row[2] for key in re.findall(r"`(\w+)`", row[1])}


def read_by(*functions: Callable[..., Any]) -> set[str]:
    """The keys of `said` that functions read."""
    return {key for function in functions for key in _keys(ast.parse(inspect.getsource(function)))}


def _keys(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            of, place = node.func.value, node.args[0]
        elif isinstance(node, ast.Subscript):
            of, place = node.value, node.slice
        else:
            continue
        if isinstance(of, ast.Name) and of.id == "said" and isinstance(place, ast.Constant):
            yield str(place.value)


def test_what_the_target_python_prints_is_what_is_read() -> None:
    assert read_by(target_python.parse_environment) == documented("environment")
    assert read_by(imports.parse_attempt) == documented("import")
    assert read_by(devices.parse_math) | {"ok"} == documented("device-math")
    each = PAGE.partition("per device: ")[2].partition("|")[0]
    assert read_by(devices._card) == set(re.findall(r"`(\w+)`", each))


@pytest.mark.parametrize("field", ["version", "cuda", "cxx11_abi", "available", "device_count", "devices", "cann"])
def test_what_an_import_says_is_used(field: str) -> None:
    """An attribute of an attempt that nobody reads would be recorded, documented and obtained in vain."""
    use = re.compile(rf"\b(?:attempt|plain|alone)\.{field}\b")
    elsewhere = [path for path in SOURCES if path != Path(inspect.getfile(imports))]
    assert any(use.search(path.read_text(encoding="utf-8")) for path in elsewhere), f"{field}: nobody reads it"


def test_every_key_of_host_json_is_measured_read_and_documented() -> None:
    line = PAGE[PAGE.index("The keys of `host.json` are") :].partition("\n\n")[0]
    named = set(re.findall(r"`(\w+)`", line)) - {"host"}
    assert named == set(measures._MEASURES)
    asked = {key for path in SOURCES for key in re.findall(r'\.measure\("(\w+)"\)', path.read_text(encoding="utf-8"))}
    assert asked == named


@pytest.mark.skipif(not DESIGN.exists(), reason="../shared/design is absent")
def test_the_format_that_others_write_is_the_one_that_is_read() -> None:
    text = DESIGN.read_text(encoding="utf-8")
    by_hand = {
        "environment": set(re.findall(r'"(\w+)"', _cell(text, "python environment"))) - {"torch", "requires"},
        "import": set(re.findall(r'"(\w+)":', _cell(text, "python import torch"))) - {"exception", "seconds"},
        "device-math": {"ok", "devices", "error"},
    }
    for command, keys in by_hand.items():
        assert keys <= documented(command), command
    block = text[text.index("## host.json") :].partition("```json")[2].partition("```")[0]
    assert set(re.findall(r'^  "(\w+)":', block, re.M)) == set(measures._MEASURES)


def _cell(text: str, command: str) -> str:
    return next(line for line in text.splitlines() if line.startswith(f"| `{command}` |")).split("|", 2)[2]
