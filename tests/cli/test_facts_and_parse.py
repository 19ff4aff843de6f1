"""`npudoctor facts` and `npudoctor parse`: what is known, as data, and nothing that is nobody's business."""

import json
from pathlib import Path

import pytest

from .conftest import Command

SHARED = Path(__file__).resolve().parents[3] / "shared" / "captures"
INDEX = SHARED / "index.json"
EXACT = (
    "npu-smi-info",
    "npu-smi-topo",
    "npu-smi-list",
    "npu-smi-map",
    "npu-smi-board",
    "npu-smi-version",
    "npu-smi-error",
    "version-driver",
    "version-firmware",
    "cann-install-info",
    "cann-version-cfg",
    "ascend-install-info",
)


def captures() -> list[dict[str, object]]:
    if not INDEX.is_file():
        return []
    return [entry for entry in json.loads(INDEX.read_text(encoding="utf-8")) if entry["kind"] in EXACT]


def test_the_captures_are_there_or_their_absence_is_said() -> None:
    if not INDEX.is_file():
        pytest.skip("the folder ../shared with the real outputs is not there")
    assert len(captures()) >= 55


@pytest.mark.parametrize("capture", captures(), ids=lambda capture: str(capture["path"]))
def test_parse_prints_what_a_capture_holds(npudoctor: Command, capture: dict[str, object]) -> None:
    ran = npudoctor("parse", str(capture["kind"]), str(SHARED / str(capture["path"])))
    assert ran.code == 0, ran.err
    assert contains(ran.json, capture["expect"])


def contains(found: object, expected: object) -> bool:
    """Whether all that is expected stands in what was found; what the text does not hold is absent or null."""
    if isinstance(expected, dict):
        assert isinstance(found, dict)
        return all(contains(found.get(key), value) for key, value in expected.items())
    if isinstance(expected, list):
        assert isinstance(found, list)
        return len(found) == len(expected) and all(map(contains, found, expected))
    assert found == expected
    return True


def test_text_of_another_kind_is_one_line_and_exit_1(npudoctor: Command, tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_text("bash: npu-smi: command not found\n", encoding="utf-8")
    for kind in ("npu-smi-info", "npu-smi-topo", "version-driver"):
        ran = npudoctor("parse", kind, str(path))
        assert (ran.code, ran.out) == (1, "")
        assert ran.err.startswith(f"npudoctor parse: not {kind}: ")
        assert ran.err.count("\n") == 1


def test_every_fact_of_a_node_is_printed_or_its_absence_explained(npudoctor: Command) -> None:
    facts = npudoctor("facts", "--json", "--simulate", "seed-910b1").json
    assert facts["npu_smi.npu_smi_info"]["value"]["npus"][0]["name"] == "910B1"
    assert all({"value"} == set(fact) or "unavailable" in fact for fact in facts.values())
    absent = npudoctor("facts", "--json", "--simulate", "bare-host").json
    assert absent["npu_smi.npu_smi_info"] == {"unavailable": "npu-smi is not installed", "because": "absent"}


def test_one_fact_can_be_asked_for(npudoctor: Command) -> None:
    facts = npudoctor("facts", "--json", "system.platform", "--simulate", "seed-910b1").json
    assert list(facts) == ["system.platform"]
    assert facts["system.platform"]["value"]["machine"] == "aarch64"


def test_variables_that_npudoctor_does_not_know_are_not_printed(
    npudoctor: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush-hush")
    monkeypatch.setenv("HCCL_BUFFSIZE", "120")
    for form in ([], ["--json"]):
        printed = npudoctor("facts", *form, "node.job_environment").out
        assert "hush-hush" not in printed
        assert "HCCL_BUFFSIZE" in printed


def test_this_machine_has_facts_too(npudoctor: Command) -> None:
    facts = npudoctor("facts", "--json").json
    assert facts["system.memory"]["value"]["total_bytes"] > 0
    assert not [name for name, fact in facts.items() if "crashed" in fact]
