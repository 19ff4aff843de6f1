"""Every finding of a check is a message of its table: with an id of its own, and with the parameters that it takes."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from npudoctor import engine, plugins
from npudoctor.data import to_data
from npudoctor.findings import Finding, Report, Silenced, Status
from npudoctor.messages import Message, Sentence, placeholders
from npudoctor.sdk import check
from npudoctor.selection import Selection
from npudoctor.testing import FakeHost

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "checks").glob("*.py"))
METHODS = ("finding", "text")
FIELDS = {
    *("subject", "severity", "detail", "hint", "commands", "evidence", "fix", "pitfall", "links"),
    *("of_live_job", "symptom"),
}


def tables() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for path in sorted((ROOT / "checks" / "messages").glob("*.py")):
        space: dict[str, Any] = {}
        exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), space)
        found[path.stem] = {name: one for name, one in space.items() if is_table(name, one)}
    return found


def is_table(name: str, one: Any) -> bool:
    """Whether it is a message, a sentence, or a dictionary of messages, each of another check."""
    several = isinstance(one, dict) and not name.startswith("_")
    return isinstance(one, (Message, Sentence)) or (several and all(isinstance(each, Message) for each in one.values()))


TABLES = tables()


def uses(path: Path) -> Iterator[tuple[str, str, str, ast.Call]]:
    """Each `messages.NAME.finding(...)` or `.text(...)` of a module: the table, the name, the method, the call."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    named: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module == "messages":
            named |= {alias.asname or alias.name: alias.name for alias in node.names}
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in ("finding", "text")
        ):
            owner = node.func.value
            if isinstance(owner, ast.Attribute) and isinstance(owner.value, ast.Name) and owner.value.id in named:
                yield named[owner.value.id], owner.attr, node.func.attr, node


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_a_message_gets_the_parameters_that_its_texts_take_and_no_others(path: Path) -> None:
    for table, name, method, call in uses(path):
        one = TABLES[table][name]
        given = {keyword.arg for keyword in call.keywords}
        if None in given:
            continue  # **params: the finding's own test shows it
        if isinstance(one, Message):
            assert method == "finding", f"{path.name}:{call.lineno}"
            taken = placeholders(one.summary, *([] if "detail" in given else [one.detail]))
            taken |= placeholders(*([] if "hint" in given else [one.hint]))
            assert taken - {"subject"} <= given, f"{path.name}:{call.lineno} lacks {taken - given}"
            assert given - FIELDS <= one.parameters, f"{path.name}:{call.lineno} has {given - FIELDS - one.parameters}"
        else:
            assert given == placeholders(one.template), f"{path.name}:{call.lineno}"


def test_every_message_and_sentence_is_used() -> None:
    names = {(table, node.attr) for path in SOURCES for table, node in references(path)}
    for table, members in TABLES.items():
        assert set(members) <= {name for room, name in names if room == table}, table


def references(path: Path) -> Iterator[tuple[str, ast.Attribute]]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    named: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module == "messages":
            named |= {alias.asname or alias.name: alias.name for alias in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in named:
            yield named[node.value.id], node


def test_a_code_is_an_id_below_its_check() -> None:
    catalog = plugins.load()
    members = [one for table in TABLES.values() for one in table.values()]
    found = [each for one in members for each in (one.values() if isinstance(one, dict) else (one,))]
    codes = [one.code for one in found if isinstance(one, Message)]
    assert len(codes) == len(set(codes))
    assert set(codes) == set(catalog.messages)
    for code in codes:
        check, _, name = code.partition("/")
        assert check in catalog.checks, code
        assert name and name == name.lower() and " " not in name, code


def test_parameters_are_data_that_json_holds() -> None:
    one = Message("a.b/c", summary="{count:port|ports} {ports} of {subject}")
    found = one.finding(count=2, ports=(7, 8), subject="npu:1")
    assert found.summary == "ports 7, 8 of npu:1"
    assert to_data(found)["params"] == {"count": 2, "ports": [7, 8]}
    assert one.finding(count=1, ports=[9]).summary == "port 9 of host"
    with pytest.raises(KeyError):
        one.finding(count=1)


def test_a_site_silences_one_kind_of_finding_and_hears_of_the_others() -> None:
    loud, quiet = Message("a.b/loud", summary="loud"), Message("a.b/quiet", summary="quiet")

    @check("a.b")
    def both() -> Iterator[Finding]:
        """Both kinds of finding."""
        yield loud.finding()
        yield quiet.finding()

    @check("a.c")
    def one() -> Iterator[Finding]:
        """One kind of finding."""
        yield Message("a.c/only", summary="only").finding()

    silenced = {code: Silenced(reason="known here") for code in ("a.b/quiet", "a.c/only")}
    host, catalog = FakeHost(), plugins.assemble([both, one, loud, quiet])

    def report_of(*names: str) -> Report:
        *_, done = engine.run(catalog, host, Selection(names=names, silenced=silenced))
        assert isinstance(done, engine.Done)
        return done.report

    report = report_of()
    first, second = report.results
    assert first.status is Status.ERROR
    assert [finding.code for finding in first.open_findings] == ["a.b/loud"]
    assert second.status is Status.SILENCED
    assert "known here" in str(second.silenced)
    assert report.exit_code == 1
    assert report_of("a.c").exit_code == 0
