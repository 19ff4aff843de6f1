"""What npudoctor knows: every row of every table loads, is well formed, and nothing that was collected is lost."""

import dataclasses
import json
import re
import subprocess
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from npudoctor import knowledge
from npudoctor.explain.code_forms import codes_in

ROOT = Path(__file__).resolve().parents[2]
TABLES: dict[str, Callable[[], Any]] = {name: getattr(knowledge, name) for name in knowledge.__all__}
SEVERITIES = {"info", "warning", "error"}


def rows(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every dataclass in a table, with where it stands."""
    if dataclasses.is_dataclass(value):
        yield path, value
        for field in dataclasses.fields(value):
            yield from rows(getattr(value, field.name), f"{path}.{field.name}")
    elif isinstance(value, tuple):
        for place, each in enumerate(value):
            yield from rows(each, f"{path}[{place}]")
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from rows(each, f"{path}[{key!r}]")


def fits(value: Any, hint: Any) -> bool:
    """Whether a value is what an annotation says."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return True
    if origin in (types.UnionType, typing.Union):
        return any(fits(value, each) for each in arguments)
    if origin is tuple and arguments[-1] is Ellipsis:
        return isinstance(value, tuple) and all(fits(each, arguments[0]) for each in value)
    if origin is tuple:
        same_length = isinstance(value, tuple) and len(value) == len(arguments)
        return same_length and all(map(fits, value, arguments))
    if origin is list:
        return isinstance(value, list) and all(fits(each, arguments[0]) for each in value)
    if origin is not None:
        return isinstance(value, Mapping) and all(
            fits(key, arguments[0]) and fits(each, arguments[1]) for key, each in value.items()
        )
    if hint is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, hint) and (hint is not int or not isinstance(value, bool))


@pytest.mark.thorough
@pytest.mark.parametrize("name", TABLES)
def test_every_row_holds_what_its_fields_promise(name: str) -> None:
    seen = 0
    for path, each in rows(TABLES[name](), name):
        hints = typing.get_type_hints(type(each))
        for field in dataclasses.fields(each):
            value = getattr(each, field.name)
            assert fits(value, hints[field.name]), f"{path}.{field.name} is {value!r}"
            seen += 1
    assert seen > 20


@pytest.mark.parametrize("name", TABLES)
def test_every_table_is_dated_and_every_row_names_its_sources(name: str) -> None:
    table = TABLES[name]()
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", table.as_of)
    for path, each in rows(table, name):
        sources = getattr(each, "sources", None)
        assert sources is None or (all(map(str.strip, sources)) and len(sources)), f"{path} has no source"


def test_keys_are_unique() -> None:
    for keys in (
        [release.version for release in knowledge.compatibility().releases],
        [variable.name for variable in knowledge.environment().variables],
        [family.id for family in knowledge.hardware().families],
        [device.device for device in knowledge.hardware().pci],
        [pitfall.id for pitfall in knowledge.pitfalls().rows],
        [pitfall.rank for pitfall in knowledge.pitfalls().rows],
        [code.code for code in knowledge.errors().codes],
        [module.module for module in knowledge.layout().compiler_packages],
    ):
        assert len(keys) == len(set(keys)) > 5


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON; the second value of a key would take the place of the first."""
    assert len({key for key, _ in pairs}) == len(pairs), [key for key, _ in pairs]
    return dict(pairs)


@pytest.mark.parametrize("name", sorted(path.name for path in (ROOT / "npudoctor/knowledge/tables").glob("*.json")))
def test_no_key_is_written_twice(name: str) -> None:
    text = (ROOT / "npudoctor/knowledge/tables" / name).read_text(encoding="utf-8")
    json.loads(text, object_pairs_hook=once)


def test_no_expression_of_a_known_issue_is_written_twice() -> None:
    for row in knowledge.pitfalls().rows:
        each = (*row.symptoms, *row.general, *row.hints)
        assert len(set(each)) == len(each), row.id


def test_references_between_the_tables_lead_somewhere() -> None:
    pitfalls, errors = knowledge.pitfalls(), knowledge.errors()
    assert all(errors.code(code) for pitfall in pitfalls.rows for code in pitfall.codes)
    named = [id for code in errors.codes for id in code.pitfalls]
    named += [id for message in errors.texts for id in message.pitfalls]
    named += [variable.pitfall for variable in knowledge.environment().variables if variable.pitfall]
    named += [defect.pitfall for defect in knowledge.compatibility().known_bad_releases]
    assert len(named) > 100
    assert all(map(pitfalls.pitfall, named))
    families = {family.id for family in knowledge.hardware().families}
    assert {device.family for device in knowledge.hardware().pci} <= families
    assert {plan.family for plan in knowledge.hardware().link_plans} <= families
    ruled = [set(variable.rules_by_family or ()) for variable in knowledge.environment().variables]
    assert set().union(*ruled) <= families


def test_all_regular_expressions_compile() -> None:
    expressions = [symptom for pitfall in knowledge.pitfalls().rows for symptom in pitfall.symptoms]
    expressions += [family.name_pattern for family in knowledge.hardware().families]
    expressions += [query.healthy for query in knowledge.hccl().hccn_queries]
    expressions += [v.rule.pattern for v in knowledge.environment().variables if v.rule and v.rule.pattern]
    assert len(expressions) > 150
    assert not any(re.compile(expression).fullmatch("") for expression in expressions), "one fits nothing at all"


def test_severities_are_the_three_words() -> None:
    found = {variable.severity for variable in knowledge.environment().variables}
    found |= {conflict.severity for conflict in knowledge.environment().conflicts}
    found |= {pitfall.severity for pitfall in knowledge.pitfalls().rows}
    for code in knowledge.errors().codes:
        found |= {code.severity, code.single_node_severity or "info", code.other_severity or "info"}
    assert found == SEVERITIES


def test_importing_the_package_reads_nothing_and_loading_needs_the_standard_library_alone() -> None:
    script = """
import sys
from npudoctor import knowledge
loaded = [name for name in sys.modules if name.startswith("npudoctor.")]
assert loaded == ["npudoctor.knowledge"], loaded
assert "json" not in sys.modules and "dataclasses" not in sys.modules
for name in knowledge.__all__:
    table = getattr(knowledge, name)
    assert table() is table(), f"{name} is read twice"
strangers = {name.partition(".")[0] for name in sys.modules} - set(sys.stdlib_module_names) - {"__main__"}
strangers = {name for name in strangers if not name.startswith(("_", "sitecustomize"))}
assert strangers == {"npudoctor"}, strangers
assert not [name for name in sys.modules if name.startswith(("npudoctor.facts", "npudoctor.host"))]
"""
    done = subprocess.run([sys.executable, "-S", "-c", script], capture_output=True, encoding="utf-8", cwd=ROOT)
    assert done.returncode == 0, done.stderr


def test_hccl_s_numbers_hang_together() -> None:
    hccl = knowledge.hccl()
    assert hccl.ports.base_max + hccl.ports.certain_count - 1 == 65535
    assert (hccl.ports.base, hccl.ports.full_count, hccl.ports.full_from_cann) == (60000, 32, "8.3.RC1")
    assert hccl.times.exec_max_910_s % hccl.times.exec_step_910_s == 0 == hccl.times.exec_s % hccl.times.exec_step_910_s
    assert hccl.times.event_s > hccl.times.exec_s
    assert hccl.more["hccn_conf"]["always"] == ["address", "netmask"]


def test_places_are_found_by_kind() -> None:
    layout = knowledge.layout()
    assert layout.places("prefix")[:2] == ("/usr/local/Ascend", "$HOME/Ascend")
    assert layout.places("set_env")[:2] == ("<prefix>/cann/set_env.sh", "<prefix>/ascend-toolkit/set_env.sh")
    assert "/usr/local/sbin/npu-smi" in layout.places("tools")
    assert {"google.protobuf", "attr", "yaml", "absl"} <= {package.module for package in layout.compiler_packages}
    optional = [package.module for package in layout.compiler_packages if not package.essential]
    assert optional == ["cython"]
    by_runtime = {mount.host for mount in layout.mounts if mount.runtime}
    assert "/etc/hccn.conf" not in by_runtime and "/usr/local/dcmi" in by_runtime
    assert layout.device_group == "HwHiAiUser"


def read(shared: Path, name: str) -> Any:
    return json.loads((shared / "knowledge" / f"{name}.json").read_text(encoding="utf-8"))


PAIRED_SINCE = {
    *("2.14.0", "2.13.0", "2.12.0.post3", "2.11.0.post3", "2.10.0.post7", "2.9.0.post9", "2.7.1.post11"),
    *("2.4.0.post3", "2.3.1.post5", "2.1.0.post17", "2.1.0.post11"),
}
"""Releases of torch_npu of which later sources say more than what was collected."""


def test_every_collected_release_is_here(shared: Path) -> None:
    table, collected = knowledge.compatibility(), read(shared, "compatibility")
    assert [release.version for release in table.releases] == [row["torch_npu"] for row in collected["torch_npu"]]
    for release, row in zip(table.releases, collected["torch_npu"], strict=True):
        assert release.torch == row["torch"]
        assert list(release.pythons) == row.get("python_from_wheels", [])
        assert set(row["cann"]) <= set(release.cann)
        if release.version not in PAIRED_SINCE:
            told = (list(release.cann), release.pta_release, release.confidence.value)
            assert told == (row["cann"], row["pta_release"], row["confidence"])
        assert release.requires_x86_64 == (
            tuple(row["requires_dist_x86_64"]) if "requires_dist_x86_64" in row else None
        )
        assert set(row["sources"]) <= set(release.sources)
        assert release.on_pypi is row["on_pypi"]
    assert {row["cann"] for row in collected["cann_vs_hdk"]} <= {support.cann for support in table.hdk_support}
    windows = {window.pta_release: set(window.cann_ok) for window in table.windows}
    for row in collected["pta_release_vs_cann_backward_compat"]:
        assert set(row["cann_ok"]) <= windows[row["pta_release"]]
    assert len(table.lifecycles) == len(collected["lifecycle_by_torch"])
    assert len(table.python_support) == len(collected["cann_python_support"])
    combinations = knowledge.combinations()
    assert len(combinations.stacks) == len(collected["vllm_ascend_matrix"]["rows"])
    assert len(combinations.feature_floors) == len(collected["hdk_feature_floors"])
    assert len(combinations.driver_firmware) == len(collected["driver_vs_firmware_examples"])


def test_every_collected_variable_is_here(shared: Path) -> None:
    environment = knowledge.environment()
    for row in read(shared, "environment")["variables"]:
        for name in row["name"].split(" / "):
            variable = environment.variable(name)
            assert variable, name
            assert variable.severity == row["severity_if_wrong"].split()[0]
            assert variable.legal == (row["legal"] if row["legal"] != "-" else "any value")
            assert set(variable.sources) <= set("; ".join(row["source"]).split("; "))


def test_every_collected_pitfall_code_and_chip_is_here(shared: Path) -> None:
    collected = read(shared, "pitfalls")["items"]
    pitfalls, errors, hardware = knowledge.pitfalls(), knowledge.errors(), knowledge.hardware()
    assert [pitfall.id for pitfall in pitfalls.rows][: len(collected)] == [row["id"] for row in collected]
    assert all(errors.code(code) for row in collected for code in row["codes"])
    for document in ("HCCL.md", "HARDWARE.md", "PITFALLS.md", "ENVIRONMENT.md"):
        text = (shared / "knowledge" / document).read_text(encoding="utf-8")
        for code in re.findall(r"\bE[EHIJLZ]\d{4}\b|\bERR\d{5}\b|(?<!\d)-[89]0\d\d\b|\b0x8[0-9A-F]{7}\b", text):
            assert errors.code(code), f"{code} of {document}"
    chips = read(shared, "hardware")
    assert [family.id for family in hardware.families] == [row["family"] for row in chips["chips"]]
    assert {device.device for device in hardware.pci} == set(chips["pci_ids"]["devices"])
    dtypes = {**chips["collective_dtypes"], "310P": chips["collective_dtypes"]["310P Duo"]}
    assert all(list(f.allreduce_dtypes) == dtypes[f.id] for f in hardware.families if f.allreduce_dtypes)


def test_every_judge_is_a_check_of_the_catalogue(shared: Path) -> None:
    catalogue = (shared / "design" / "CHECKS.md").read_text(encoding="utf-8")
    judges = {variable.judge for variable in knowledge.environment().variables if variable.judge}
    assert len(judges) > 8
    assert all(f"| `{judge}` |" in catalogue for judge in judges)


def test_recorded_chips_and_logs_are_understood(shared: Path) -> None:
    index = json.loads((shared / "captures" / "index.json").read_text(encoding="utf-8"))
    entries = index if isinstance(index, list) else next(value for value in index.values() if isinstance(value, list))
    causes = json.loads((shared / "captures" / "causes.json").read_text(encoding="utf-8"))
    chips = logs = 0
    for entry in entries:
        if entry["kind"] == "npu-smi-info":
            for row in entry["expect"]["npus"]:
                family = knowledge.hardware().family_by_name(
                    row["name"], hbm_total_mb=row.get("hbm_total_mb"), memory_total_mb=row.get("mem_total_mb")
                )
                generation = "A3" if "A3" in entry["chip"] else entry["chip"].split(" ")[0]
                assert row["name"] == "xxx" or family, row["name"]
                if family and generation in ("910A", "910ProB", "910B1", "910B2C", "910B3", "910B4-1", "310P3", "310"):
                    wanted = knowledge.hardware().family_by_name(generation)
                    assert family is wanted, entry["path"]
                chips += 1
        elif entry["kind"].startswith("log-") and entry["expect"].get("cause"):
            text = (shared / "captures" / entry["path"]).read_text(encoding="utf-8")
            matched = [pitfall.id for pitfall in knowledge.pitfalls().match(text)]
            assert matched[0] in causes[entry["expect"]["cause"]], entry["path"]
            found = {code.id for reading in codes_in(text) for code in reading.codes}
            wanted_codes = {str(entry["expect"][key]) for key in ("error_code", "acl_code") if entry["expect"].get(key)}
            assert wanted_codes <= found, entry["path"]
            logs += 1
    assert chips > 60 and logs > 10


def test_healthy_nodes_have_no_illegal_variable(shared: Path) -> None:
    environment = knowledge.environment()
    read_from = sorted(shared.glob("scenarios/*/bundle/environ.json"))
    assert len(read_from) > 3
    for path in read_from:
        environ: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))
        for name, value in environ.items():
            variable = environment.variable(name)
            assert not (variable and variable.problem(value)), f"{path.parent.parent.name}: {name}"
        assert set(environ) <= environment.recorded
        assert not environment.conflicts_in(environ, family="A2")
