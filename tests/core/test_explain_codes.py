"""Codes in any printed form, chosen by the words around them; and numbers that are no codes.

data/codes.tsv has for each kind of codes at least ten lines: kind, code, line. The surroundings are those of plog,
torch_npu, npu-smi, containers and the device plug-in, the codes those of the public tables, and none is read from
npudoctor's own. data/codes-none.txt are lines of normal work.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from npudoctor import knowledge, plugins
from npudoctor.explain import advice, documents, next_steps, topics
from npudoctor.explain.code_forms import codes_in, meanings
from npudoctor.explain.diagnosis import diagnose
from npudoctor.explain.patterns import Kind, Sought
from npudoctor.explain.scan import Scanner
from npudoctor.knowledge.tables.codes import Code
from npudoctor.knowledge.tables.errors import ErrorCode

DATA = Path(__file__).parent / "data"
LINES = [line.split("\t") for line in (DATA / "codes.tsv").read_text(encoding="utf-8").splitlines()]
NO_CODES = (DATA / "codes-none.txt").read_text(encoding="utf-8").splitlines()
CATALOG = plugins.load()
SOUGHT = Sought()
IDS = {(code.kind, code.code): code.id for code in knowledge.codes().rows}


def seen_in(line: str) -> list[str]:
    scanner = Scanner(SOUGHT)
    scanner.read("log", [f"{line}\n".encode()])
    return [one.found.what for one in scanner.sightings if one.found.kind is Kind.CODE]


@pytest.mark.thorough
@pytest.mark.parametrize(("kind", "code", "line"), LINES, ids=range(len(LINES)))
def test_a_code_is_recognised_in_a_line(kind: str, code: str, line: str) -> None:
    assert (kind, code) in [(one.kind, one.code) for reading in codes_in(line) for one in reading.codes]
    assert IDS[kind, code] in seen_in(line)


def test_every_kind_has_ten_lines() -> None:
    counts = Counter(kind for kind, _, _ in LINES)
    assert set(counts) == {code.kind for code in knowledge.codes().rows}
    assert min(counts.values()) >= 10


@pytest.mark.thorough
@pytest.mark.parametrize("line", NO_CODES)
def test_a_number_of_normal_work_is_no_code(line: str) -> None:
    assert codes_in(line) == ()
    assert seen_in(line) == []


def test_the_status_of_a_completion_is_no_result_of_hccl() -> None:
    assert (
        seen_in("[task_exception_handler.cc:20]2200 error cqe status[12], local ip 10.0.0.3 remote ip 10.0.0.4") == []
    )


def test_there_are_five_hundred_numbers_that_are_no_codes() -> None:
    assert len(NO_CODES) >= 500


FORMS = ("{}", "error code is {}", "[ERROR] {}", "ret={}", "errcode: {}", "{}: Inner Error!")


@pytest.mark.thorough
def test_no_code_of_the_table_alone_leads_to_a_step_that_resets_reinstalls_or_ends_something() -> None:
    """Its printed forms together, its number and its name: more evidence than one line with the code has."""
    rows = knowledge.codes().rows
    assert len(rows) >= 3965
    for row in rows:
        scanner = Scanner(SOUGHT)
        lines = [form.format(name) for name in filter(None, (row.code, row.symbol)) for form in FORMS]
        scanner.read("log", ["\n".join([*lines, ""]).encode()])
        found = diagnose(scanner)
        steps = [step for one in found.suspects for step, _ in advice.steps(one)]
        steps += found.answer.steps if found.answer else []
        assert not any(map(advice.is_dangerous, steps)), (row.id, steps)
    assert all(re.search(r"\d", line) for line in NO_CODES)


SPELLED = [
    ("207001", "207001"),
    ("0x32899", "207001"),
    ("error code is 207004", "207004"),
    ("ERRNO[161001]", "161001"),
    ("[ERROR] ACL call ended, errno[161001]", "161001"),
    ("retCode=0x7020010", "0x7020010"),
    ("0x07150026", "0x7150026"),
    ("7150026", "0x7150026"),
    ("117571619", "0x7020023"),
    ("-8005", "-8005"),
    ("4294959291", "-8005"),
    ("0xFFFFE0BB", "-8005"),
    ("8005", "-8005"),
    ("0x80C98009", "80C98009"),
    ("80c98009", "80C98009"),
    ("2160689161", "80C98009"),
    ("-2134278135", "80C98009"),
    ("0x8C2FA009", "8C2FA009"),
    ("0x68020002", "0x68020002"),
    ("ei0002", "EI0002"),
    ("EZ1008", "EZ1008"),
    ("W11001", "W11001"),
    ("Title(EL0009)", "EL0009"),
    ("MIE01E000502", "MIE01E000502"),
    ("hccl 19", "HCCL 19"),
    ("HcclCommPrepare fail, ret: 0x13", "HCCL 19"),
    ("HCCL_E_NETWORK", "HCCL 19"),
    ("hcclResult 19", "HCCL 19"),
    ("drvRetCode=6", "driver 6"),
    ("driver 6", "driver 6"),
    ("DRV_ERROR_NO_DEVICE", "driver 1"),
    ("cqe status: 0x15", "CQE 0x15"),
    ("retCode=0x26, [aicore exception]", "TS 0x26"),
    ("errNo[0x0000000005000006]", "HCCL 6"),
    ("errcode:(0, 0, 0x100000)", "AICore (0, 0, 0x100000)"),
    ("ACL_ERROR_RT_CONTEXT_NULL", "107002"),
    ("adxl::TIMEOUT", "103901"),
    ("ErrorCode::INTERNAL_ERROR", "Mooncake-store -1"),
    ("[0x00f1fef5,155912,cpu,na]", "[0x00f1fef5,155912,cpu,na]"),
    ("010001001", "010001001"),
    ("1343225856", "1343225856"),
    ("0x50100000", "1343225856"),
    ("1343270913", "0x5010B001"),
    ("hccn_tool 0x400D", "hccn_tool 0x400D"),
]


@pytest.mark.parametrize(("text", "id"), SPELLED)
def test_a_code_is_found_in_every_printed_form(text: str, id: str) -> None:
    first = topics.find(text, CATALOG)
    assert isinstance(first, (Code, ErrorCode))
    assert (first.id if isinstance(first, Code) else first.code) == id


@pytest.mark.thorough
def test_each_collected_code_is_found_by_its_number_by_its_symbol_and_by_its_id(shared: Path) -> None:
    table = knowledge.codes()
    collected = json.loads((shared / "knowledge" / "codes.json").read_text(encoding="utf-8"))["codes"]
    assert len(collected) == len(table.rows) > 3900
    for row in collected:
        wanted = (row["kind"], row["code"])
        for text in filter(None, (row["code"], row["symbol"], IDS[wanted])):
            found = [one for one in table.of_text(text) if (one.kind, one.code) == wanted]
            assert found, text
            assert (found[0].meaning, found[0].generic, list(found[0].sources)) == (
                row["meaning"],
                row["is_generic"],
                row["sources"],
            )


def test_a_number_of_several_components_has_every_meaning_and_the_text_chooses() -> None:
    assert {one.kind for one in knowledge.codes().of_text("7")} >= {"hccl-return", "driver", "atb", "aoe"}
    assert [one.id for one in meanings("HcclGetRootInfo(&id), error code is 7")] == ["HCCL 7"]
    assert [one.id for one in meanings("atb Setup failed, ret=7")] == ["ATB 7"]
    assert len(meanings("ret: 7")) >= 4, "no word chooses"


def test_several_bits_of_an_error_word_are_several_faults() -> None:
    found = knowledge.codes().of_text("(0x3, 0, 0x1)")
    assert [one.code for one in found] == ["(0x1, 0, 0)", "(0x2, 0, 0)", "(0, 0, 0x1)"]


def test_an_exit_code_of_hccn_tool_is_the_low_byte_of_its_code() -> None:
    assert "hccn_tool 0x400D" in {one.id for one in meanings("hccn_tool -i 0 -ip -g: exit code 13")}


@pytest.mark.parametrize(
    "text", ["EI0099", "507999", "-8999", "0x80FFFFFF", "ERR77777", "561999", "MIE04E0FFFFF", "9753"]
)
def test_an_unknown_code_is_not_explained_by_another(text: str) -> None:
    with pytest.raises(topics.Unknown) as problem:
        topics.find(text, CATALOG)
    assert "did you mean" not in str(problem.value)
    assert str(problem.value).startswith(f"unknown code '{text}'")


def test_a_misspelled_word_is_followed_by_the_near_one() -> None:
    with pytest.raises(topics.Unknown, match="did you mean ACL_ERROR_RT_CONTEXT_NULL"):
        topics.find("ACL_ERROR_RT_CONTXT_NULL", CATALOG)


def test_the_next_step_follows_from_class_severity_and_kind_and_names_its_source() -> None:
    steps = {code.id: next_steps.of_code(code) for code in knowledge.codes().rows}
    for id, words in {
        "80E18402": "",
        "81078603": "needs no handling",
        "8F180203": "take this NPU out of use",
        "40F84E00": "reset the NPU",
        "8C2FA009": "no action",
        "W11001": "warning",
        "EH9999": "lines beside it",
        "EI0006": "Solution:",
        "107002": "caller",
        "207001": "resource",
        "507015": "inner error",
        "80818001": "start no job on the NPU",
        "0xA6040001": "level 3 of 4",
        "0x68020001": "level 4 of 4",
    }.items():
        if words:
            step = steps[id]
            assert step and words in step.step and step.source, id
    assert all(steps[code.id] for code in knowledge.codes().rows if code.severity or code.action)
    assert steps["driver 9"] is None or steps["driver 9"].source
    unknown = documents.of_topics([("AOE 2", knowledge.codes().of_text("AOE 2")[0])], CATALOG)["topics"][0]
    assert unknown["next_step"] is None and unknown["sources"]


def test_what_to_check_about_a_frequent_code_names_its_source() -> None:
    rows = [row for row in knowledge.errors().codes if row.look]
    told = documents.of_topics([(row.code, row) for row in rows], CATALOG)["topics"]
    assert len(rows) > 140
    assert all(re.search(r"known issues? P\d{3}|by its meaning: \S", topic["look_source"]) for topic in told)
    assert (
        documents.of_topics([("AOE 2", knowledge.codes().of_text("AOE 2")[0])], CATALOG)["topics"][0]["look_source"]
        is None
    )


def test_a_check_does_not_load_the_codes() -> None:
    command = [sys.executable, "-X", "importtime", "-m", "npudoctor", "check", "--simulate", "healthy-a3", "--json"]
    loaded = subprocess.run(command, capture_output=True, encoding="utf-8", check=False).stderr
    assert "npudoctor.engine" in loaded
    assert "npudoctor.knowledge.tables.codes" not in loaded


@pytest.mark.parametrize(
    ("text", "number", "component"),
    [
        ("HcclAllReduce failed, ret: 0x63", "0x63", "HCCL"),
        ("HCCL function error: HcclAllReduce, error code is 90", "90", "HCCL"),
        ("hcclRet -> 77", "77", "HCCL"),
        ("atb failed, ret=77", "77", "ATB"),
        ("LinearOperation_1 setup fail, error code: 90", "90", "ATB"),
        ("aoe failed, ret: 55", "55", "AOE"),
        ("drvRetCode=300", "300", "the driver"),
        ("dcmi init failed, ret 7", "7", "DCMI"),
        ("aclrtSetDevice failed, ret=7", "7", "acl and runtime"),
        ("cqe status: 0x99", "0x99", "RoCE completions"),
    ],
)
def test_a_number_that_the_named_component_does_not_have_is_unknown(text: str, number: str, component: str) -> None:
    assert meanings(text) == ()
    with pytest.raises(topics.Unknown) as problem:
        topics.find(text, CATALOG)
    assert str(problem.value).startswith(f"unknown code '{number}' of {component};")


def test_no_unknown_number_is_explained_by_another_component_that_the_text_does_not_name() -> None:
    lines = {
        "hccl-return": "HcclBroadcast failed, ret: {}",
        "atb": "atb Setup failed, ret={}",
        "aoe": "aoe failed, ret: {}",
        "driver": "[drv api] halFoo failed, ret:{}",
        "hccn-tool": "hccn_tool failed, error code: {}",
        "dcmi": "dcmi_init failed, error code: {}",
        "rdma-cqe": "cqe status: {}",
    }
    wrong = [
        (kind, line.format(number), code.id)
        for kind, line in lines.items()
        for value in [*range(1, 400), *range(0x1000, 0x1100), 65534, -1, -101, -704]
        for number in (str(value), hex(value))
        for code in meanings(line.format(number))
        if not code.kind.startswith(kind)
    ]
    assert wrong == []


@pytest.mark.parametrize("text", ["HCCL 99", "hccl99", "ATB 77", "driver 300", "ERR123", "EI99", "AOE-55", "[507999]"])
def test_no_near_number_is_offered_for_an_unknown_one(text: str) -> None:
    with pytest.raises(topics.Unknown) as problem:
        topics.find(text, CATALOG)
    assert str(problem.value).startswith(f"unknown code '{text}'")
    assert "did you mean" not in str(problem.value)


@pytest.mark.parametrize(
    ("text", "near"),
    [("ERR100", "ERR00100"), ("hccl7", "HCCL 7"), ("EI-0006", "EI0006"), ("HCCL_E_AGIN", "HCCL_E_AGAIN")],
)
def test_another_spelling_of_the_same_number_is_offered(text: str, near: str) -> None:
    with pytest.raises(topics.Unknown, match=rf"did you mean {near}\?"):
        topics.find(text, CATALOG)


PAIRS = (
    "{0}({1})",
    "{1}({0})",
    "{0} {1}",
    "{1} {0}",
    "{0}: {1}",
    "{1}, {0}",
    "{0} = {1}",
    "[{1}] {0}",
    "[{0}]",
    "({1}),",
)


@pytest.mark.thorough
def test_a_number_and_its_symbol_in_any_printed_form_are_the_code() -> None:
    lost = [
        (text, row.id)
        for row in knowledge.codes().rows
        if row.symbol and row.kind != "hccn-tool"  # a number of hccn_tool can have several names
        for text in (form.format(row.symbol, row.code) for form in PAIRS)
        if row.id not in {getattr(one, "id", None) or one.code for one in topics.codes(text)}
    ]
    assert lost == []


def test_a_symbol_with_the_number_of_another_is_unknown() -> None:
    with pytest.raises(topics.Unknown, match="no table has this name with this number"):
        topics.find("ERROR_INVALID_PARAM(2)", CATALOG)


def test_a_symbol_of_many_programs_is_a_code_only_beside_its_component() -> None:
    assert seen_in("ERROR_INVALID_PARAM") == seen_in("OBJECT_NOT_FOUND") == seen_in("ERR_DNS") == []
    assert seen_in("atb: ERROR_INVALID_PARAM") == ["ATB 1"]


def test_an_error_word_of_several_bits_is_split_without_its_other_words() -> None:
    for text in ("0x802000", "core id is 0, error code = 0x802000"):
        assert [one.code for one in topics.codes(text) if isinstance(one, Code)] == [
            "(0x2000, 0, 0)",
            "(0x800000, 0, 0)",
        ]
    assert seen_in("aicore error, core id is 5, error code = 0x7150099") == []
    for text in ("0x5040010", "0x7150099", "0x80FFFFFF", "0x4099"):
        assert topics.codes(text) == (), "the number of another scheme"


def test_a_number_has_the_meanings_of_tables_that_are_printed_in_hexadecimal() -> None:
    assert {"CQE 0x15", "Ascend-DMI 0x15", "TS 0x15"} <= {one.id for one in knowledge.codes().of_text("21")}
    assert "BMC 0x00000003" in {one.id for one in knowledge.codes().of_text("3")}
    assert [one.id for one in knowledge.codes().of_text("0x0000000005010006")] == ["HCCL 6"]


def test_the_text_chooses_among_components_that_share_a_negative_number() -> None:
    assert [one.id for one in meanings("mooncake transfer failed with error code -1")] == ["Mooncake-engine -1"]
    assert [one.id for one in meanings("mooncake store put failed with error code -1")] == ["Mooncake-store -1"]
    assert [one.id for one in meanings("[ERROR] GE(101): ErrorNo: -1(failed)")] == ["4294967295"]
    assert [one.id for one in meanings("LinearOperation_1 setup fail, error code: 7")] == ["ATB 7"]
