"""The target Python at work: imports, devices, products on cards, known defects, packages that disturb."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from npudoctor.findings import Result, Severity, Skip, Status
from npudoctor.host import Unavailable
from npudoctor.testing import run_check

Nodes = Callable[..., Any]

NO_HCCL = "ImportError: libhccl.so: cannot open shared object file: No such file or directory"
AUTOLOAD = (
    "RuntimeError: Failed to load the backend extension: torch_npu. You can disable extension auto-loading with "
    f"TORCH_DEVICE_BACKEND_AUTOLOAD=0. ({NO_HCCL})"
)
GOOD = {"ok": True, "version": "2.5.1", "seconds": 3.1}
NPU = {"ok": True, "version": "2.5.1.post1", "device_count": 8, "available": True, "devices": ["Ascend910B3"] * 8}


def said(**answers: Any) -> dict[str, Any]:
    """Commands of a scenario: an object is what a probe prints, a number the signal that it dies of."""
    names = {
        "torch": "python import torch",
        "alone": "python import torch without autoload",
        "npu": "python import torch_npu",
        "math": "python device-math",
    }
    commands: dict[str, Any] = {}
    for key, answer in answers.items():
        if answer is None:
            commands[names[key]] = {"timed_out": True}
        elif isinstance(answer, int):
            commands[names[key]] = {"returncode": -answer, "stderr": "the last line\n"}
        else:
            commands[names[key]] = {"stdout": json.dumps(answer) + "\n"}
    return {"commands": commands}


def failed(text: str) -> dict[str, Any]:
    return {"ok": False, "error": text, "exception": text.partition(":")[0]}


def one(result: Result) -> Any:
    assert len(result.findings) == 1, [finding.summary for finding in result.findings]
    return result.findings[0]


# python.import-torch


def test_a_torch_that_imports_is_right(node: Nodes) -> None:
    result = node().check("python.import-torch")
    assert (result.status, result.findings) == (Status.OK, ())


def test_a_torch_that_is_broken_itself_is_an_error_with_its_cause(node: Nodes) -> None:
    text = "ImportError: libgomp-d22c30c5.so.1: cannot allocate memory in static TLS block"
    there = node(**said(torch=failed(text), alone=failed(text), npu=failed(text)))
    finding = one(there.check("python.import-torch"))
    assert (finding.severity, finding.pitfall, finding.subject) == (Severity.ERROR, "P033", "python")
    assert (finding.code, finding.summary) == ("python.import-torch/failed", f"import torch failed: {text}")
    assert there.check("python.import-torch-npu").blocked_by == "python.import-torch"
    assert there.check("python.devices").blocked_by == "python.import-torch"


def test_a_torch_that_only_the_autoload_breaks_is_the_fault_of_torch_npu(node: Nodes) -> None:
    there = node(**said(torch=failed(AUTOLOAD), alone=GOOD, npu=failed("ImportError: something that nobody knows")))
    result = there.check("python.import-torch")
    assert (result.status, result.blocked_by) == (Status.SKIPPED, "python.import-torch-npu")
    assert "libhccl.so" in (result.reason or "")


def test_an_autoload_that_fails_alone_is_told_with_the_way_around(node: Nodes) -> None:
    finding = one(node(**said(torch=failed(AUTOLOAD), alone=GOOD, npu=NPU)).check("python.import-torch"))
    assert (finding.pitfall, finding.commands) == ("P064", ("export TORCH_DEVICE_BACKEND_AUTOLOAD=0",))
    assert finding.code == "python.import-torch/torch-npu"
    assert finding.summary.startswith("import torch fails in torch_npu: ImportError: libhccl.so")


@pytest.mark.parametrize(
    ("answer", "code", "summary"),
    [
        (11, "crashed", "import torch crashed with SIGSEGV"),
        (None, "timed-out", "import torch timed out after"),
    ],
)
def test_a_torch_that_crashes_or_hangs_is_named(node: Nodes, answer: Any, code: str, summary: str) -> None:
    finding = one(node(**said(torch=answer, alone=answer)).check("python.import-torch"))
    assert finding.code == f"python.import-torch/{code}"
    assert finding.summary.startswith(summary)


def test_without_torch_the_import_stands_behind_it(node: Nodes) -> None:
    result = node(python={"torch": "", "torch_npu": ""}).check("python.import-torch")
    assert (result.status, result.blocked_by) == (Status.SKIPPED, "python.torch")


def test_in_profile_quick_nothing_is_imported(node: Nodes) -> None:
    result = node().check("python.import-torch", profile="quick")
    assert result.skip is Skip.NOT_APPLICABLE


# python.import-torch-npu


def test_a_torch_npu_that_imports_is_right(node: Nodes) -> None:
    result = node().check("python.import-torch-npu")
    assert (result.status, result.findings) == (Status.OK, ())


@pytest.mark.parametrize(
    ("answer", "words", "pitfall"),
    [
        (failed("ImportError: /x/libtorch_npu.so: undefined symbol: MsprofSysCycleTime"), "undefined symbol", "P012"),
        (failed("ImportError: libatb.so: cannot open shared object file"), "libatb.so", "P013"),
        (11, "import torch_npu crashed with SIGSEGV", None),
        (6, "import torch_npu crashed with SIGABRT", None),
        (None, "import torch_npu timed out after", None),
    ],
)
def test_why_it_does_not_import_is_said(node: Nodes, answer: Any, words: str, pitfall: str | None) -> None:
    finding = one(node(**said(npu=answer)).check("python.import-torch-npu"))
    assert (finding.severity, finding.pitfall) == (Severity.ERROR, pitfall)
    assert words in finding.summary
    code = "timed-out" if answer is None else "crashed" if isinstance(answer, int) else "failed"
    assert finding.code == f"python.import-torch-npu/{code}"


def test_only_a_torch_npu_that_was_not_published_may_be_built_with_another_gcc(node: Nodes) -> None:
    built = node(**said(npu=11), python={"torch_npu": "2.5.1+git1f8e2c"})
    assert one(built.check("python.import-torch-npu")).pitfall == "P071"


def test_the_library_in_the_message_is_loaded_first(node: Nodes) -> None:
    path = "/opt/env/lib/python3.11/site-packages/sklearn/utils/../../scikit_learn.libs/libgomp-947d5fa1.so.1.0.0"
    answer = failed(f"ImportError: {path}: cannot allocate memory in static TLS block")
    finding = one(node(**said(npu=answer)).check("python.import-torch-npu"))
    assert finding.commands == (
        "export LD_PRELOAD=/opt/env/lib/python3.11/site-packages/scikit_learn.libs/libgomp-947d5fa1.so.1.0.0",
    )


def old_library(folder: str) -> dict[str, Any]:
    return failed(f"ImportError: {folder}/libstdc++.so.6: version `GLIBCXX_3.4.30' not found (required by /x/y.so)")


def test_an_older_libstdcxx_is_taken_from_the_library_path(node: Nodes) -> None:
    others = node().host.environ["LD_LIBRARY_PATH"]
    environ = {"LD_LIBRARY_PATH": f"/opt/gcc-7/lib64/:{others}"}
    finding = one(node(**said(npu=old_library("/opt/gcc-7/lib64")), environ=environ).check("python.import-torch-npu"))
    assert finding.pitfall == "P098"
    assert finding.commands[0] == f"export LD_LIBRARY_PATH={others}"
    assert not any("faulthandler" in line for line in finding.commands)


@pytest.mark.parametrize(
    ("folder", "command"),
    [
        ("/lib/x86_64-linux-gnu", "export LD_LIBRARY_PATH=/opt/miniforge3/envs/train/lib:$LD_LIBRARY_PATH"),
        (
            "/opt/miniforge3/envs/train/bin/../lib",
            "conda install -p /opt/miniforge3/envs/train -c conda-forge libstdcxx-ng",
        ),
    ],
)
def test_a_newer_libstdcxx_is_put_before_an_older_one(node: Nodes, folder: str, command: str) -> None:
    finding = one(node(**said(npu=old_library(folder))).check("python.import-torch-npu"))
    assert (finding.pitfall, command in finding.commands) == ("P098", True)


def test_what_cannot_be_imported_has_no_devices(node: Nodes) -> None:
    there = node(**said(npu=11))
    assert there.check("python.devices").blocked_by == "python.import-torch-npu"
    assert there.check("python.device-math", profile="full").blocked_by == "python.import-torch-npu"


def test_a_wrong_pair_keeps_the_failure_as_evidence(node: Nodes) -> None:
    there = node(python={"torch": "2.6.0"})
    assert there.check("python.import-torch-npu").blocked_by == "python.pairing"
    assert there.check("python.import-torch").blocked_by == "python.pairing"
    evidence = one(there.check("python.pairing")).evidence
    assert any("undefined symbol" in (item.actual or "") for item in evidence)


def test_without_cann_nothing_else_is_blamed(node: Nodes) -> None:
    there = node(cann={"installed": False})
    for check in ("python.import-torch", "python.import-torch-npu", "python.devices"):
        assert there.check(check).blocked_by == "cann.installed"


def test_without_torch_npu_its_import_stands_behind_that(node: Nodes) -> None:
    result = node(python={"torch_npu": ""}).check("python.import-torch-npu")
    assert (result.status, result.blocked_by) == (Status.SKIPPED, "python.torch-npu")


# python.devices


def test_all_cards_are_seen(node: Nodes) -> None:
    assert node().check("python.devices").findings == ()
    assert node(environ={"ASCEND_RT_VISIBLE_DEVICES": "0,2"}).check("python.devices").findings == ()


def test_fewer_devices_than_cards_are_an_error(node: Nodes) -> None:
    finding = one(node(**said(npu={**NPU, "device_count": 6})).check("python.devices"))
    assert (finding.severity, finding.summary) == (Severity.ERROR, "torch_npu finds 6 of 8 devices")
    assert finding.code == "python.devices/count"


def test_what_a_lost_card_explains_is_not_told_twice(node: Nodes) -> None:
    there = node(card=[{"id": 2, "missing": ["npu-smi"]}], **said(npu=NPU))
    assert there.check("python.devices").blocked_by == "npu.count"


def test_a_chip_that_torch_npu_does_not_know_is_an_error(node: Nodes) -> None:
    answer = {"ok": True, "version": "2.5.1", "devices_error": "RuntimeError: Unsupported soc version: Ascend999"}
    finding = one(node(**said(npu=answer)).check("python.devices"))
    assert (finding.code, finding.pitfall) == ("python.devices/error", "P042")
    reason = "RuntimeError: Unsupported soc version: Ascend999"
    assert finding.summary == f"torch_npu cannot list its devices: {reason}"


def test_devices_that_torch_npu_cannot_use_are_an_error(node: Nodes) -> None:
    finding = one(node(**said(npu={**NPU, "available": False})).check("python.devices"))
    assert finding.code == "python.devices/not-available"
    assert finding.summary == "torch.npu.is_available() is False with 8 devices"


def test_another_family_by_the_runtime_is_info(node: Nodes) -> None:
    finding = one(node(**said(npu={**NPU, "devices": ["Ascend310P3"] * 8})).check("python.devices"))
    assert (finding.code, finding.severity) == ("python.devices/name-mismatch", Severity.INFO)
    assert finding.summary == "chip name mismatch: Ascend310P3 in the runtime, 910B3 in npu-smi"


def test_a_torch_npu_that_does_not_count_gives_no_verdict(node: Nodes) -> None:
    result = node(**said(npu={"ok": True, "version": "2.5.1"})).check("python.devices")
    assert result.skip is Skip.COULD_NOT_LOOK


# python.device-math


def test_cards_that_compute_are_right(node: Nodes) -> None:
    assert node().check("python.device-math", profile="full").status is Status.OK


def test_the_card_that_computes_wrongly_is_named(node: Nodes) -> None:
    cards: dict[str, Any] = {str(number): {"ok": True, "max_abs_error": 0.0} for number in range(8)}
    cards["5"] = {"ok": False, "max_abs_error": 1.0, "error": "the product differs"}
    finding = one(node(**said(math={"ok": False, "devices": cards})).check("python.device-math", profile="full"))
    assert (finding.subject, finding.severity) == ("npu:5", Severity.ERROR)
    assert finding.code == "python.device-math/wrong-result"
    assert finding.summary == "wrong result on device 5: the product differs"


def test_what_all_cards_say_is_said_once(node: Nodes) -> None:
    wrong = {"ok": False, "error": "RuntimeError: aclrtSetDevice, error code is 507033"}
    answer: dict[str, Any] = {"ok": False, "devices": {str(number): wrong for number in range(8)}}
    finding = one(node(**said(math=answer)).check("python.device-math", profile="full"))
    assert (finding.subject, finding.pitfall) == ("python", "P051")
    assert finding.code == "python.device-math/all-failed"
    error = "RuntimeError: aclrtSetDevice, error code is 507033"
    assert finding.summary == f"test computation failed on all 8 devices: {error}"
    answer["devices"]["3"] = {"ok": True, "max_abs_error": 0.0}
    finding = one(node(**said(math=answer)).check("python.device-math", profile="full"))
    assert (finding.code, len(finding.chips)) == ("python.device-math/failed", 7)
    assert finding.summary == f"test computation failed on devices 0, 1, 2, 4, 5, 6, 7: {error}"


def test_a_computation_that_does_not_start_is_an_error(node: Nodes) -> None:
    answer = {"ok": False, "devices": {}, "error": "no module named torch_npu"}
    finding = one(node(**said(math=answer)).check("python.device-math", profile="full"))
    assert finding.code == "python.device-math/not-started"
    assert finding.summary == "test computation failed to start: no module named torch_npu"


def test_no_card_is_touched_below_profile_full(node: Nodes) -> None:
    assert node().check("python.device-math").skip is Skip.NOT_APPLICABLE


# python.known-bad


def test_a_release_without_a_known_defect_is_right(node: Nodes) -> None:
    assert node().check("python.known-bad").status is Status.OK


def test_a_release_with_a_known_defect_names_the_one_that_mends_it(node: Nodes) -> None:
    python = {"version": "3.12.4", "torch": "2.12.0", "torch_npu": "2.12.0"}
    there = node(python=python, cann={"version": "9.1.0"})
    finding = one(there.check("python.known-bad"))
    assert (finding.severity, finding.pitfall) == (Severity.WARNING, "P040")
    assert "2.12.0.post2" in finding.commands[0]
    assert finding.code == "python.known-bad/defect"
    defect = "crashes with a core dump under Python 3.12 and newer"
    assert finding.summary == f"torch_npu 2.12.0 has a known defect: {defect}"


def test_a_defect_that_shows_is_the_cause_of_the_crash(node: Nodes) -> None:
    python = {"version": "3.12.4", "torch": "2.12.0", "torch_npu": "2.12.0"}
    there = node(python=python, cann={"version": "9.1.0"}, **said(npu=11))
    assert one(there.check("python.known-bad")).severity is Severity.ERROR
    assert there.check("python.import-torch-npu").blocked_by == "python.known-bad"


def test_without_torch_npu_there_is_no_release_to_judge(node: Nodes) -> None:
    assert node(python={"torch_npu": ""}).check("python.known-bad").blocked_by == "python.torch-npu"


# python.conflicts


def test_usual_packages_do_not_disturb(node: Nodes) -> None:
    assert node().check("python.conflicts").status is Status.OK
    both = {"triton": "3.2.0", "triton-ascend": "3.2.1"}
    assert node(python={"packages": both}).check("python.conflicts").status is Status.OK


@pytest.mark.parametrize(
    ("packages", "code", "summary"),
    [
        ({"triton": "3.1.0"}, "upstream-triton", "triton 3.1.0 is installed without triton-ascend"),
        (
            {"triton": "3.1.0", "triton-ascend": "3.2.0"},
            "triton",
            "triton 3.1.0 conflicts with triton-ascend 3.2.0",
        ),
        ({"xformers": "0.0.28"}, "cuda-only", "xformers 0.0.28 requires CUDA"),
        ({"autoawq": "0.2.9"}, "cuda-only", "autoawq 0.2.9 requires CUDA"),
        ({"auto_gptq": "0.7.1"}, "cuda-only", "auto-gptq 0.7.1 requires CUDA"),
        ({"apex": "0.1"}, "cuda-only", "apex 0.1 requires CUDA"),
        ({"accelerate": "0.24.1"}, "accelerate", "accelerate 0.24.1 is too old: NPU support requires 0.25.0"),
        ({"vllm": "0.11.0"}, "vllm-without-plugin", "vllm 0.11.0 without vllm-ascend: vLLM finds no NPU"),
    ],
)
def test_packages_for_cuda_are_a_warning(node: Nodes, packages: dict[str, str], code: str, summary: str) -> None:
    finding = one(node(python={"packages": packages}).check("python.conflicts"))
    assert finding.severity is Severity.WARNING
    assert (finding.code, finding.summary) == (f"python.conflicts/{code}", summary)


@pytest.mark.parametrize(
    ("numpy", "line", "problem"),
    [
        ("2.2.0", "numpy<2.0.0,>=1.21", "vllm-ascend 0.13.0 requires numpy>=1.21,<2.0.0; found 2.2.0"),
        ("1.26.4", "numpy<2.0.0,>=1.21", None),
        ("2.2.0", 'numpy<2.0.0 ; python_version < "3.0"', None),
        ("2.2.0", "numpy", None),
        ("unknown", "numpy<2.0.0", None),
    ],
)
def test_a_numpy_that_a_framework_does_not_accept(node: Nodes, numpy: str, line: str, problem: str | None) -> None:
    packages = {"vllm": "0.13.0", "vllm-ascend": "0.13.0", "numpy": numpy}
    result = node(python={"packages": packages, "requires": {"vllm-ascend": [line]}}).check("python.conflicts")
    found = [one for one in result.findings if one.code == "python.conflicts/requirement"]
    assert [one.summary for one in found] == ([problem] if problem else [])
    assert all(one.severity is Severity.WARNING for one in found)


@pytest.mark.parametrize("other", [{"vllm-ascend": "0.11.0"}, {"sglang": "0.5.12"}, {"vllm-plugin-fl": "0.1"}])
def test_vllm_beside_a_plug_in_or_another_engine_is_no_conflict(node: Nodes, other: dict[str, str]) -> None:
    result = node(python={"packages": {"vllm": "0.11.0", **other}}).check("python.conflicts")
    assert "python.conflicts/vllm-without-plugin" not in [finding.code for finding in result.findings]


def test_packages_for_cuda_that_nothing_imports_are_one_information(node: Nodes) -> None:
    unused = {
        "nvidia-cublas-cu12": "12.8.4.1",
        "nvidia-cuda-runtime": "13.0.48",
        "nvidia-nccl-cu12": "2.27.3",
        "cupy-cuda12x": "13.6.0",
        "tensorrt_cu12": "10.3.0",
        "onnxruntime-gpu": "1.22.0",
        "mxnet-cu112": "1.9.1",
        "flash-mla": "1.0",
        "vllm-flash-attn": "2.6.2",
        "paddlepaddle-gpu": "3.0.0",
        "faiss-gpu-cu12": "1.12.0",
    }
    result = node(python={"packages": unused}).check("python.conflicts")
    assert result.status is Status.OK
    finding = one(result)
    assert (finding.code, finding.severity) == ("python.conflicts/cuda-unused", Severity.INFO)
    assert finding.params["packages"] == sorted(name.replace("_", "-") for name in unused)
    assert finding.commands[0].endswith(" vllm-flash-attn")


def test_packages_that_run_on_an_npu_or_need_no_device_are_not_named(node: Nodes) -> None:
    usual = {
        "apex": "0.1+ascend",
        "deepspeed": "0.17.1",
        "deep-ep": "1.0.0",
        "sgl-kernel-npu": "2026.2.1",
        "nvidia-ml-py": "13.580.65",
        "onnxruntime-cann": "1.22.0",
        "flash-linear-attention": "0.3.2",
        "liger-kernel": "0.6.0",
        "gptqmodel": "4.0.0",
        "torchao": "0.13.0",
        "pynvml": "12.0.0",
    }
    assert node(python={"packages": usual}).check("python.conflicts").findings == ()


def test_what_a_cuda_torch_brings_is_its_own_fault(node: Nodes) -> None:
    python = {"torch": "2.5.1+cu124", "packages": {"triton": "3.1.0"}}
    assert node(python=python).check("python.conflicts").blocked_by == "python.torch"


def test_without_a_python_nobody_knows_what_disturbs(node: Nodes) -> None:
    hung = {"python environment": {"timed_out": True}}
    assert node(commands=hung).check("python.conflicts").skip is Skip.COULD_NOT_LOOK


def test_in_nobody_s_environment_an_import_proves_nothing() -> None:
    said = {"executable": "/env/bin/python", "version": "3.10.16", "distributions": {"torch": {"version": "2.5.1"}}}
    result = run_check(
        "python.import-torch",
        commands={"python environment": json.dumps(said), "python import torch": json.dumps({"ok": True})},
        environ=Unavailable("nobody's variables are known"),
        measures={"pci": [{"slot": "0000:c1:00.0", "vendor": "0x19e5", "device": "0xd802"}]},
        options={"role": "full"},
    )
    assert (result.skip, result.reason) == (Skip.COULD_NOT_LOOK, "nobody's variables are known")
