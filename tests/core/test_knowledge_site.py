"""A site's own rows: merged by key, refused with a name where they are wrong or not to be trusted."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from npudoctor import knowledge, plugins
from npudoctor.findings import Severity, Status
from npudoctor.knowledge import table
from npudoctor.knowledge.site import KEYS
from npudoctor.knowledge.tables import compatibility as releases
from npudoctor.knowledge.tables import pitfalls as symptoms
from npudoctor.sim import machine, scenario
from npudoctor.testing import run

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


@pytest.fixture
def stacks(write: Write) -> Iterator[Write]:
    """Writes a site's file, and forgets the frameworks that were read before and are read meanwhile."""

    def forget() -> None:
        knowledge.stacks.cache_clear()
        knowledge.combinations.cache_clear()

    def written(name: str = "site.json", **said: Any) -> Path:
        forget()
        return write(name, **said)

    yield written
    forget()


FORMERS: dict[str, Any] = {
    "frameworks": [{"name": "mindformers", "title": "MindFormers", "package": "mindformers", "brings": []}],
    "releases": [
        {"framework": "mindformers", "release": "1.5.0", "requires": {"mindspore": "2.6.0rc1", "cann": "8.1.RC1"}}
    ],
    "chips": [{"package": "mindformers", "family": "A2", "supported": True}],
}
NODE: dict[str, Any] = {"product": "atlas-800t-a2-910b3", "cann": {"version": "8.1.RC1"}}


def judged(frameworks: tuple[str, ...] = (), **packages: str) -> Any:
    said = {**NODE, "python": {"version": "3.11.13", "packages": packages}}
    host = machine.build(scenario.parse(said, "node"), "node")
    return {one.check: one for one in run(host, "stack", frameworks=frameworks).results}["stack.site"]


def test_a_framework_that_the_site_adds_is_judged(stacks: Write) -> None:
    stacks(stacks=FORMERS)
    assert judged().status is Status.SKIPPED
    assert judged(mindformers="1.5.0", mindspore="2.6.0rc1").findings == ()
    [mismatch] = judged(mindformers="1.5.0", mindspore="2.7.1").findings
    assert (mismatch.code, mismatch.severity) == ("stack.site/mismatch", Severity.ERROR)
    assert mismatch.summary == "MindFormers 1.5.0 requires mindspore 2.6.0rc1; found mindspore 2.7.1"
    [unknown] = judged(mindformers="77.0").findings
    assert unknown.code == "stack.site/not-listed"
    [required] = judged(frameworks=("mindformers",), mindspore="2.6.0rc1").findings
    assert (required.code, required.severity) == ("stack.site/required", Severity.ERROR)
    assert required.commands[-1].endswith("pip install mindformers==1.5.0")


def test_a_release_with_a_row_of_its_own_is_no_release_of_its_train(stacks: Write) -> None:
    rows = [
        {"framework": "mindformers", "release": release, "requires": {"cann": cann}}
        for release, cann in (("1.6.*", "8.1.RC1"), ("1.6.0", "8.3.RC1"))
    ]
    stacks(stacks={**FORMERS, "releases": rows})
    [mismatch] = judged(mindformers="1.6.0", mindspore="2.7.1").findings
    assert mismatch.commands[-1].endswith("pip install 'mindformers==1.6.*,!=1.6.0'")


def test_a_chip_that_the_site_excludes_is_an_error(stacks: Write) -> None:
    stacks(stacks={**FORMERS, "chips": [{**FORMERS["chips"][0], "supported": False, "note": "Not here."}]})
    assert judged(mindformers="1.5.0", mindspore="2.6.0rc1").findings[0].code == "stack.site/chip"


@pytest.mark.parametrize("version", ["0.11.0", "0.11.0rc1", "0.26.0rc1", "77.0"])
def test_a_release_of_vllm_ascend_that_the_site_writes_counts(stacks: Write, version: str) -> None:
    requires = {"vllm": "0.11.0", "cann": "9.9.9"}
    stacks(stacks={"releases": [{"framework": "vllm-ascend", "release": version, "requires": requires}]})
    rows = [row for row in knowledge.stacks().of("vllm-ascend") if row.speaks_of(version)]
    assert [row.requires for row in rows] == [requires]


def test_a_site_writes_several_sets_of_a_release(stacks: Write) -> None:
    also = [{"mindspore": "2.7.0", "cann": "8.1.RC1"}, {"mindspore": None, "modelscope": "1.0"}]
    stacks(stacks={**FORMERS, "releases": [{**FORMERS["releases"][0], "also_requires": also}]})
    assert judged(mindformers="1.5.0", mindspore="2.7.0").findings == ()
    assert judged(mindformers="1.5.0", modelscope="1.0").findings == ()
    assert len(judged(mindformers="1.5.0", mindspore="2.7.1").findings) == 1


def test_a_site_removes_further_sets_of_a_release(stacks: Write) -> None:
    stacks(stacks={"releases": [{"framework": "verl", "release": "0.9.0", "also_requires": []}]})
    row = knowledge.stacks().release("verl", "0.9.0")
    assert row is not None
    assert len(row.sets()) == 1


def test_a_further_set_of_a_combination_is_read_as_strictly(stacks: Write) -> None:
    row = {"vllm_ascend": "v9", "vllm": "v9", "python": ">=3.10", "cann": "9.9.9", "torch": "9", "torch_npu": "9"}
    stacks(combinations={"stacks": [{**row, "also_requires": [{"cann": 7}]}]})
    [problem] = table.site_problems()
    assert "combinations.stacks[0]: also_requires[0]: cann: expected text" in problem


def test_a_combination_that_the_site_writes_counts_before_a_built_in_release(stacks: Write) -> None:
    known = {"vllm": "v0.26.0", "python": ">=3.10", "torch": "2.10.0", "torch_npu": "2.10.0.post4"}
    stacks(combinations={"stacks": [{**known, "vllm_ascend": "v0.26.0rc1", "cann": "9.9.9"}]})
    row = knowledge.stacks().release("vllm-ascend", "0.26.0rc1")
    assert row is not None
    assert row.requires["cann"] == "9.9.9"


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (
            {"releases": [{"framework": "mindformer", "release": "1", "requires": {}}]},
            "stacks.releases[0]: framework: the row has no effect: 'mindformer' is none of ",
        ),
        (
            {"releases": [{"framework": "verl", "release": "1", "requires": {"CANN": "8.5.0"}}]},
            "requires: CANN: no such part; did you mean cann?",
        ),
        (
            {"releases": [{"framework": "verl", "release": "1", "requires": {"transformer_engine": "2"}}]},
            "requires: transformer_engine: no such part; did you mean transformer-engine?",
        ),
        (
            {"releases": [{"framework": "verl", "release": "1", "requires": {}, "also_requires": [{"CANN": "8.5.0"}]}]},
            "also_requires[0]: CANN: no such part; did you mean cann?",
        ),
        (
            {"releases": [{"framework": "verl", "release": "1", "requires": {}, "also_requires": ["8.5.0"]}]},
            "also_requires",
        ),
        (
            {"releases": [{"framework": "verl", "release": "1", "requires": {"cann": 8.5}}]},
            "requires: cann: expected text, found number",
        ),
        *(
            (
                {"releases": [{"framework": "verl", "release": "1", "requires": {"driver": version}}]},
                f"requires: driver: {version!r} is no release; expected such as 2.7.1",
            )
            for version in (">=25.X.X", "new", ">=", ">=25.0, <", "25.0 or", "", "25..0")
        ),
        (
            {"chips": [{"package": "mindformers", "family": "A2", "supported": True}]},
            "stacks.chips[0]: package: the row has no effect: 'mindformers' is none of ",
        ),
        (
            {"chips": [{"package": "verl", "family": "910B", "supported": True}]},
            "stacks.chips[0]: family: the row has no effect: '910B' is none of ",
        ),
    ],
)
def test_a_row_without_effect_is_a_mistake_of_its_file(stacks: Write, said: dict[str, Any], words: str) -> None:
    path = stacks(stacks=said)
    [problem] = table.site_problems()
    assert problem.startswith(f"{path}: ")
    assert words in problem
    assert knowledge.stacks().release("verl", "1") is None


def test_a_release_may_be_of_a_framework_in_another_file(stacks: Write) -> None:
    stacks(name="20.json", stacks={"frameworks": FORMERS["frameworks"]})
    stacks(name="10.json", stacks={"releases": FORMERS["releases"], "chips": FORMERS["chips"]})
    assert table.site_problems() == ()
    assert knowledge.stacks().release("mindformers", "1.5.0") is not None


@pytest.mark.parametrize("bad", [5, {"frameworks": 5}, {"frameworks": [{"name": [], "brings": 5}], "releases": [7]}])
def test_a_bad_file_beside_a_good_one_alone_is_named(stacks: Write, bad: Any) -> None:
    stacks(name="10.json", stacks=FORMERS)
    stacks(name="20.json", stacks=bad)
    [problem] = table.site_problems()
    assert "20.json: stacks" in problem
    assert knowledge.stacks().find("MindFormers").name == "mindformers"


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
