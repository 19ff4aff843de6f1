"""No expression of the product takes more than linear time, whatever text others hand to it."""

from __future__ import annotations

import importlib
import json
import re
import time

import pytest

from npudoctor import control_characters, knowledge
from npudoctor.explain.patterns import Sought
from npudoctor.installing import conditions
from npudoctor.packages import names
from npudoctor.privacy import credentials, names_in_logs, recorded_sources, redaction
from npudoctor.privacy.command_lines import reduce_line
from npudoctor.privacy.credentials import mask
from tests.security import adversarial
from tests.security.adversarial import ROOT, Expression

IN_CODE, UNRESOLVED = adversarial.in_code()
ELSEWHERE = {
    "npudoctor/privacy/credentials.py": "the rules, below",
    "npudoctor/explain/prefilter.py": "the sieve, below",
    "npudoctor/explain/patterns.py": "symptoms and hints of the knowledge base, below",
    "npudoctor/knowledge/tables/pitfalls.py": "symptoms and hints of the knowledge base, below",
    "npudoctor/knowledge/tables/hardware.py": "names of chips in hardware.json, below",
    "npudoctor/knowledge/values.py": "rules of environment.json, below; one of two literals for numbers",
    "checks/driver_kernel.py": "kinds of kernel log lines, below",
    "npudoctor/facts/hccn/answers.py": "literals of its callers, below",
    "npudoctor/facts/hccn/port.py": "literals around a unit or a key, with one repetition and nothing after it",
    "npudoctor/knowledge/tables/hccl.py": "one expression of hccl.json, below",
    "npudoctor/knowledge/pairs.py": "an escaped name between literals",
    "npudoctor/knowledge/site.py": "is compiled to be judged, and applied to nothing",
    "npudoctor/smoke/blame.py": "a number between literals",
    "npudoctor/host/live/apart.py": "paths of the devices of NPUs, below",
    "npudoctor/report/cause.py": "a number between literals",
    "npudoctor/control_characters.py": "its three expressions, below",
    "npudoctor/facts/python/requirements.py": "a literal name of its callers, without a repetition",
    "npudoctor/host/live/python_owner.py": "one of two classes of characters",
    "npudoctor/privacy/recorded_sources.py": "its tables, below",
    "npudoctor/privacy/names_in_logs.py": "its tables, below",
    "npudoctor/privacy/redaction.py": "escaped names beside expressions of the module",
    "npudoctor/steps/environments.py": "an escaped path of its callers before literals",
    "npudoctor/packages/headers.py": "a literal name of its callers before a bounded repetition",
    "npudoctor/packages/names.py": "names of at most 255 characters, below",
}
"""Expressions that are only known at run time, by file: what covers them."""


def from_data() -> list[Expression]:
    found = [
        Expression(pitfall.id, text, 0, "search")
        for pitfall in knowledge.pitfalls().rows
        for text in (*pitfall.symptoms, *pitfall.hints, *pitfall.general)
    ]
    found += [Expression("credentials", text, 0, "search") for _, text in (*credentials._RULES, *credentials._SHAPES)]
    kinds = importlib.import_module("npudoctor.checks.driver_kernel").KINDS
    found += [Expression("kernel log", kind.pattern, 0, "search") for kind in kinds]
    rows = (*recorded_sources.COMMANDS, *recorded_sources.FILES)
    found.append(Expression("key lines", redaction._KEY_LINE, 0, "search"))
    found.append(Expression("devices", conditions.DEVICES, 0, "fullmatch"))
    found += [Expression("recorded sources", row.pattern, 0, "fullmatch") for row in rows]
    told = (
        *names_in_logs._EXPRESSIONS,
        names_in_logs._LIST,
        names_in_logs._PADDED,
        names_in_logs._COPY,
        names_in_logs._REMOTE,
    )
    found += [Expression("names in logs", one.pattern, one.flags, "search") for one in (*told, names_in_logs._SEVERAL)]
    found += [Expression("sieve", one.pattern.decode(), 0, "search") for one in Sought().sieve.further]
    for name in ("environment", "hardware", "hccl"):
        text = (ROOT / "npudoctor" / "knowledge" / "tables" / f"{name}.json").read_text(encoding="utf-8")
        patterns = re.findall(r'"(?:name_pattern|pattern|healthy)": ("(?:[^"\\]|\\.)*")', text)
        found += [Expression(name, json.loads(one), 0, "fullmatch") for one in patterns]
    found += [
        Expression("visible", one, 0, "sub")
        for one in (control_characters._LINE, control_characters._LINES, control_characters._SCREEN)
    ]
    answers = (ROOT / "npudoctor/facts/hccn/answers.py").read_text(encoding="utf-8")
    found += [
        Expression("hccn", one, 0, "fullmatch") for one in re.findall(r'_answers\(\w+, "\w+", r?"([^"]+)"', answers)
    ]
    return found


IN_DATA = from_data()


def test_every_expression_is_looked_at_here() -> None:
    assert len(IN_CODE) > 240
    assert len(IN_DATA) > 330
    assert not [one for one in UNRESOLVED if one.where.partition(":")[0] not in ELSEWHERE]


@pytest.mark.parametrize("part", range(4))
def test_time_grows_no_faster_than_the_text(part: int) -> None:
    slow = {}
    for expression in (IN_CODE + IN_DATA)[part::4]:
        if expression.where.startswith("npudoctor/packages/names.py"):
            continue
        if (text := adversarial.worse_than_linear(expression, 4096)) is not None:
            slow[f"{expression.where} {expression.text[:60]}"] = text
    assert not slow


@pytest.mark.parametrize(
    "unit", ["0", "0-", "0.", "0a", "a-", "a.", "_0", "-0-0.aarch6", "_a-a.", "1.1-", "~0", "-aarch64"]
)
def test_the_worst_name_of_a_file_is_told_at_once(unit: str) -> None:
    began = time.process_time()
    for stem in ("Ascend-hdk-910b-npu-driver_", "Ascend-cann-kernels-310p-", "torch-", ""):
        for ending in names.FORMATS:
            names.parse_name(stem + unit * ((names.LONGEST - len(stem + ending)) // len(unit) - 1) + "!" + ending)
    assert time.process_time() - began < 3  # 44 names, of which the worst takes 0.03 s


@pytest.mark.slow
@pytest.mark.parametrize("part", range(16))
def test_time_grows_no_faster_than_a_long_text_of_any_two_characters(part: int) -> None:
    slow = {}
    for expression in (IN_CODE + IN_DATA)[part::16]:
        if expression.where.startswith("npudoctor/packages/names.py"):
            continue
        if (text := adversarial.worse_than_linear(expression, 16384, thorough=True)) is not None:
            slow[f"{expression.where} {expression.text[:60]}"] = text
    assert not slow


@pytest.mark.parametrize(
    "expression", [r"([A-Za-z][\w+.-]*://)[^\s/@\"']+@", r"(\w+)=[01]\b", r"^\s*x\s*=", "a.*b.*c$"]
)
def test_the_measure_notices_what_is_quadratic(expression: str) -> None:
    assert adversarial.worse_than_linear(Expression("", expression, re.MULTILINE, "search"), 4096) is not None


UNITS = ("a", "A0", "token", "token=", 'token="', "token='a", "-", "--k ", "--a=", "://", "://a:", "eyJ", "-----BEGIN ")
MORE_UNITS = (
    "mysql ",
    "docker login ",
    "basic a",
    "authorization: ",
    "x-",
    "key=",
    "\\",
    '\\"',
    " ",
    "\n",
    "sk-",
    "A",
    "@",
)


@pytest.mark.parametrize("unit", UNITS + MORE_UNITS)
def test_masking_a_text_four_times_as_long_takes_about_four_times_as_long(unit: str) -> None:
    def took(size: int) -> float:
        text = unit * (size // len(unit))
        began = time.process_time()
        mask(text)
        return time.process_time() - began

    size = 1 << 16
    assert min(took(4 * size) for _ in range(3)) < max(8 * min(took(size) for _ in range(3)), 0.1)


@pytest.mark.slow
def test_masking_eight_mebibytes_of_what_a_tool_prints_is_linear_too() -> None:
    line = "npu 0 token=abc https://u:p@h/x --key v aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n"

    def took(size: int) -> float:
        text = line * (size // len(line))
        began = time.process_time()
        assert "abc" not in mask(text)
        return time.process_time() - began

    assert took(8 << 20) < 8 * min(took(2 << 20) for _ in range(3))


def test_a_command_line_of_two_megabytes_is_reduced_at_once() -> None:
    assert reduce_line(["python3", "x.py", "a" * (1 << 21)])[:2] == ("python3", "x.py")
