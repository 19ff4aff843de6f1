"""Requires-Dist lines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npudoctor.facts.python.requirements import find_requirement, parse_requirement
from npudoctor.facts.python.target_python import PythonEnvironment


@pytest.mark.parametrize(
    ("line", "version", "fits"),
    [
        ("torch==2.5.1", "2.5.1", True),
        ("torch==2.5.1", "2.5.1+cpu", True),
        ("torch==2.5.1+cpu", "2.5.1", True),
        ("torch==2.5.1+cpu", "2.5.0", False),
        ("torch (==2.5.1)", "2.5.1", True),
        ("torch==2.13.0.*", "2.13.0", True),
        ("torch==2.13.0.*", "2.13.1", False),
        ("torch==2.1.0", "2.1.0a0+gitabc", True),
        ("torch>=2.1,<2.6", "2.5.1", True),
        ("torch>=2.1,<2.6", "2.6.0", False),
        ("torch~=2.5.0", "2.5.9", True),
        ("torch~=2.5.0", "2.6.0", False),
        ("torch!=2.5.1", "2.5.1", False),
        ("torch!=2.5.*", "2.5.1", False),
        ("torch>2.5", "2.5.1", True),
        ("torch<=2.5", "2.5.1", False),
        ("torch===2.5.1", "2.5.1", True),
        ("torch", "0.1", True),
    ],
)
def test_a_version_fits_as_the_standard_says(line: str, version: str, fits: bool) -> None:
    requirement = parse_requirement(line)
    assert requirement is not None
    assert requirement.accepts(version) is fits


ON_X86 = 'torch==2.5.1+cpu ; platform_machine == "x86_64"'
OLD, NEW = 'torch==2.1.0 ; python_version < "3.9"', 'torch==2.5.1 ; python_version >= "3.9"'
WINDOWS, LINUX = "torch==9;sys_platform=='win32'", "torch==2.5.1;sys_platform=='linux'"


@pytest.mark.parametrize(
    ("lines", "machine", "version", "pinned"),
    [
        (["numpy", "torch==2.5.1+cpu"], None, "3.11.4", "2.5.1+cpu"),
        ([ON_X86, "torch==2.5.1"], "aarch64", "3.11.4", "2.5.1"),
        ([ON_X86, "torch==2.5.1"], "x86_64", "3.11.4", "2.5.1+cpu"),
        ([OLD, NEW], None, "3.8.18", "2.1.0"),
        ([OLD, NEW], None, "3.10.1", "2.5.1"),
        ([WINDOWS, LINUX], None, "3.10.1", "2.5.1"),
        (['torch==9 ; extra == "test"', "torch==2.13.0.*"], None, "3.11.4", "2.13.0"),
        (['torch==9 ; extra == "x" or python_version < "4"', "torch==8"], None, "3.11.4", "9"),
        (["Torch==2.5.1"], None, "3.11.4", "2.5.1"),
        (["torchvision==0.20", "torch-npu==2", "torch (==2.5.1)"], None, "3.11.4", "2.5.1"),
        (["torch>=2.1"], None, "3.11.4", None),
        (["torch==2 ; no marker at all", "torch==2.5.1"], None, "3.11.4", "2.5.1"),
    ],
)
def test_what_is_asked_of_torch_is_found(
    lines: list[str], machine: str | None, version: str, pinned: str | None
) -> None:
    python = PythonEnvironment(executable="/usr/bin/python3", version=version, machine=machine)
    requirement = find_requirement(lines, "torch", python)
    assert requirement is not None
    assert requirement.pinned == pinned


@pytest.mark.parametrize(
    "lines", [[], ["numpy"], ["torch"], ["torch==main"], ["torch @ file:///x"], ["torch==2;extra=='x'"]]
)
def test_a_wheel_that_says_nothing_asks_for_nothing(lines: list[str]) -> None:
    assert find_requirement(lines, "torch") is None


@given(st.text(max_size=60))
def test_any_line_is_a_requirement_or_none(line: str) -> None:
    requirement = parse_requirement(line)
    assert requirement is None or requirement.name
    asked = find_requirement([line, f"torch{line}"], "torch")
    assert asked is None or asked.name == "torch"
