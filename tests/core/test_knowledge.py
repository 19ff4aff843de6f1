"""What npudoctor knows: every row loads and is well formed, the tables answer, and their traps are known."""

import dataclasses
import enum
import itertools
import json
import re
import subprocess
import sys
import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npudoctor import knowledge
from npudoctor.facts import versions
from npudoctor.knowledge.chips import bare_name
from npudoctor.knowledge.pairs import Confidence, Fit
from npudoctor.knowledge.patterns import canonical, covers, train
from npudoctor.knowledge.values import Kind

TABLES = {name: getattr(knowledge, name) for name in knowledge.__all__}
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


# The tables themselves


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


def test_references_between_the_tables_lead_somewhere() -> None:
    pitfalls, errors = knowledge.pitfalls(), knowledge.errors()
    assert all(errors.code(code) for pitfall in pitfalls.rows for code in pitfall.codes)
    named = [id for code in (*errors.codes, *errors.texts) for id in code.pitfalls]
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
    done = subprocess.run([sys.executable, "-S", "-c", script], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr


ROOT = Path(__file__).resolve().parents[2]


# Versions


def plain(pattern: str) -> str:
    return pattern.removesuffix(".X") + (".0" if pattern.endswith(".X") else "")


def test_every_version_text_is_understood() -> None:
    table = knowledge.compatibility()
    for release in table.releases:
        versions.TorchNpuVersion.parse(release.version)
        versions.TorchNpuVersion.parse(release.torch)
        for cann in (*release.cann, *release.cann_seen, *map(plain, release.cann_guess)):
            versions.CannVersion.parse(cann)
        if release.pta_release and release.pta_release != "daily":
            versions.PtaVersion.parse(plain(release.pta_release.split(" ")[0].upper()))
    for window in table.windows:
        versions.PtaVersion.parse(plain(window.pta_release))
        assert all(map(versions.CannVersion.parse, map(plain, window.cann_ok)))
    for support in table.hdk_support:
        versions.CannVersion.parse(support.cann)
        assert all(
            versions.DriverVersion.parse(plain(driver))
            for driver in (*support.paired, *support.compatible, *support.incompatible)
        )
    for pair in knowledge.combinations().driver_firmware:
        versions.DriverVersion.parse(pair.driver)
        for firmware in (pair.firmware, *(pair.firmware_range or ())):
            assert firmware is None or versions.FirmwareVersion.parse(firmware)
    for stack in knowledge.combinations().stacks:
        versions.CannVersion.parse(stack.cann)
        assert table.release(stack.torch_npu), f"{stack.vllm_ascend} uses an unknown torch_npu {stack.torch_npu}"


@pytest.mark.parametrize(
    ("kind", "version"),
    [
        ("cann", versions.CannVersion),
        ("driver", versions.DriverVersion),
        ("pta_release", versions.PtaVersion),
        ("firmware", versions.FirmwareVersion),
    ],
)
def test_versions_rise_in_the_published_order(kind: str, version: type[versions.Version]) -> None:
    parsed = [version.parse(text) for text in knowledge.compatibility().orders[kind]]
    assert all(one < other for one, other in itertools.pairwise(parsed))


def test_two_spellings_of_one_cann_are_one_cann() -> None:
    for one, other in knowledge.compatibility().same_cann:
        assert canonical(one) == canonical(other)
        assert versions.CannVersion.parse(one) == versions.CannVersion.parse(other)


def test_releases_stand_newest_first() -> None:
    torches = [versions.TorchNpuVersion.parse(release.torch) for release in knowledge.compatibility().releases]
    misprint = versions.TorchNpuVersion.parse("1.8.1"), versions.TorchNpuVersion.parse("1.5.0")
    kept = [
        torch for place, torch in enumerate(torches) if not (torch == misprint[0] and misprint[1] in torches[:place])
    ]
    assert kept == sorted(kept, reverse=True)
    assert len(kept) == len(torches) - 1


@pytest.mark.parametrize(
    ("pattern", "version", "meant"),
    [
        ("8.5.X", "8.5.2", True),
        ("8.5.X", "8.50.0", False),
        ("8.3.RC1", "8.3.rc1", True),
        ("8.3.RC1", "8.3.RC1.alpha001", False),
        ("8.0.RC2", "8.0.RC2.beta1", True),
        ("8.0.0", "8.0.0.beta1", True),
        ("9.1.0", "9.1.0-beta.3", False),
        ("24.1.0", "24.1.0.3", True),
        ("25.0.RC1", "25.0.rc1.1", True),
        ("24.1.RC3", "24.1.rc3.b999", True),
        ("25.5.1", "25.5.10", False),
        ("8.0.X", "8.0.T6", False),
    ],
)
def test_a_table_s_entry_means_a_version_its_patches_and_nothing_else(pattern: str, version: str, meant: bool) -> None:
    assert covers(pattern, version) is meant


@given(st.text(max_size=30), st.text(max_size=30))
def test_no_text_upsets_the_version_patterns(one: str, other: str) -> None:
    table = knowledge.compatibility()
    assert covers(one, one) or train(one) is not None or one.upper() != one
    assert isinstance(covers(one, other), bool)
    assert table.release("no " + one) is None
    assert table.hdk("no " + one) is None


# Compatibility


@pytest.mark.parametrize(
    ("torch_npu", "cann", "fit"),
    [
        ("2.7.1.post2", "8.5.0", Fit.PAIRED),
        ("2.12.0.post2", "9.1.7", Fit.PAIRED),  # the table names the range 9.1.X
        ("2.7.1", "8.3.RC2", Fit.SEEN),
        ("2.7.1", "8.0.0", Fit.COMPATIBLE),
        ("2.7.1", "9.0.0-beta.2", Fit.OUTSIDE),
        ("2.7.1.post1", "8.2.RC1", Fit.COMPATIBLE),  # its train is 7.2.x
        ("2.9.0.post4", "8.3.RC2", Fit.COMPATIBLE),  # a later candidate of a train in the window of 26.0.X
        ("2.9.0.post2", "8.0.0", Fit.OUTSIDE),
        ("2.10.0.post4", "8.5.1", Fit.COMPATIBLE),
        ("2.14.0", "9.1.1", Fit.EXPECTED),
        ("2.14.0", "8.5.0", Fit.UNKNOWN),  # no pair and no window is published
        ("2.10.0", "9.2.0", Fit.UNKNOWN),  # newer than the tables
        ("2.10.0", "8.1.T6", Fit.UNKNOWN),  # a test build
        ("2.3.1", "8.0.RC2", Fit.PAIRED),
        ("2.3.1", "8.5.0", Fit.UNPAIRED),  # 6.0.rc2: older than the windows
    ],
)
def test_torch_npu_and_cann_fit_as_published(torch_npu: str, cann: str, fit: Fit) -> None:
    table = knowledge.compatibility()
    release = table.release(torch_npu)
    assert release
    assert table.fit(release, cann) is fit


def test_a_post_release_is_a_release_of_its_own() -> None:
    table = knowledge.compatibility()
    plain, post = table.release("2.7.1"), table.release("2.7.1.post4")
    assert plain and post
    assert (plain.cann, post.cann) == (("8.3.RC1",), ("9.0.0",))
    assert table.release("2.7.1.post3") is None
    assert table.release(" 2.7.1.POST4+git1234567 ") is post
    local = table.release("2.9.0.post1+git4c901a4")
    assert local and local.cann == ("8.5.1",)
    assert [each.version for each in table.releases_for_torch("2.5.1+cpu")][-1] == "2.5.1rc1"


def test_every_published_pair_fits_itself() -> None:
    table = knowledge.compatibility()
    pairs = [(release, cann) for release in table.releases for cann in release.cann]
    assert len(pairs) > 80
    assert all(table.fit(release, cann) is Fit.PAIRED for release, cann in pairs)


@pytest.mark.parametrize(
    ("cann", "python", "best"),
    [
        ("9.1.0", "3.11", "2.12.0.post2"),
        ("9.0.0", "3.9", "2.8.0.post4"),
        ("8.5.0", "3.11", "2.9.0"),
        ("8.5.0", "3.9", "2.8.0.post2"),
        ("8.3.RC1", "3.10", "2.8.0"),
        ("8.0.RC3", "3.10", "2.4.0"),
        ("7.0.0", "3.9", "2.1.0"),
    ],
)
def test_the_best_release_for_a_cann_is_maintained_official_and_installable(cann: str, python: str, best: str) -> None:
    advised = knowledge.compatibility().releases_for_cann(cann, python=python)
    assert advised[0].version == best


def test_advice_never_names_a_release_that_is_bad_or_has_no_wheel() -> None:
    table = knowledge.compatibility()
    for cann in table.orders["cann"]:
        for python in ("3.8", "3.9", "3.11", "3.12.4", "3.13"):
            for release in table.releases_for_cann(cann, python=python):
                assert release.supports_python(python) is not False
                assert not table.known_bad(release.version, python=python, cann=cann)
                assert table.fit(release, cann).is_good
    assert table.releases_for_cann("42.0.0") == ()


def test_wheels_say_which_python_and_glibc_they_need() -> None:
    table = knowledge.compatibility()
    old, new, unknown = table.release("2.5.1"), table.release("2.6.0"), table.release("2.6.0.post6")
    assert old and new and unknown
    assert old.supports_python("3.12") is False
    assert old.supports_python("3.11.9") is True
    assert old.supports_python("3.1") is False
    assert unknown.supports_python("3.10") is True, "from the project's own range"
    assert unknown.supports_python("3.12") is False
    assert (old.glibc_floor("aarch64"), new.glibc_floor("aarch64"), new.glibc_floor("x86_64")) == (
        (2, 17),
        (2, 28),
        (2, 17),
    )
    assert unknown.glibc_floor("x86_64") is None
    assert new.requires("x86_64") == ("torch==2.6.0+cpu",)
    unpinned = table.release("2.1.0")
    assert unpinned and unpinned.requires("x86_64") == (), "the wheel names no torch at all"
    assert unpinned.requires("aarch64") is None


def test_known_defects_show_only_where_they_bite() -> None:
    table = knowledge.compatibility()
    assert [defect.pitfall for defect in table.known_bad("2.12.0", python="3.12.1")] == ["P040"]
    assert table.known_bad("2.12.0", python="3.11") == ()
    assert table.known_bad("2.12.0") == ()
    assert table.known_bad("2.12.0.post2", python="3.13") == ()
    assert [defect.id for defect in table.known_bad("2.7.1", python="3.11", cann="9.0.0-beta.2")] == ["P012"]
    for defect in table.known_bad_releases:
        for bad, better in defect.fixed_in.items():
            assert table.release(bad) and table.release(better), f"{bad} or {better} is in no row"
            assert versions.TorchNpuVersion.parse(bad) < versions.TorchNpuVersion.parse(better)


def test_drivers_are_judged_by_the_lists_of_the_cann() -> None:
    support = knowledge.compatibility().hdk("9.1.0")
    assert support
    assert support.fit("25.0.rc1.1") is Fit.OUTSIDE
    assert support.fit("26.0.rc1") is Fit.PAIRED
    assert support.fit("25.5.2") is Fit.COMPATIBLE
    assert support.fit("24.1.0") is Fit.UNKNOWN, "older than the list: the order decides, not the text"
    assert support.oldest_compatible == "25.2.X"
    assert knowledge.compatibility().hdk("8.0.0.beta1") is knowledge.compatibility().hdk("8.0.0")
    assert knowledge.compatibility().hdk("8.4.0") is None
    for each in knowledge.compatibility().hdk_support:
        trains = [train(entry) for entry in each.compatible]
        assert not trains or trains[0] == min(filter(None, trains)), f"{each.cann}: the oldest is not first"


def test_a_cann_supports_a_range_of_pythons() -> None:
    table = knowledge.compatibility()
    old, new = table.python("8.2.rc1"), table.python("9.0.1")
    assert old and new
    assert (old.supports("3.11.9"), old.supports("3.12"), new.supports("3.13"), new.supports("3.14")) == (
        True,
        False,
        True,
        False,
    )
    assert old.numpy == ">=1.19.2,<=1.24.0"
    assert table.python("8.0.0") is None


def test_confidence_is_explained_in_words() -> None:
    table = knowledge.compatibility()
    assert {confidence.value for confidence in Confidence} == set(table.confidence_levels)
    line = table.lifecycle("2.6.0+cpu")
    assert line and (line.status, line.next, line.next_from) == ("maintenance", "eol", "2027-01-25")


# Environment variables

LEGAL = {
    "HCCL_IF_IP": ["10.0.0.7", "fe80::1", "::1"],
    "HCCL_IF_BASE_PORT": ["1024", "65520", " 60000 "],
    "HCCL_SOCKET_IFNAME": ["eth", "=eth0,enp0", "^eth", "^=eth0", "bond0.100"],
    "HCCL_SOCKET_FAMILY": ["AF_INET6"],
    "HCCL_HOST_SOCKET_PORT_RANGE": ["auto", "60000", "60000,60050-60100"],
    "HCCL_DETERMINISTIC": ["TRUE", "strict"],
    "HCCL_RDMA_TC": ["0", "132", "252"],
    "HCCL_OP_RETRY_ENABLE": ["L0:0,L1:1,L2:1", "L1:0, L2:0"],
    "HCCL_DFS_CONFIG": ["connection_fault_detection_time:0", "cluster_heartbeat:off,new_key:17"],
    "HCCL_ALGO": ["level0:NA;level1:ring", "anything"],
    "ASCEND_RT_VISIBLE_DEVICES": ["0", "0,1,2,3", "4,7,100"],
    "ASCEND_RUNTIME_OPTIONS": ["NODRV,VIRTUAL", "VIRTUAL"],
    "ASCEND_MODULE_LOG_LEVEL": ["HCCL=1", "HCCL=1:GE=0"],
    "CPU_AFFINITY_CONF": ["1", "2,force:1", "1,npu0:0-23,npu1:24-47"],
    "PYTORCH_NPU_ALLOC_CONF": [
        "expandable_segments:True",
        "max_split_size_mb:256,garbage_collection_threshold:0.8",
        "expandable_segments:False,max_split_size_mb:64",
        "page_size:1g, roundup_power2_divisions:[256:1,512:2,>:4]",
    ],
    "HCCL_EXEC_TIMEOUT": ["68", "1836", "1090.99"],
    "HCCL_OP_EXPANSION_MODE": ["AIV", "AI_CPU", "HOST", "CCU_SCHED"],
    "INF_NAN_MODE_ENABLE": ["0", "1"],
    "OMP_NUM_THREADS": ["1", "24", "4,2"],
    "VLLM_WORKER_MULTIPROC_METHOD": ["spawn"],
    "VLLM_VERSION": ["0.9.1", "0.9.1rc1"],
    "ASCEND_COREDUMP_SIGNAL": ["none", "all"],
    "TORCH_NPU_WARNING_DISABLE": ["yes"],
    "ASCEND_VISIBLE_DEVICES": ["0-7", "Ascend910-0,Ascend910-1", "void"],
    "SOC_VERSION": ["ascend910b1"],
}
ILLEGAL = {
    "HCCL_IF_IP": ["localhost", "10.0.0", "10.0.0.7/24"],
    "HCCL_IF_BASE_PORT": ["1023", "65521", "60000-60031", "6e4", "0xea60", "60_000", "٦٠٠٠٠"],
    "HCCL_SOCKET_IFNAME": ["eth0,,eth1", "eth0 eth1", "="],
    "HCCL_HOST_SOCKET_PORT_RANGE": ["60000:60015", "sixty"],
    "HCCL_DETERMINISTIC": ["1", "yes"],
    "HCCL_RDMA_TC": ["133", "256", "-4"],
    "HCCL_RDMA_SL": ["8"],
    "HCCL_BUFFSIZE": ["0", "200MB", "0.5"],
    "HCCL_DFS_CONFIG": ["connection_fault_detection_time:10", "cluster_heartbeat:maybe", "heartbeat"],
    "HCCL_WHITELIST_DISABLE": ["true"],
    "HCCL_LOGLEVEL": ["INFO"],
    "HCCL_LOGIC_SUPERPOD_ID": ["x" * 128],
    "ASCEND_RT_VISIBLE_DEVICES": ["0, 1", "1,0", "0,0", "0,", "all", "0-7"],
    "ASCEND_GLOBAL_LOG_LEVEL": ["5", "INFO"],
    "ASCEND_RUNTIME_OPTIONS": ["NODRV;VIRTUAL"],
    "PYTORCH_NPU_ALLOC_CONF": [
        "expandable_segments:True,max_split_size_mb:64",
        "max_split_size_mb:20",
        "garbage_collection_threshold:80",
        "expandable_segments=True",
    ],
    "HCCL_EXEC_TIMEOUT": ["-1", "forever"],
    "HCCL_OP_EXPANSION_MODE": ["GPU"],
    "TORCH_TRANSFER_TO_NPU": ["true"],
    "STREAMS_PER_DEVICE": ["16"],
    "OMP_NUM_THREADS": ["0"],
    "VLLM_WORKER_MULTIPROC_METHOD": ["fork"],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name in LEGAL for value in LEGAL[name]])
def test_a_legal_value_raises_no_alarm(name: str, value: str) -> None:
    variable = knowledge.environment().variable(name)
    assert variable and variable.problem(value) is None


@pytest.mark.parametrize(("name", "value"), [(name, value) for name in ILLEGAL for value in ILLEGAL[name]])
def test_an_illegal_value_is_said_in_words(name: str, value: str) -> None:
    variable = knowledge.environment().variable(name)
    assert variable
    assert re.match(r"[\w'\".-]+.* ", variable.problem(value) or "")


def test_an_empty_value_counts_as_unset() -> None:
    for variable in knowledge.environment().variables:
        assert variable.problem("") is None and variable.problem("  ") is None, variable.name


def test_every_default_that_is_a_value_is_legal() -> None:
    literal = [
        (variable, variable.default)
        for variable in knowledge.environment().variables
        if variable.default
        and re.fullmatch(r"-?\d+|True|False|TRUE|FALSE|AF_INET|enable|L\d.*|\w+:\w+.*", variable.default)
    ]
    assert len(literal) > 35
    assert not [variable.name for variable, default in literal if variable.problem(default)]
    expansion = knowledge.environment().variable("HCCL_OP_EXPANSION_MODE")
    assert expansion and expansion.default == "A2: HOST; A3: AI_CPU; 950: AICPU_TS"
    for family, default in (("A2", "HOST"), ("A3", "AI_CPU"), ("950", "AICPU_TS")):
        assert expansion.problem(default, family=family) is None


def test_the_product_decides_where_products_differ() -> None:
    environment = knowledge.environment()
    wait, rdma, mode = map(environment.variable, ("HCCL_EXEC_TIMEOUT", "HCCL_RDMA_TIMEOUT", "HCCL_OP_EXPANSION_MODE"))
    assert wait and rdma and mode
    assert wait.problem("0", family="910") and not wait.problem("0", family="A2") and not wait.problem("0")
    assert wait.problem("17341", family="310P") and not wait.problem("17341", family="A3")
    assert rdma.problem("24", family="A2") and not rdma.problem("24", family="950") and not rdma.problem("24")
    assert mode.problem("HOST", family="A3") and not mode.problem("HOST", family="910"), "910 is not in its table"
    assert "A3" in (mode.problem("GPU") or "")


def test_what_only_a_host_can_tell_is_left_to_a_check() -> None:
    by_host = {Kind.DIRECTORY, Kind.DIRECTORIES, Kind.FILE, Kind.SAME_PATH, Kind.CONTAINS, Kind.INTERFACE, Kind.ANY}
    left = [v for v in knowledge.environment().variables if v.rule and v.rule.kind in by_host]
    assert len(left) > 30
    for variable in left:
        assert variable.problem("/does/not/exist") is None
        assert variable.rule and (variable.rule.kind is not Kind.ANY or variable.rule.why), f"{variable.name}: why not?"
    table = knowledge.environment().variable("RANK_TABLE_FILE")
    assert table and table.paths and table.rule and table.rule.absolute and table.rule.no_link


def test_each_variable_has_one_judge() -> None:
    environment = knowledge.environment()
    judged = {name: variable.judge for name in LEGAL if (variable := environment.variable(name))}
    assert judged["ASCEND_RT_VISIBLE_DEVICES"] == "env.visible-devices"
    assert judged["HCCL_IF_BASE_PORT"] == judged["HCCL_HOST_SOCKET_PORT_RANGE"] == "hccl.base-port"
    assert judged["HCCL_IF_IP"] == judged["HCCL_SOCKET_IFNAME"] == "hccl.interface"
    assert judged["HCCL_SOCKET_FAMILY"] is None
    names = {variable.name for variable in environment.judged_by("hccl.timeouts")}
    assert names == {"HCCL_CONNECT_TIMEOUT", "HCCL_EXEC_TIMEOUT", "HCCL_EVENT_TIMEOUT"}
    assert len(list(environment.judged_by(None))) > 60


@pytest.mark.parametrize(
    ("set_to", "family", "illegal"),
    [
        ({"HCCL_INTRA_PCIE_ENABLE": "1", "HCCL_INTRA_ROCE_ENABLE": "1"}, "A2", True),
        ({"HCCL_INTRA_PCIE_ENABLE": "0"}, "910", True),
        ({"HCCL_INTRA_ROCE_ENABLE": "0"}, "A2", True),
        ({"HCCL_INTRA_ROCE_ENABLE": "1"}, "A2", False),
        ({"HCCL_INTRA_PCIE_ENABLE": "0", "HCCL_INTRA_ROCE_ENABLE": "0"}, "A2", False),
        ({"HCCL_INTRA_PCIE_ENABLE": "0"}, "A3", False),
        ({"HCCL_INTRA_PCIE_ENABLE": "0"}, None, False),
        ({}, "A2", False),
        ({"INF_NAN_MODE_ENABLE": "0"}, "A3", True),
        ({"INF_NAN_MODE_ENABLE": "0"}, "910", False),
        ({"INF_NAN_MODE_ENABLE": "0", "INF_NAN_MODE_FORCE_DISABLE": "1"}, "A2", False),
        ({"PYTORCH_NPU_ALLOC_CONF": "a:b", "PYTORCH_ALLOC_CONF": "c:d"}, None, True),
        ({"PYTORCH_NPU_ALLOC_CONF": "a:b", "PYTORCH_ALLOC_CONF": ""}, None, False),
    ],
)
def test_variables_that_exclude_each_other_are_found(set_to: dict[str, str], family: str, illegal: bool) -> None:
    assert bool(knowledge.environment().conflicts_in(set_to, family=family)) is illegal


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("ASCEND_RT_VISIBLE_DEVICE", "ASCEND_RT_VISIBLE_DEVICES"),
        ("HCCL_SOCKET_IFNAM", "HCCL_SOCKET_IFNAME"),
        ("HCCL_CONECT_TIMEOUT", "HCCL_CONNECT_TIMEOUT"),
        ("HCCL_BUFSFIZE", "HCCL_BUFFSIZE"),
        ("hccl_if_ip", "HCCL_IF_IP"),
        ("ASCEND_LOG_PRINT_TO_STDOUT", None),  # legal, and one letter from the older name
        ("HCCL_IF_IP", None),
        ("HOME", None),
        ("HCCL_SOMETHING_ELSE", None),
    ],
)
def test_a_typing_slip_is_told_from_a_name_of_its_own(name: str, meant: str | None) -> None:
    assert knowledge.environment().misspelling_of(name) == meant


def test_no_known_name_is_a_slip_of_another() -> None:
    environment = knowledge.environment()
    assert not [name for name in environment.recorded if environment.misspelling_of(name)]


def test_what_may_hold_a_password_is_never_recorded() -> None:
    recorded = knowledge.environment().recorded
    assert {"ASCEND_HOME_PATH", "LD_LIBRARY_PATH", "HOME", "CONDA_PREFIX", "no_proxy", "HCCL_IF_IP"} <= recorded
    assert "http_proxy" not in recorded
    assert not [name for name in recorded if re.search("token|secret|passw|credential|key$", name, re.IGNORECASE)]


def test_an_orchestrator_is_known_by_its_variables() -> None:
    environment = knowledge.environment()
    assert environment.orchestrator({"SLURM_JOB_ID": "17"}) == "Slurm"
    assert environment.orchestrator({"HOME": "/root", "SLURM_JOB_ID": ""}) is None
    names = {name for names in environment.orchestrators.values() for name in names}
    assert names <= environment.recorded


@given(st.text(max_size=60))
def test_no_value_upsets_the_judgement(value: str) -> None:
    environment = knowledge.environment()
    for variable in environment.variables:
        for family in (None, "910", "A2", "nonsense"):
            problem = variable.problem(value, family=family)
            assert problem is None or problem.strip()
    assert environment.misspelling_of(value) is None or value not in environment.recorded


# Hardware


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("910A", "910"),
        ("910ProB", "910"),
        ("Ascend910PremiumA", "910"),
        ("Ascend 910A", "910"),
        ("910B", "910"),
        ("Ascend910B", "910"),
        ("910B3", "A2"),
        ("910B2C", "A2"),
        ("910B4-1", "A2"),
        ("Ascend910B1", "A2"),
        ("Ascend910", "A3"),
        ("Ascend910_9391", "A3"),
        ("910_9372", "A3"),
        ("310P3", "310P"),
        ("310", "310"),
        ("310B4", "310B"),
        ("Ascend950PR", "950"),
        ("Ascend950PR_9579", "950"),
        ("xxx", None),
        ("", None),
        ("Mcu", None),
    ],
)
def test_a_chip_s_name_names_its_family(name: str, family: str | None) -> None:
    found = knowledge.hardware().family_by_name(name)
    assert (found.id if found else None) == family


def test_a_910b_without_a_digit_is_told_by_its_memory() -> None:
    hardware = knowledge.hardware()
    first = hardware.family_by_name("910B", hbm_total_mb=32768, memory_total_mb=15039)
    second = hardware.family_by_name("910B", hbm_total_mb=65536, memory_total_mb=0)
    assert first and second
    assert (first.id, second.id) == ("910", "A2")


def test_every_soc_name_is_of_its_own_family() -> None:
    hardware = knowledge.hardware()
    for family in hardware.families:
        for soc in family.soc_names:
            found = hardware.family_by_name(soc.replace("*", "9579"))
            assert found is family, soc


def test_pci_ids_name_family_and_board() -> None:
    hardware = knowledge.hardware()
    assert (hardware.pci_vendor, len(hardware.accelerator_ids)) == ("0x19e5", 8)
    a2 = hardware.family_by_pci("0xD802", "0x19E5")
    assert a2 and a2.id == "A2"
    assert hardware.family_by_pci("d802", "10de") is None
    assert hardware.family_by_pci("0x1822", "0x19e5") is None, "a network card of the same vendor"
    assert hardware.board("0xd500", "0x0110") == "Atlas 300I Duo"
    assert hardware.board("0xd802", "0x3402") == "800T A2 / 900 A2 class"
    assert hardware.board("0xd100", "0x0001") == "Atlas 300I 3000/3010"
    assert hardware.board("0xd802", "0x9999") is None


def expected(family: str, chips: int, one: int, other: int, subsystem: str | None = None) -> tuple[str, ...] | None:
    plan = knowledge.hardware().link_plan(family, chips, subsystem)
    return plan.expected(one, other) if plan else None


def test_expected_links_are_those_of_the_product() -> None:
    assert expected("910", 8, 0, 3) == ("HCCS",)
    assert "HCCS" not in (expected("910", 8, 3, 4) or ("HCCS",))
    assert all(expected("A2", 8, one, other) == ("HCCS",) for one in range(8) for other in range(8) if one != other)
    assert expected("A2", 16, 0, 7) == ("HCCS",)
    assert "PIX" in (expected("A2", 16, 7, 8) or ())
    assert expected("A3", 16, 12, 13) == ("SIO",)
    assert expected("A3", 16, 13, 14) == ("HCCS_SW", "HCCS")
    assert expected("A3", 2, 12, 13) == ("SIO",), "a container with one package"
    assert expected("310P", 2, 0, 1) is None
    assert expected("950", 8, 0, 1) is None
    assert expected("310", 4, 0, 1) is None


def test_an_unknown_board_has_no_expected_links() -> None:
    assert expected("A2", 4, 0, 1) is None
    assert expected("A2", 4, 0, 1, "0x3000") == ("HCCS",)
    assert expected("A2", 8, 0, 1, "0x6000") is None, "PCIe cards of their own"
    assert expected("A2", 8, 0, 1, "0x7777") is None
    assert expected("910", 3, 0, 1) is None


def test_families_differ_where_checks_ask() -> None:
    hardware = knowledge.hardware()
    a2, a3, duo, next_one = (hardware.family(id) for id in ("A2", "A3", "310P", "950"))
    assert a2 and a3 and duo and next_one
    assert "/dev/devmm_svm" in a2.manager_nodes and "/dev/devmm_svm" not in next_one.manager_nodes
    assert {family.id for family in hardware.families if family.bf16} == {"A2", "A3", "950"}
    assert all(("bf16" in family.allreduce_dtypes) <= family.bf16 for family in hardware.families)
    assert (a3.chips_per_card, a3.devices_per_node, a3.prints_affinity) == ((2,), (16,), False)
    assert (duo.device_nic, a2.device_nic, a2.nic_speed_mbps) == (False, True, 200000)
    assert (a2.memory_of("910B4"), a2.memory_of("Ascend910B3"), a3.memory_of("Ascend910")) == (32768, 65536, 65536)
    assert hardware.family("A4") is None


def test_an_idle_card_may_use_what_its_size_allows() -> None:
    rule = knowledge.hardware().idle_rule
    assert rule.limit_mb(65536) == rule.limit_mb(32768) == 6144
    assert rule.limit_mb(21527) == 4305
    for baseline in knowledge.baselines().idle:
        assert baseline.hbm_used_mb is None or baseline.hbm_total_mb
        assert (baseline.hbm_used_mb or (0, 0))[1] < rule.limit_mb(baseline.hbm_total_mb or 65536)


def test_smoke_thresholds_exist_only_where_something_is_published() -> None:
    smoke = knowledge.baselines().smoke
    assert smoke.threshold("A2", 8) == (75, 25)
    assert smoke.threshold("A2", 3) is None and smoke.threshold("A3", 8) is None
    reference = knowledge.baselines().all_reduce[0]
    for ranks, bus in (reference.bus_gb_s or {}).items():
        published = (reference.size_over_time_gb_s or {})[ranks]
        assert bus == pytest.approx(published * 2 * (int(ranks) - 1) / int(ranks), rel=0.01)
        warning, failure = smoke.threshold("A2", int(ranks)) or (0, 0)
        assert 0 < failure < warning < bus
    assert {figure.figure for figure in knowledge.baselines().figures_of("910A")} == {"fp16", "power"}


# Errors and pitfalls


@pytest.mark.parametrize(
    ("spelled", "code"),
    [
        ("-8005", "-8005"),
        (-8005, "-8005"),
        ("ei0006", "EI0006"),
        (507033, "507033"),
        ("0x80E3A203", "80E3A203"),
        ("80e3a203", "80E3A203"),
        ("81078603", "81078603"),
        ("hccl  7", "HCCL 7"),
        ("hccn 13", "hccn 13"),
        ("EI9998", None),
        ("", None),
    ],
)
def test_a_code_is_known_in_every_usual_spelling(spelled: str | int, code: str | None) -> None:
    found = knowledge.errors().code(spelled)
    assert (found.code if found else None) == code


def test_a_fault_deserves_what_the_board_and_the_job_make_of_it() -> None:
    errors = knowledge.errors()
    power, port = errors.code("80E3A203"), errors.code("81078603")
    assert power and port
    assert (power.severity_on("310B"), power.severity_on("A2"), power.severity_on(None)) == ("info", "error", "error")
    assert (port.severity_on("A2", single_node=True), port.severity_on("A2")) == ("info", "error")
    occupied = errors.code(-8020)
    assert occupied and occupied.severity_on("A2") == "warning", "it does not prove a dead card"


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("dcmi module initialize failed. ret is -8005", ["-8005"]),
        (
            "HCCL function error: HcclGetRootInfo(&hcclID), error code is 11\nEJ0003: [PID: 159] x",
            ["HCCL 11", "EJ0003"],
        ),
        ("[PID: 1] 2026-01-01 Get_Socket_Timeout(EI0006): text", ["EI0006"]),
        ("call rtSetDevice failed, ret[107001].", ["107001"]),
        ("Error Code       : 80E3A203", ["80E3A203"]),
        ("pid 107001 of user 207001", []),
        ("EI0006 and again EI0006", ["EI0006"]),
    ],
)
def test_codes_are_found_anywhere_in_a_text(text: str, codes: list[str]) -> None:
    assert [code.code for code in knowledge.errors().in_text(text)] == codes


def test_a_message_without_a_code_is_known_too() -> None:
    message = knowledge.errors().message("Invalid card id.\nUsage: npu-smi info")
    assert message and message.pitfalls == ("P052",)
    assert knowledge.errors().message("all is well") is None


def test_symptoms_lead_to_the_pitfall_that_explains_most() -> None:
    pitfalls = knowledge.pitfalls()
    text = "ImportError: libhccl.so: cannot open shared object file: No such file or directory"
    assert [pitfall.id for pitfall in pitfalls.match(text)][:2] == ["P001", "P037"]
    assert pitfalls.match("training step 17, loss 2.31") == ()
    assert [pitfall.id for pitfall in pitfalls.with_code("0x80e00209")] == ["P021", "P080"]
    unsure = pitfalls.pitfall("P003")
    assert unsure and unsure.needs_root is None and unsure.root_when == "for sysctl"
    assert pitfalls.pitfall("P999") is None
    assert all((pitfall.needs_root is None) == bool(pitfall.root_when) for pitfall in pitfalls.rows)


@given(st.text(max_size=200))
def test_no_text_upsets_codes_and_symptoms(text: str) -> None:
    errors = knowledge.errors()
    assert all(code in errors.codes for code in errors.in_text(text))
    errors.code(text)
    errors.message(text)
    assert len(knowledge.pitfalls().match(text)) <= len(knowledge.pitfalls().rows)
    assert bare_name(bare_name(text)) is not None
    knowledge.hardware().family_by_name(text)
    knowledge.hardware().family_by_pci(text)


# HCCL and places


def test_hccl_s_numbers_hang_together() -> None:
    hccl = knowledge.hccl()
    assert hccl.ports.base_max + hccl.ports.certain_count - 1 == 65535
    assert (hccl.ports.base, hccl.ports.full_count, hccl.ports.full_from_cann) == (60000, 32, "8.3.RC1")
    assert hccl.times.exec_max_910_s % hccl.times.exec_step_910_s == 0 == hccl.times.exec_s % hccl.times.exec_step_910_s
    assert hccl.times.event_s > hccl.times.exec_s
    link = hccl.hccn_query("-link -g")
    assert link and link.is_healthy("link status: UP") and not link.is_healthy("link status: DOWN")
    ping = hccl.hccn_query("-ping -g address X")
    assert ping and ping.is_healthy("3 packets transmitted, 3 received, 0.00% packet loss")
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


# Against the collected facts


def read(shared: Path, name: str) -> Any:
    return json.loads((shared / "knowledge" / f"{name}.json").read_text(encoding="utf-8"))


def test_every_collected_release_is_here(shared: Path) -> None:
    table, collected = knowledge.compatibility(), read(shared, "compatibility")
    assert [release.version for release in table.releases] == [row["torch_npu"] for row in collected["torch_npu"]]
    for release, row in zip(table.releases, collected["torch_npu"], strict=True):
        assert (release.torch, list(release.cann), release.pta_release) == (
            row["torch"],
            row["cann"],
            row["pta_release"],
        )
        assert (release.confidence.value, list(release.pythons)) == (
            row["confidence"],
            row.get("python_from_wheels", []),
        )
        assert release.requires_x86_64 == (
            tuple(row["requires_dist_x86_64"]) if "requires_dist_x86_64" in row else None
        )
        assert set(row["sources"]) <= set(release.sources)
        assert release.on_pypi is row["on_pypi"]
    assert [support.cann for support in table.hdk_support] == [row["cann"] for row in collected["cann_vs_hdk"]]
    windows = {row["pta_release"]: tuple(row["cann_ok"]) for row in collected["pta_release_vs_cann_backward_compat"]}
    assert {window.pta_release: window.cann_ok for window in table.windows} == windows
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
            assert variable.meaning == row["meaning"]
            assert set(variable.sources) <= set("; ".join(row["source"]).split("; "))


def test_every_collected_pitfall_code_and_chip_is_here(shared: Path) -> None:
    collected = read(shared, "pitfalls")["items"]
    pitfalls, errors, hardware = knowledge.pitfalls(), knowledge.errors(), knowledge.hardware()
    assert [pitfall.id for pitfall in pitfalls.rows] == [row["id"] for row in collected]
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
            found = {code.code for code in knowledge.errors().in_text(text)}
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


def test_unused_enum_members_do_not_hide_in_the_tables() -> None:
    used = {v.rule.kind for v in knowledge.environment().variables if v.rule}
    used |= {rule.kind for v in knowledge.environment().variables for rule in (v.rules_by_family or {}).values()}
    assert used == set(Kind)
    assert issubclass(Kind, enum.Enum)
