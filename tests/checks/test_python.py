"""The target Python: version, torch, torch_npu, how they pair, and packages."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from npudoctor.findings import Finding, Result, Severity, Skip, Status
from npudoctor.host import Completed
from npudoctor.testing import run_check

Nodes = Callable[..., Any]


def only(result: Result) -> Finding:
    assert len(result.findings) == 1, [finding.summary for finding in result.findings]
    return result.findings[0]


def python(
    id: str,
    torch: str | None = "2.5.1",
    torch_npu: str | None = "2.5.1.post1",
    *,
    requires: list[str] | None = None,
    version: str = "3.10.16",
    machine: str = "aarch64",
    cann: str | None = None,
    **more: Any,
) -> Result:
    """A check on a host with one card, a driver's trace, this Python, and perhaps a CANN."""
    pair = {"torch": torch, "torch-npu": torch_npu, **more.pop("packages", {})}
    asked = {"torch-npu": requires or [], "torch": more.pop("torch_requires", [])}
    said = {
        "executable": "/env/bin/python",
        "version": version,
        "machine": machine,
        "distributions": {
            name: {"version": here, "requires": asked.get(name, [])} for name, here in pair.items() if here is not None
        },
        **more,
    }
    files = {}
    if cann is not None:
        info = f"package_name=Ascend-cann-toolkit\nversion={cann}\narch={machine}\n"
        files[f"/usr/local/Ascend/ascend-toolkit/{cann}/{machine}-linux/ascend_toolkit_install.info"] = info
    pci = [{"slot": "0000:c1:00.0", "vendor": "0x19e5", "device": "0xd802"}]
    return run_check(
        id,
        commands={"python environment": json.dumps(said)},
        files=files,
        machine=machine,
        measures={"pci": pci},
        options={"role": "full"},
    )


# python.version


@pytest.mark.parametrize(
    ("torch_npu", "version"), [("2.5.1.post1", "3.9.18"), ("2.8.0.post2", "3.12.1"), ("2.1.0", "3.11.4")]
)
def test_a_python_with_wheels_is_supported(torch_npu: str, version: str) -> None:
    assert python("python.version", None, torch_npu, version=version).findings == ()


@pytest.mark.parametrize(
    ("torch_npu", "version", "cann", "words"),
    [
        ("2.5.1.post1", "3.12.1", None, "Python 3.12.1 is not supported by torch_npu 2.5.1.post1"),
        (None, "3.12.1", "8.2.RC1", "Python 3.12.1 is not supported by CANN 8.2.RC1"),
        (None, "3.6.15", None, "Python 3.6.15 is too old: torch_npu requires 3.7 or newer"),
    ],
)
def test_a_python_without_wheels_is_an_error(torch_npu: str | None, version: str, cann: str | None, words: str) -> None:
    finding = only(python("python.version", None, torch_npu, version=version, cann=cann))
    assert (finding.severity, finding.subject) == (Severity.ERROR, "python")
    assert finding.summary == words
    code = "too-old" if "too old" in words else "cann" if cann else "torch-npu"
    assert finding.code == f"python.version/{code}"


def test_only_major_and_minor_count() -> None:
    assert python("python.version", None, None, version="3.11.14", cann="8.2.RC1").findings == ()


def test_a_python_that_does_not_answer_is_no_verdict(node: Nodes) -> None:
    hung = {"python environment": {"timed_out": True}}
    result = node(commands=hung).check("python.version")
    assert (result.skip, result.leaves_undetermined) == (Skip.COULD_NOT_LOOK, True)


# python.torch and python.torch-npu


@pytest.mark.parametrize("version", ["2.5.1", "2.5.1+cpu", "2.1.0a0+git1a2b3c4"])
def test_a_cpu_build_is_right(version: str) -> None:
    assert python("python.torch", version).findings == ()


@pytest.mark.parametrize(
    "more",
    [
        {"torch": "2.5.1+cu124"},
        {"torch_build": {"version": "2.5.1+cu124", "cuda": "12.4"}},
        {"packages": {"nvidia-cublas-cu12": "12.4.5"}, "torch_requires": ["nvidia-cublas-cu12==12.4.5.8 ; x"]},
    ],
)
def test_a_cuda_build_beside_torch_npu_is_an_error(more: dict[str, Any]) -> None:
    finding = only(python("python.torch", machine="x86_64", **more))
    assert (finding.severity, finding.pitfall) == (Severity.ERROR, "P020")
    assert finding.code == "python.torch/cuda-build"
    assert finding.summary == f"torch {finding.params['torch']} is a CUDA build; torch_npu requires the CPU build"
    assert '"torch==2.5.1+cpu"' in finding.commands[0]


def test_a_cuda_build_without_torch_npu_is_not_this_check_s_business() -> None:
    assert python("python.torch", "2.5.1+cu124", None).findings == ()


def test_nvidia_packages_of_somebody_else_make_no_cuda_build() -> None:
    assert python("python.torch", packages={"nvidia-cublas-cu12": "12.4.5"}).findings == ()


def test_an_empty_python_has_one_error_and_a_way_out() -> None:
    finding = only(python("python.torch", None, None, cann="8.2.RC1"))
    assert finding.code == "python.torch/both-missing"
    assert finding.summary == "torch and torch_npu not installed in /env/bin/python"
    alone = only(python("python.torch", None, "2.5.1.post1", cann="8.2.RC1"))
    assert (alone.code, alone.summary) == ("python.torch/missing", "torch not installed in /env/bin/python")
    assert any("torch_npu==" in command for command in finding.commands)
    assert python("python.torch-npu", None, None).blocked_by == "python.torch"
    assert python("python.pairing", None, None).blocked_by == "python.torch"


def test_a_missing_torch_npu_is_an_error_that_names_the_one_to_install() -> None:
    finding = only(python("python.torch-npu", "2.5.1", None, cann="8.2.RC1"))
    assert finding.code == "python.torch-npu/missing"
    assert finding.summary == "torch_npu not installed in /env/bin/python"
    assert finding.commands[0] == '/env/bin/python -m pip install --no-deps "torch_npu==2.5.1.post1"'
    assert python("python.pairing", "2.5.1", None).blocked_by == "python.torch-npu"


def test_an_installed_torch_npu_is_enough_unless_a_source_tree_hides_it() -> None:
    assert python("python.torch-npu").findings == ()
    hidden = only(python("python.torch-npu", shadows={"torch_npu": "/work/pytorch/torch_npu"}))
    assert (hidden.pitfall, hidden.code) == ("P070", "python.torch-npu/hidden")
    assert hidden.summary == "directory /work/pytorch/torch_npu hides the installed torch_npu"


COPIES = {"torch-npu": [{"version": "2.6.0", "folder": "/a"}, {"version": "2.5.1.post1", "folder": "/b"}]}


def test_a_copy_in_another_folder_is_told_and_is_the_cause_where_it_would_match() -> None:
    told = only(python("python.torch-npu", torch_npu="2.6.0", copies=COPIES))
    assert (told.code, told.severity) == ("python.torch-npu/copies", Severity.INFO)
    wrong = only(python("python.pairing", torch_npu="2.6.0", requires=["torch==2.6.0"], copies=COPIES))
    assert (wrong.code, wrong.fix) == ("python.pairing/mismatch", None)
    assert wrong.commands == ("/env/bin/python -m pip uninstall -y torch-npu  # removes the copy in /a",)
    other = python("python.pairing", "2.4.0", "2.6.0", requires=["torch==2.6.0"], copies=COPIES)
    assert only(other).fix is not None
    assert python("python.pairing", copies=COPIES).findings == ()


@pytest.mark.parametrize("copies", [[], "text", {"torch": "text"}, {"torch": [1, {"version": "2"}]}])
def test_copies_that_are_no_list_of_copies_are_none(copies: object) -> None:
    assert python("python.torch-npu", copies=copies).findings == ()


def test_without_an_interpreter_it_is_skipped(node: Nodes) -> None:
    result = node(remove=["/opt/miniforge3"], commands={"python environment": {"returncode": 1}}).check("python.torch")
    assert result.skip is Skip.COULD_NOT_LOOK


# python.pairing


@pytest.mark.parametrize(
    ("torch", "torch_npu", "requires"),
    [
        ("2.5.1", "2.5.1.post1", ["torch==2.5.1"]),
        ("2.5.1+cpu", "2.5.1.post1", ["torch==2.5.1+cpu"]),
        ("2.5.1", "2.5.1.post1", ["torch==2.5.1+cpu"]),
        ("2.5.1+cu124", "2.5.1.post1", ["torch==2.5.1+cpu"]),
        ("2.13.0+cpu", "2.13.0", ["torch==2.13.0.*", "numpy", "pyyaml"]),
        ("2.1.0", "2.1.0", []),
        ("2.1.0a0+git1a2b3c4", "2.1.0.post12", ["torch==2.1.0"]),
        ("2.5.1", "2.5.1.dev20250601", ["torch (==2.5.1)"]),
        ("2.99.0", "2.99.0", []),
    ],
)
def test_a_pair_by_wheel_table_or_rule_fits(torch: str, torch_npu: str, requires: list[str]) -> None:
    assert python("python.pairing", torch, torch_npu, requires=requires).findings == ()


@pytest.mark.parametrize(
    ("torch", "torch_npu", "requires", "source"),
    [
        ("2.6.0", "2.5.1.post1", ["torch==2.5.1"], "the wheel's metadata (torch==2.5.1)"),
        ("2.13.1", "2.13.0", ["torch==2.13.0.*"], "the wheel's metadata (torch==2.13.0.*)"),
        ("2.2.0", "2.1.0", [], "the torch_npu table as of 2026-11-27"),
        ("2.5.0", "2.99.0", [], "torch_npu X.Y.Z requires torch X.Y.Z"),
    ],
)
def test_a_wrong_pair_names_who_says_so(torch: str, torch_npu: str, requires: list[str], source: str) -> None:
    finding = only(python("python.pairing", torch, torch_npu, requires=requires))
    assert (finding.severity, finding.pitfall, finding.subject) == (Severity.ERROR, "P002", "python")
    assert finding.detail is not None and source in finding.detail
    assert finding.code == "python.pairing/mismatch"
    required = finding.params["required"]
    assert finding.summary == f"torch_npu {torch_npu} requires torch {required}; found {torch}"
    assert finding.fix is None or finding.fix.id == "python.install-pair"


@pytest.mark.parametrize(
    ("torch", "torch_npu", "cann", "commands"),
    [
        ("2.6.0", "2.5.1.post1", "8.2.RC1", ["torch==2.5.1"]),  # torch_npu fits the CANN: torch is the odd one
        ("2.6.0", "2.1.0.post17", "8.2.RC1", ["torch==2.1.0"]),  # inside the window of its train
        ("2.6.0", "2.5.1.post1", "9.1.0", ["torch_npu==2.6.0.post5"]),  # inside the window of its train, one package
        ("2.4.0", "2.5.1.post1", "9.1.0", ["both"]),  # neither fits the CANN
        ("2.9.0", "2.7.1", "9.1.0", ["torch_npu==2.9.0.post"]),  # the torch that is here has a torch_npu for this CANN
        ("2.6.0", "2.5.1.post1", None, ["torch==2.5.1"]),  # no CANN to fit
    ],
)
def test_the_smallest_change_is_named(torch: str, torch_npu: str, cann: str | None, commands: list[str]) -> None:
    finding = only(python("python.pairing", torch, torch_npu, cann=cann))
    if commands == ["both"]:
        assert len(finding.commands) == 2
    else:
        assert len(finding.commands) == 1
        assert commands[0] in finding.commands[0]


def test_a_version_that_is_none_is_no_verdict() -> None:
    result = python("python.pairing", "unknown", "2.5.1")
    assert result.skip is Skip.COULD_NOT_LOOK


# python.cann-pairing


@pytest.mark.parametrize(
    ("torch_npu", "cann", "severity"),
    [
        ("2.5.1.post1", "8.2.RC1", None),  # the published pair
        ("2.8.0.post2", "8.5.1", None),  # seen together
        ("2.7.1", "8.3.RC2", None),
        ("2.5.1.post1", "8.1.RC1", Severity.INFO),  # inside the window of 7.1.0
        ("2.5.1.post1", "8.2.RC2", Severity.INFO),  # a later candidate of a listed train
        ("2.13.0", "9.1.0", Severity.INFO),  # newer than the table
        ("2.5.1.post1", "8.0.T6", Severity.INFO),  # a test build
        ("2.99.0", "8.2.RC1", Severity.INFO),  # not in the table
        ("2.5.1.post1", "9.9.9", Severity.INFO),  # a CANN newer than the table
        ("2.7.1", "9.0.0", Severity.ERROR),  # the known counter-example
        ("2.8.0.post4", "8.0.RC3", Severity.ERROR),  # older than the window
        ("2.1.0", "8.2.RC1", Severity.ERROR),  # made for 7.0.0, another major release
        ("2.1.0.post3", "8.0.RC2", Severity.INFO),  # no window is published, the same major release
        ("2.2.0", "7.0.0", Severity.ERROR),  # older than the only pair
    ],
)
def test_torch_npu_and_cann_are_judged_by_the_table(torch_npu: str, cann: str, severity: Severity | None) -> None:
    result = python("python.cann-pairing", "2.5.1", torch_npu, cann=cann)
    assert [finding.severity for finding in result.findings] == ([severity] if severity else [])


def test_a_wrong_cann_names_the_table_and_a_way_out() -> None:
    finding = only(python("python.cann-pairing", "2.7.1", "2.7.1", cann="9.0.0"))
    assert (finding.pitfall, finding.subject) == ("P012", "python")
    assert finding.code == "python.cann-pairing/mismatch"
    required = ", ".join(finding.params["required"])
    assert finding.summary == f"torch_npu 2.7.1 requires CANN {required}; found 9.0.0"
    assert finding.detail is not None and "as of 2026-11-27" in finding.detail
    assert '"torch_npu==2.7.1.post' in finding.commands[0]
    assert finding.hint is not None and "keep torch as it is" in finding.hint


@pytest.mark.parametrize(
    ("torch_npu", "cann", "code", "summary"),
    [
        (
            *("2.5.1.post1", "8.1.RC1", "compatible"),
            "torch_npu 2.5.1.post1 is compatible with CANN 8.1.RC1, but paired with 8.2.RC1",
        ),
        (
            *("2.1.0.post3", "8.0.RC2", "unpaired"),
            "torch_npu 2.1.0.post3 is paired with CANN 8.0.RC1; nothing is published about 8.0.RC2",
        ),
        (
            *("2.99.0", "8.2.RC1", "not-listed"),
            "torch_npu 2.99.0 with CANN 8.2.RC1: not in the compatibility tables of 2026-11-27",
        ),
    ],
)
def test_what_the_tables_leave_open_is_info(torch_npu: str, cann: str, code: str, summary: str) -> None:
    finding = only(python("python.cann-pairing", "2.5.1", torch_npu, cann=cann))
    assert (finding.code, finding.summary) == (f"python.cann-pairing/{code}", summary)


def test_without_cann_it_is_blocked() -> None:
    assert python("python.cann-pairing").blocked_by == "cann.installed"


# python.packages


def test_a_complete_python_has_its_packages(node: Nodes) -> None:
    assert node(cann={"version": "8.5.0"}).check("python.packages").findings == ()


def test_a_missing_package_is_named_with_the_command(node: Nodes) -> None:
    finding = only(
        node(cann={"version": "8.5.0"}, python={"packages": {"scipy": "", "attrs": ""}}).check("python.packages")
    )
    assert (finding.severity, finding.pitfall) == (Severity.ERROR, "P006")
    assert finding.commands[0].endswith("-m pip install attrs scipy")
    assert finding.code == "python.packages/missing"
    assert finding.summary == "packages of the CANN operator compiler missing: attrs, scipy"


@pytest.mark.parametrize(
    ("numpy", "cann", "severity"),
    [
        ("2.1.0", "8.2.RC1", Severity.ERROR),
        ("2.1.0", "8.3.RC2", Severity.ERROR),
        ("2.1.0", "8.5.0", None),
        ("1.26.4", "8.3.RC1", None),
        ("1.26.4", "8.2.RC1", Severity.INFO),
        ("1.24.0", "8.2.RC1", None),
    ],
)
def test_numpy_is_judged_by_the_cann(node: Nodes, numpy: str, cann: str, severity: Severity | None) -> None:
    result = node(cann={"version": cann}, python={"packages": {"numpy": numpy}}).check("python.packages")
    assert [finding.severity for finding in result.findings] == ([severity] if severity else [])
    if severity is Severity.ERROR:
        assert result.findings[0].code == "python.packages/numpy"
        assert result.findings[0].summary == f"CANN {cann} requires numpy 1.x; found {numpy}"
    elif severity is Severity.INFO:
        assert result.findings[0].code == "python.packages/numpy-range"
        summary = f"numpy {numpy} is outside the documented range of CANN {cann} (usually works)"
        assert result.findings[0].summary == summary


def test_without_the_interpreter_packages_are_not_judged(node: Nodes) -> None:
    broken = node(cann={"version": "8.5.0"}, commands={"python environment": {"returncode": 1, "stderr": "boom"}})
    result = broken.check("python.packages")
    assert result.status is Status.SKIPPED
    assert result.reason is not None and "boom" in result.reason


def test_a_crash_of_the_interpreter_is_told() -> None:
    result = run_check(
        "python.torch",
        commands={"python environment": Completed(returncode=-11)},
        measures={"pci": [{"slot": "0000:c1:00.0", "vendor": "0x19e5", "device": "0xd802"}]},
        options={"role": "full"},
    )
    assert result.reason is not None and "not a working Python" in result.reason
