"""A site's own rows: merged by key, refused with a name where they are wrong or not to be trusted."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from npudoctor import knowledge, plugins
from npudoctor.knowledge import table
from npudoctor.knowledge.site import KEYS
from npudoctor.knowledge.tables import compatibility as releases
from npudoctor.knowledge.tables import pitfalls as symptoms

Write = Callable[..., Path]
SCHEMA = "npudoctor.knowledge/1"
NEW = {
    "version": "2.7.1.post99",
    "torch": "2.7.1",
    "cann": ["9.9.0"],
    "confidence": "site",
    "on_pypi": False,
}


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    folder = tmp_path / "knowledge.d"
    folder.mkdir(mode=0o755)
    monkeypatch.setenv("NPUDOCTOR_KNOWLEDGE", str(folder))

    def written(name: str = "site.json", *, text: str | None = None, mode: int = 0o644, **said: Any) -> Path:
        path = folder / name
        path.write_text(json.dumps({"schema": SCHEMA, **said}) if text is None else text, encoding="utf-8")
        path.chmod(mode)
        return path

    return written


def test_a_row_with_a_known_key_changes_the_fields_that_it_names(write: Write) -> None:
    write(source="ticket 4711", compatibility={"releases": [{"version": "2.7.1", "cann": ["8.3.RC1", "8.9.9"]}]})
    row = releases.load().release("2.7.1")
    assert row is not None
    assert (row.cann, row.torch) == (("8.3.RC1", "8.9.9"), "2.7.1")
    assert row.sources[0].startswith("ticket 4711 (")
    assert len(row.sources) > 1


def test_a_row_with_a_new_key_is_added_with_its_source(write: Write) -> None:
    write(compatibility={"releases": [NEW]})
    compatibility = releases.load()
    row = compatibility.release("2.7.1.post99")
    assert row is not None
    assert "site.json" in row.sources[0]
    assert compatibility.releases_for_cann("9.9.0")[0].version == "2.7.1.post99"


def test_later_files_win(write: Write) -> None:
    write("10.json", compatibility={"releases": [{"version": "2.7.1", "cann": ["1.0.0"]}]})
    write("20.json", compatibility={"releases": [{"version": "2.7.1", "cann": ["2.0.0"]}]})
    row = releases.load().release("2.7.1")
    assert row is not None
    assert row.cann == ("2.0.0",)


def test_other_tables_take_rows_too(write: Write) -> None:
    write(pitfalls={"pitfalls": [{"id": "P001", "title": "Ours"}]})
    row = symptoms.load().pitfall("P001")
    assert row is not None
    assert row.title == "Ours"


def test_without_a_folder_the_tables_are_ours(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NPUDOCTOR_KNOWLEDGE", str(tmp_path / "nowhere"))
    assert releases.load() == knowledge.compatibility()
    assert table.site_problems() == ()


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"text": "{"}, "no valid JSON"),
        ({"text": "[]"}, "schema: expected"),
        ({"schema": "other/1"}, "schema: expected"),
        ({"nonsense": {}}, "nonsense: no such table"),
        ({"compatibility": []}, "expected an object"),
        ({"compatibility": {"orders": []}}, "no list that a site can change"),
        ({"compatibility": {"releases": {}}}, "expected a list"),
        ({"compatibility": {"releases": [7]}}, "releases[0]: expected an object"),
        ({"compatibility": {"releases": [{"torch": "2.7.1"}]}}, "version is missing"),
        ({"compatibility": {"releases": [{**NEW, "colour": "red"}]}}, "colour: no such field"),
        ({"compatibility": {"releases": [{**NEW, "cann": "9.9.0"}]}}, "cann: expected a list of text"),
        ({"compatibility": {"releases": [{**NEW, "confidence": "sure"}]}}, "confidence: expected one of"),
        ({"compatibility": {"releases": [{"version": "9.9.9"}]}}, "must be whole; missing: confidence"),
        ({"pitfalls": {"pitfalls": [{"id": "P001", "symptoms": ["("]}]}}, "no regular expression"),
        ({"mode": 0o666}, "other users can write"),
    ],
)
def test_a_bad_file_is_named_and_counts_for_nothing(write: Write, said: dict[str, Any], words: str) -> None:
    write("good.json", compatibility={"releases": [NEW]})
    path = write("wrong.json", **said)
    problems = table.site_problems()
    assert len(problems) == 1
    assert problems[0].startswith(str(path))
    assert words in problems[0]
    assert releases.load().release("2.7.1.post99") is not None


def test_a_folder_that_others_can_write_is_refused(write: Write) -> None:
    path = write(compatibility={"releases": [NEW]})
    path.parent.chmod(0o777)
    assert "other users can write" in table.site_problems()[0]
    assert releases.load().release("2.7.1.post99") is None


def test_a_bad_file_is_a_result_of_every_check(write: Write) -> None:
    write(text="{")
    broken = [result for result in plugins.load().broken if "knowledge" in result.check]
    assert len(broken) == 1
    assert "no valid JSON" in (broken[0].reason or "")


def test_the_example_of_the_page_is_a_good_file(write: Write) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs/knowledge.md").read_text(encoding="utf-8")
    write(text=page.partition("```json\n")[2].partition("```")[0])
    assert table.site_problems() == ()
    row = releases.load().release("2.7.1.post4")
    assert row is not None
    assert row.cann == ("8.5.0", "9.0.0")


def test_the_page_names_every_list_that_a_site_can_change() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs/knowledge.md").read_text(encoding="utf-8")
    for name, lists in KEYS.items():
        row = next(line for line in page.splitlines() if line.startswith(f"| `{name}`"))
        assert all(f"`{part}`" in row for part in lists)
