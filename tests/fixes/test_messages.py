"""What fixes say stands in a table, and each sentence gets the parameters that it takes."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from npudoctor.messages import Sentence, placeholders

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("fixes", "npudoctor/steps", "npudoctor/fixer")
SOURCES = [path for room in ROOMS for path in sorted((ROOT / room).glob("*.py")) if path.name != "messages.py"]
SAYING = {"Refused", "Unavailable", "Note", "Obstacle", "StepFailed", "NotFoundError", "InvalidData"}
"""What carries a sentence: its arguments must be no texts in the code."""


def table(room: Path) -> dict[str, Sentence]:
    path = room / "messages.py"
    space: dict[str, Any] = {}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), space)
    return {name: one for name, one in space.items() if isinstance(one, Sentence)}


TABLES = {room: table(ROOT / room) for room in ROOMS}


def references(tree: ast.AST) -> Iterator[ast.Attribute]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "messages":
            yield node


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_a_sentence_gets_the_parameters_that_it_takes_and_no_others(path: Path) -> None:
    known = TABLES[name_of(path.parent)]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "text"):
            continue
        owner = node.func.value
        if isinstance(owner, ast.Attribute) and isinstance(owner.value, ast.Name) and owner.value.id == "messages":
            given = {keyword.arg for keyword in node.keywords}
            assert given == placeholders(known[owner.attr].template), f"{path.name}:{node.lineno}"


@pytest.mark.parametrize("room", ROOMS)
def test_every_sentence_of_a_table_is_used(room: str) -> None:
    sources = [path for path in SOURCES if name_of(path.parent) == room]
    used = {node.attr for path in sources for node in references(ast.parse(path.read_text(encoding="utf-8")))}
    assert used == set(TABLES[room])


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_what_a_person_reads_is_not_written_into_the_code(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in SAYING:
            words = [one for one in node.args if isinstance(one, (ast.Constant, ast.JoinedStr, ast.BinOp))]
            assert not words, f"{path.name}:{node.lineno}"
