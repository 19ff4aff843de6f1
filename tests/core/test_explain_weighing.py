"""What weighs in a log: plain sentences and numbers before wrappers, and no dangerous step on weak evidence."""

from __future__ import annotations

import pytest

from npudoctor import knowledge
from npudoctor.explain import advice, answers, log_documents, patterns
from npudoctor.explain.answers import AnswerKind
from npudoctor.explain.diagnosis import Diagnosis, diagnose
from npudoctor.explain.patterns import Found, Kind, Sought
from npudoctor.explain.scan import Scanner
from npudoctor.explain.scoring import Suspect
from npudoctor.knowledge.tables.pitfalls import Pitfall
from npudoctor.records import replace

SOUGHT = Sought()


def diagnosed(*lines: str) -> Diagnosis:
    scanner = Scanner(SOUGHT)
    scanner.read("log", [("\n".join(lines) + "\n").encode()])
    return diagnose(scanner)


def named(diagnosis: Diagnosis) -> list[str]:
    return [suspect.pitfall.id for suspect in diagnosis.suspects]


GENERIC = [row.code for row in knowledge.errors().codes if row.generic and row.kind != "process"]


@pytest.mark.parametrize("code", GENERIC)
def test_a_generic_code_alone_names_no_issue(code: str) -> None:
    number = code.removeprefix("HCCL ")
    call = "HCCL function error: HcclAllGather" if code.startswith("HCCL") else "NPU function error: aclrtFoo"
    said = f"[ERROR] 2026-03-04-05:06:07 (PID:77, Device:1, RankID:-1) {code} it failed" if code[0] == "E" else call
    assert named(diagnosed(f"RuntimeError: {said}, error code is {number}")) == []


def test_several_wrappers_around_each_other_name_no_issue() -> None:
    diagnosis = diagnosed(
        "[ERROR] 2026-03-04-05:06:07 (PID:5151, Device:6, RankID:-1) ERR00100 PTA call acl api failed.",
        "EH9999: Inner Error!",
        "EH9999: [PID: 5151] 2026-03-04-05:06:07.111.222 wait for compute device to finish failed, runtime "
        "result = 107020",
        "EZ9999: Inner Error!",
    )
    assert named(diagnosis) == []
    assert "107020" in {seen.spelled for seen in diagnosis.codes}


@pytest.mark.parametrize(
    "sentence",
    [
        "get unsupported atten_mask shape, the shape is [1, 6902]. B=[1], N=[12], Sq=[6902]",
        "The dim of weight must be 2, but it is 3.[FUNC:CheckShape][FILE:a.cc][LINE:3]",
        "headDim of query is not supported by this kernel of attention.",
        "Shapes of gamma and beta should be the same, check them.",
    ],
)
def test_an_operator_that_refuses_a_shape_blames_no_package(sentence: str) -> None:
    call = "RuntimeError: NPU function error: call aclnnFlashAttentionScore failed, error code is 561103"
    assert named(diagnosed(call)) == ["P034"]
    diagnosis = diagnosed(
        call,
        "EZ9999: Inner Error!",
        f"EZ9999: [PID: 3131] 2026-03-04-05:06:07.111.222 {sentence}",
        "        Tiling failed",
    )
    assert named(diagnosis) == []
    assert diagnosis.answer and diagnosis.answer.kind is AnswerKind.NOT_THE_ENVIRONMENT
    missing = "EZ9999: [PID: 3131] 2026-03-04-05:06:07.111.222 Cannot find bin of op Foo, the kernel is missing"
    assert named(diagnosed(call, missing)) != []


def test_the_plain_sentence_beside_a_wrapper_is_the_answer_where_no_issue_is_known() -> None:
    diagnosis = diagnosed(
        "EZ9999: Inner Error!",
        "EZ9999: [PID: 3131] 2026-03-04-05:06:07.111.222 The workspace of FooBar is smaller than the tiling "
        "asks for.[FUNC:X]"
        "[FILE:x.cc][LINE:12]",
        "        TraceBack (most recent call last):",
    )
    assert diagnosis.answer and diagnosis.answer.kind is AnswerKind.SAID_BY_THE_LOG
    assert diagnosis.answer.title == "The log says: The workspace of FooBar is smaller than the tiling asks for"


def oom(wanted: float, total: float, allocated: float, free: float, reserved: float) -> str:
    return (
        f"RuntimeError: NPU out of memory. Tried to allocate {wanted:.2f} GiB (NPU 5; {total:.2f} GiB total capacity; "
        f"{allocated:.2f} GiB already allocated; {allocated:.2f} GiB current active; {free:.2f} GiB free; "
        f"{reserved:.2f} GiB reserved in total by PyTorch) If reserved memory is >> allocated memory try setting "
        "max_split_size_mb to avoid fragmentation."
    )


@pytest.mark.parametrize(
    "line",
    [
        oom(2.0, 60.96, 55.0, 1.32, 57.55),  # TouchNet#100: 2.1 GiB beside the job
        oom(0.5, 61.27, 57.9, 0.005, 58.39),  # sglang#29838: 2.9 GiB
        oom(12.0, 29.5, 20.1, 5.0, 22.0),
        "NPU out of memory. Tried to allocate 224.00 MiB (NPU 0; 60.97 GiB total capacity; 59.24 GiB already "
        "allocated; "
        "300.50 MiB free; 60.00 GiB reserved in total by PyTorch)",
        "torch.OutOfMemoryError: NPU out of memory. Tried to allocate 8.00 GiB. NPU 3 has a total capacity of "
        "61.27 GiB of "
        "which 3.20 GiB is free. Of the allocated memory 53.00 GiB is allocated by PyTorch, and 2.50 GiB is "
        "reserved by "
        "PyTorch but unallocated.",
        "NPU out of memory. Tried to allocate 2.00 GiB (NPU 0; 43.24 GiB total capacity; 40.39 GiB already allocated; "
        "...; 764.23 MiB free ...)",
        "NPU out of memory. Tried to allocate 1.40 GiB\n"
        "    (60.97 GiB total; 57.00 GiB already allocated; 1.02 GiB free)",
    ],
)
def test_a_job_that_is_too_large_blames_no_process_and_no_node(line: str) -> None:
    diagnosis = diagnosed(f"[rank2]: {line}")
    assert named(diagnosis) == []
    assert diagnosis.knows
    assert diagnosis.answer and diagnosis.answer.kind is AnswerKind.JOB_TOO_LARGE
    assert "GiB" in diagnosis.answer.because


@pytest.mark.parametrize(
    "line",
    [
        oom(2.0, 60.96, 18.0, 0.4, 19.0),
        oom(1.0, 61.27, 48.0, 0.2, 52.0),
        "NPU out of memory. Tried to allocate 256.00 MiB (NPU 0; 60.97 GiB total capacity; 10.24 GiB already "
        "allocated; "
        "1.50 MiB free; 11.00 GiB reserved in total by PyTorch)",
        "ValueError: Free memory on device (31.5/61.27 GiB) on startup is less than desired GPU memory "
        "utilization (0.9, "
        "55.14 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.",
    ],
)
def test_memory_that_others_hold_is_a_full_card(line: str) -> None:
    diagnosis = diagnosed(f"[rank2]: {line}")
    assert named(diagnosis)[:1] == ["P017"]
    assert diagnosis.answer is None


def test_one_rank_on_a_full_card_is_enough() -> None:
    diagnosis = diagnosed(f"[rank0]: {oom(2, 60.96, 55, 1.3, 57.5)}", f"[rank1]: {oom(2, 60.96, 5, 0.3, 6)}")
    assert named(diagnosis) == ["P017"]


def test_memory_that_is_reserved_and_not_used_leads_to_expandable_segments() -> None:
    answer = diagnosed(oom(2.0, 60.96, 50.0, 1.3, 57.5)).answer
    assert answer and answer.steps[0] == "export PYTORCH_NPU_ALLOC_CONF=expandable_segments:True"
    answer = diagnosed(oom(9.0, 60.96, 50.0, 1.3, 57.5)).answer
    assert answer and "expandable" not in " ".join(answer.steps)


OWN = [
    "KeyError: 'input_ids'",
    "IndexError: list index out of range",
    "ZeroDivisionError: division by zero",
    "UnboundLocalError: local variable 'loss' referenced before assignment",
    "RuntimeError: mat1 and mat2 shapes cannot be multiplied (4x512 and 768x32)",
    "RuntimeError: The size of tensor a (77) must match the size of tensor b (91) at non-singleton dimension 1",
    "RuntimeError: Error(s) in loading state_dict for Qwen3ForCausalLM:",
    "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
    "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig",
    "OSError: my-org/my-model is not a local folder and is not a valid model identifier listed on "
    "'https://huggingface.co/models'",
    "huggingface_hub.errors.RepositoryNotFoundError: 404 Client Error.",
    "ValueError: Unrecognized model in /data/weights. Should have a `model_type` key in its config.json",
    "ValueError: Cannot use chat template functions because tokenizer.chat_template is not set",
]


@pytest.mark.parametrize("exception", OWN)
def test_an_exception_of_the_program_is_an_answer(exception: str) -> None:
    diagnosis = diagnosed("Traceback (most recent call last):", '  File "train.py", line 12, in <module>', exception)
    assert diagnosis.answer and diagnosis.answer.kind is AnswerKind.NOT_THE_ENVIRONMENT
    assert diagnosis.answer.title.startswith("Not the environment: the first exception is ")
    assert named(diagnosis) == [] and not diagnosis.knows


@pytest.mark.parametrize(
    "exception",
    [
        "ImportError: libhccl.so: cannot open shared object file: No such file or directory",
        "AttributeError: module 'torch_npu' has no attribute 'npu_frobnicate'",
        "KeyError: 'ASCEND_TOOLKIT_HOME'",
        "KeyError: 'LOCAL_RANK'",
        "ValueError: invalid device ordinal 9",
        "PermissionError: [Errno 13] Permission denied: '/var/x'",
        "OSError: [Errno 28] No space left on device",
        "RuntimeError: connect() timed out. Original timeout was 1800000 ms.",
    ],
)
def test_what_speaks_of_the_device_or_the_system_is_not_called_the_program_s_own(exception: str) -> None:
    assert not answers.is_own(exception)
    answer = diagnosed("Traceback (most recent call last):", exception).answer
    assert answer is None or answer.kind is not AnswerKind.NOT_THE_ENVIRONMENT


@pytest.mark.parametrize(
    "exception",
    [
        "TypeError: __init__() got an unexpected keyword argument 'rope_scaling'",
        "TypeError: forward() missing 2 required positional arguments: 'a' and 'b'",
        "AttributeError: 'LlamaModel' object has no attribute '_use_sdpa'",
        "ImportError: cannot import name 'Qwen9Config' from 'my_models' (/x/my_models/__init__.py)",
    ],
)
def test_a_call_that_does_not_fit_is_the_program_or_its_packages(exception: str) -> None:
    answer = diagnosed("Traceback (most recent call last):", exception).answer
    assert answer and answer.kind is AnswerKind.PROGRAM_OR_PACKAGES


def test_an_operator_that_refuses_its_argument_is_the_program() -> None:
    answer = diagnosed(
        "RuntimeError: call aclnnMul failed, error code is 161002",
        "AclNN_Parameter_Error(EZ1001): Tensor other not implemented for DT_COMPLEX64, should be in dtype support list "
        "[DT_FLOAT,DT_INT32].",
    ).answer
    assert answer and answer.kind is AnswerKind.NOT_THE_ENVIRONMENT
    assert "DT_COMPLEX64" in answer.because


def test_an_issue_that_stops_no_job_is_a_notice_beside_the_exception_that_did() -> None:
    fallback = (
        "[W compiler_depend.ts:250] Warning: CAUTION: The operator 'aten::foo' is not currently supported on "
        "the NPU backend "
        "and will fall back to run on the CPU. (function npu_cpu_fallback)"
    )
    diagnosis = diagnosed(fallback, "KeyError: 'labels'")
    assert named(diagnosis) == []
    assert [one.pitfall.id for one in diagnosis.notices] == ["P063"]
    assert named(diagnosed(fallback)) == ["P063"]


DANGEROUS = [row for row in knowledge.pitfalls().rows if any(map(advice.is_dangerous, row.fix))]


@pytest.mark.parametrize("row", DANGEROUS, ids=lambda row: row.id)
def test_a_code_alone_leads_to_no_step_that_resets_reinstalls_or_ends(row: Pitfall) -> None:
    codes = [one for one in knowledge.errors().codes if row.id in one.pitfalls]
    for code in codes:
        diagnosis = diagnosed(f"error code is {code.code}", f"[ERROR] {code.code}: text", f"Error Code : 0x{code.code}")
        for pitfall in log_documents.of_log(diagnosis)["pitfalls"]:
            assert not any(advice.is_dangerous(step["step"]) for step in pitfall["mend"]), (code.code, pitfall["id"])


@pytest.mark.thorough
@pytest.mark.parametrize(
    "form",
    [
        "dcmi module initialize failed. ret is {}",
        "npu get board type failed. ret is {}",
        "aclrtSetDevice failed, ret = {}, feature not supported",
        "open device 0 failed, runtime result = {}.[FUNC:ReportCallError][FILE:log_inner.cpp][LINE:161]",
        "RuntimeError: NPU function error: c10_npu::SetDevice(device_id_), error code is {}\n"
        "[ERROR] 2026-01-01-00:00:00 (PID:1000, Device:0, RankID:0) ERR00100 PTA call acl api failed\n"
        "[Error]: Failed to start the device.\n        Rectify the fault based on the error information in the log.",
        "{}: Inner Error!\n        The Inner error is reported as above. The process exits for this inner error.",
    ],
)
def test_no_printed_form_of_a_code_leads_to_a_dangerous_step(form: str) -> None:
    known = [code.code for code in knowledge.errors().codes if any(row.id in code.pitfalls for row in DANGEROUS)]
    for code in (*known, *range(-8021, -7998), -8255, -9005, -9999):
        for one in diagnosed(*form.format(code).splitlines()).suspects:
            dangerous = [step for step, _ in advice.steps(one) if advice.is_dangerous(step)]
            assert dangerous == [], (code, one.pitfall.id, dangerous)


def test_a_symptom_that_is_only_a_code_is_told_from_one_that_says_more() -> None:
    for symptom in (
        r"\b507901\b",
        "error code is 507033",
        "EJ0001",
        r"dcmi mod(ule|el) initialized? failed.{0,40} -8001\b",
    ):
        assert advice.is_code_only(symptom), symptom
    for symptom in (
        "Device lost heart",
        r"\] lost heartbeat",
        "TsdOpen failed",
        "the device is used",
        "已损坏，无法使用",
    ):
        assert not advice.is_code_only(symptom), symptom


@pytest.mark.parametrize(
    ("line", "size"),
    [
        (
            "HCCL_BUFFSIZE is too SMALL, maxBs = 64, h = 7168, NEEDED_HCCL_BUFFSIZE(((maxBs * tokenNeedSizeDispatch * "
            "ep_worldsize * localMoeExpertNum) + (maxBs * tokenNeedSizeCombine * (k + sharedExpertNum))) * 2) = 609MB, "
            "HCCL_BUFFSIZE=200MB.[FUNC:CheckWinSize]",
            "609",
        ),
        ("HCCL_BUFFSIZE_EP is too SMALL, NEEDED_HCCL_BUFFSIZE_HIERARCHY(x) = 1412MB, HCCL_BUFFSIZE=256MB", "1412"),
        ("HCCL_BUFFSIZE is 200 and must be at least 733 MB", "733"),
    ],
)
def test_the_size_that_a_message_asks_for_is_that_of_the_step(line: str, size: str) -> None:
    row = replace(
        knowledge.pitfalls().rows[0],
        fix=("export HCCL_BUFFSIZE=1024   # on all ranks", "restart with <needed> MB"),
    )
    values = patterns._needed_values(line)
    found = Found(Kind.SYMPTOM, row.id, "HCCL_BUFFSIZE", 0, values)
    one = diagnosed("KeyError: 'x'").unexplained
    assert one is not None
    sighting = replace(one, found=found)
    steps = [step for step, _ in advice.steps(Suspect(row, 1.0, 1.0, (sighting,)))]
    assert steps == [f"export HCCL_BUFFSIZE={size}   # on all ranks", f"restart with {size} MB"]


def test_steps_are_judged_by_what_they_do() -> None:
    for step in (
        "npu-smi set -t reset -i 0 -c 0",
        "reinstall the driver",
        "kill -9 <pid>",
        "reboot the host",
        "pkill python",
    ):
        assert advice.is_dangerous(step), step
    for step in ("export HCCL_IF_BASE_PORT=60100", "pip check", "source set_env.sh", "wait 1 minute   # after a reset"):
        assert not advice.is_dangerous(step), step


PEER_TIMED_OUT = (
    "[rank2]: [ERROR] 2025-03-04-10:00:01 (PID:12, Device:2, RankID:2) ERR02200 DIST call hccl api failed.",
    "[rank2]: EI0002: [PID: 12] 2025-03-04-10:00:01.100.200 The wait execution of the Notify register times out.",
)
DEVICE_FAULTS = [
    ("P053", "HBM MULTI BIT ECC, Uncorrectable ECC, device_id=5, event_id=0x80e01801, time us=1"),
    ("P053", "RuntimeError: UCE ERROR happened on npu:5"),
    ("P053", "synchronize stream failed, error code is 507054"),
    ("P052", "Device[5] lost heartbeat.[FUNC:SyncTask]"),
]


@pytest.mark.parametrize(("pitfall", "fault"), DEVICE_FAULTS)
@pytest.mark.parametrize("between", [(), ("[rank5]: 2025-03-04 10:07:00,000 step 12",), ("loading", "", "step 12")])
@pytest.mark.parametrize("last", [True, False])
def test_a_device_fault_leads_over_a_timeout_whatever_stamp_it_borrows(
    pitfall: str, fault: str, between: tuple[str, ...], last: bool
) -> None:
    line = f"[rank5]: {fault}"
    diagnosis = diagnosed(*PEER_TIMED_OUT, *between, line) if last else diagnosed(line, *between, *PEER_TIMED_OUT)
    assert named(diagnosis)[0] == pitfall
    assert diagnosis.first_failure and diagnosis.first_failure.who == "rank 5"


def test_a_device_fault_long_after_another_cause_stays_behind_it() -> None:
    diagnosis = diagnosed(
        "[rank2]: 2025-03-04 10:00:01,000 ERROR OSError: [Errno 28] No space left on device",
        "[rank2]: 2025-03-04 10:00:01,100 ERROR RuntimeError: write failed",
        "[rank5]: 2025-03-04 11:00:01,000 ERROR HBM MULTI BIT ECC, Uncorrectable ECC",
        "[rank5]: 2025-03-04 11:00:01,100 ERROR RuntimeError: stopped",
    )
    assert named(diagnosis) == ["P065", "P053"]


@pytest.mark.parametrize(
    ("code", "pitfall"),
    [
        ("EL0010", "P054"),
        ("EL0022", "P054"),
        ("EL0015", "P010"),
        ("EL0018", "P113"),
        ("EE1013", "P113"),
        ("EL0019", "P017"),
        ("EL0020", "P010"),
        ("EZ1002", "P001"),
        ("EZ3003", "P008"),
    ],
)
def test_codes_of_the_driver_and_of_operators_name_the_issue_that_their_source_gives(code: str, pitfall: str) -> None:
    diagnosis = diagnosed(f"{code}: [PID: 81] 2025-03-04-10:00:01.100.200 It failed.[FUNC:X][FILE:x.cc][LINE:1]")
    assert named(diagnosis)[0] == pitfall


NOT_BUILT = [
    "ModuleNotFoundError: No module named 'vllm_ascend.vllm_ascend_C'",
    "ImportError: No module named 'fast_ops._C'",
    "ModuleNotFoundError: No module named 'mmcv._ext'",
    "RuntimeError: custom ops are not built in this package",
    "ModuleNotFoundError: No module named 'custom_ops'",
]


@pytest.mark.parametrize("line", NOT_BUILT)
def test_an_extension_that_was_not_built_is_a_known_issue(line: str) -> None:
    assert named(diagnosed(f"(EngineCore_DP0 pid=7) {line}"))[:1] == ["P104"]


@pytest.mark.parametrize(
    "line",
    [
        "ERROR 04-28 16:10:09 camem.py:69] Failed to import vllm_ascend_C:No module named 'vllm_ascend.vllm_ascend_C'",
        "WARNING:root:Warning: Failed to register custom ops, all custom ops will be disabled",
        'WARNING [_custom_ops.py:21] Failed to import from vllm._C with ModuleNotFoundError("No module named '
        "'vllm._C'\")",
    ],
)
def test_an_extension_that_a_service_does_without_is_none(line: str) -> None:
    assert named(diagnosed(line)) == []


def test_the_code_behind_every_exception_of_a_program_hides_no_exception() -> None:
    ended = "[ERROR] 2026-03-04-05:06:07 (PID:77, Device:-1, RankID:-1) ERR99999 UNKNOWN applicaiton exception"
    found = diagnosed("Traceback (most recent call last):", "ValueError: bad config", ended)
    assert found.answer is not None and found.answer.kind is AnswerKind.NOT_THE_ENVIRONMENT


PACKAGES = "/usr/local/python3.11/lib/python3.11/site-packages"
TORCH = f'  File "{PACKAGES}/torch/nn/modules/module.py", line 1751, in _wrapped_call_impl'
CUDA = (
    f'  File "{PACKAGES}/torch/cuda/__init__.py", line 310, in _lazy_init',
    "AssertionError: Torch not compiled with CUDA enabled",
)


@pytest.mark.parametrize(
    ("caller", "raised"),
    [
        ("/vllm-workspace/vllm-ascend/vllm_ascend/worker.py", "TypeError: Fresh.__init__() missing 2 required argum"),
        (
            f"{PACKAGES}/vllm/v1/worker/gpu_model_runner.py",
            "TypeError: AscendX.go() takes 3 positional arguments but 4 were given",
        ),
        (
            f"{PACKAGES}/vllm/v1/engine/core.py",
            "TypeError: InputBatch.__init__() got an unexpected keyword argument 'x'",
        ),
        (f"{PACKAGES}/vllm_ascend/sample.py", "TypeError: apply_mask(): incompatible function arguments. The follow"),
    ],
)
def test_a_call_that_vllm_and_its_plug_in_do_not_agree_on_blames_no_release_alone(caller: str, raised: str) -> None:
    traceback = ("Traceback (most recent call last):", f'  File "{caller}", line 9, in run', "    call()", raised)
    for lines in (traceback, tuple(f"(EngineCore_DP0 pid=7) ERROR [core.py:5] {line}" for line in traceback)):
        found = diagnosed(*lines)
        assert named(found) == []
        if "incompatible" not in raised:
            assert found.answer and found.answer.kind is AnswerKind.PROGRAM_OR_PACKAGES
            assert any("npudoctor check stack" in step for step in found.answer.steps)


@pytest.mark.parametrize(
    ("caller", "raised"),
    [
        (f"{PACKAGES}/trl/trainer/sft.py", "TypeError: Fresh.step() got an unexpected keyword argument 'x'"),
        (f"{PACKAGES}/vllm_omni/worker.py", "TypeError: Fresh.__init__() missing 2 required argum"),
        ("/sgl-workspace/sglang/python/sglang/srt/a.py", "[rank3]: TypeError: Fresh.go() takes 3 positional arguments"),
        (f"{PACKAGES}/lm_eval/models.py", "ImportError: cannot import name 'fresh' from 'another.part'"),
    ],
)
def test_a_call_of_an_installed_package_that_another_refuses_is_one_of_other_releases(caller: str, raised: str) -> None:
    head = "Traceback (most recent call last):"
    own = '  File "/home/user/train.py", line 3, in main'
    frame = f'  File "{caller}", line 7, in run'
    lines = [head, own, frame, "    call()", TORCH, "    return forward()", raised]
    rank = [f"[rank3]: {line}" for line in lines[:-1]] if raised.startswith("[rank3]") else lines[:-1]
    assert named(diagnosed(*rank, raised)) == ["P102"]
    assert named(diagnosed(head, frame, "    call()", own, "    call()", raised)) == []
    assert named(diagnosed(raised)) == []


@pytest.mark.parametrize(
    ("caller", "raised"),
    [
        (f"{PACKAGES}/trl/trainer/sft.py", "TypeError: step() got an unexpected keyword argument 'x'"),
        (f"{PACKAGES}/vllm_ascend/ops.py", "ModuleNotFoundError: No module named 'vllm_ascend.fresh'"),
        (f"{PACKAGES}/vllm_ascend/ops.py", "TypeError: AscendFresh.__init__() got an unexpected keyword argument 'x'"),
        (f"{PACKAGES}/vllm_ascend/ops.py", "TypeError: set_ascend_fresh() missing 1 required keyword-only argument"),
        (f"{PACKAGES}/mmengine/registry/a.py", "TypeError: Fresh.__init__() got an unexpected keyword argument 'x'"),
        (f"{PACKAGES}/sglang/srt/a.py", "NameError: name 'torch_npu' is not defined"),
    ],
)
def test_what_a_package_refuses_of_itself_or_of_the_program_is_no_other_release(caller: str, raised: str) -> None:
    own, within = '  File "/home/user/train.py", line 3, in main', f'  File "{caller}", line 7, in run'
    assert named(diagnosed("Traceback (most recent call last):", own, "    main()", within, "    run()", raised)) == []


def test_an_issue_that_is_only_warned_of_explains_no_later_exception_of_the_program() -> None:
    warned = "WARNING utils.py:1597 -- Version mismatch: The cluster was started with:"
    trace = ("Traceback (most recent call last):", '  File "/home/user/train.py", line 3, in main', "KeyError: 'text'")
    found = diagnosed(warned, *["step"] * 30, *trace)
    assert named(found) == [] and [one.pitfall.id for one in found.notices] == ["P102"]
    assert found.answer is not None and found.answer.kind is AnswerKind.NOT_THE_ENVIRONMENT
    assert named(diagnosed(warned, *["step"] * 10)) == ["P102"]
    assert named(diagnosed(warned.replace("WARNING", "ERROR"), *["step"] * 30, *trace)) == ["P102"]


@pytest.mark.parametrize(
    ("line", "what"),
    [
        (
            "[9.3] python[44]: segfault at 0 ip 0000ffff sp 0000ffff error 4 in libmyop.so[ffff8a10+1000]",
            " in libmyop.so",
        ),
        ("node kernel: python[44]: segfault at 10 ip 0000ffff sp 0000ffff error 4", ""),
        ("vllm[7]: unhandled level 2 translation fault (11) at 0x8, in libc.so.6[a+1]", " in libc.so.6"),
        ("traps: python3[9] general protection fault ip:7f sp:7f error:0 in libhccl.so[7f+1]", " in libhccl.so"),
    ],
)
def test_a_crash_that_the_kernel_reports_names_the_library(line: str, what: str) -> None:
    found = diagnosed(line)
    assert found.unexplained is not None and found.unexplained.found.what == f"Segmentation fault{what}"
    assert f"`Segmentation fault{what}`" in log_documents.nothing_known(found)


@pytest.mark.parametrize(
    "line",
    [
        "Jan  3 10:01:30 host kernel: [ 9.0] node_exporter[12]: segfault at 18 ip 0055 sp 007f error 4 in x[7f+9]",
        "[Thu Jan  1 08:01:30 2026] gnome-shell[12]: segfault at 0 ip 0055 sp 007f error 4 in libmutter.so[7f+9]",
    ],
)
def test_a_crash_of_another_program_is_none_of_the_job(line: str) -> None:
    assert diagnosed(line).unexplained is None
    lost = "[1.0] [ascend] [ERROR] [devmng] Device heartbeat lost. (dev_id=7; lost_count=5)"
    found = diagnosed(line.replace("gnome-shell", "python3"), lost)
    assert (named(found), found.unexplained) == (["P052"], None)


def test_a_crash_that_the_shell_reports_stays_beside_an_earlier_error() -> None:
    waited = "ERROR: The wait execution of the Notify register times out."
    found = diagnosed(waited, *["step"] * 20, "Segmentation fault (core dumped)")
    assert found.unexplained is not None and found.unexplained.found.what == "Segmentation fault"


def test_the_npu_of_a_faulty_device_is_to_be_looked_up() -> None:
    lost = "[1.0] [ascend] [ERROR] [devmng] Device heartbeat lost. (dev_id={}; lost_count=5)"
    steps = list(advice.steps(diagnosed(lost.format(7)).suspects[0]))
    assert steps[0] == ("npu-smi info -m   # the NPU of each device that the log numbers (7): Chip Logic ID", True)
    without = diagnosed("[1.0] [ascend] [ERROR] [devmng] Device heartbeat lost.").suspects[0]
    assert not any("Chip Logic ID" in step for step, _ in advice.steps(without))
    program = diagnosed("The wait execution of the Notify register times out. device_id=7").suspects[0]
    assert not any("Chip Logic ID" in step for step, _ in advice.steps(program))


def test_a_crash_is_one_of_torch_npu_only_where_that_is_imported() -> None:
    crash = "Segmentation fault (core dumped)"
    assert named(diagnosed(">>> import torch_npu", crash)) == ["P071"]
    assert named(diagnosed("Segmentation fault", "(core dumped)")) == ["P071"]
    assert named(diagnosed(crash)) == []
    assert named(diagnosed("x::Planner::visit(x::Node const*)", "y::run()", crash)) == []
    assert named(diagnosed("Fatal Python error: Segmentation fault", "", '  File "/a/torch_npu/__init__.py"')) == [
        "P071"
    ]


def test_cuda_that_transformers_asks_for_is_a_newer_release_and_cuda_of_a_program_is_none() -> None:
    head, own = "Traceback (most recent call last):", '  File "/home/user/train.py", line 3, in main'
    within = f'  File "{PACKAGES}/transformers/modeling_utils.py", line 5900, in caching_allocator_warmup'
    assert named(diagnosed(head, own, within, "    empty()", *CUDA)) == ["P102"]
    assert named(diagnosed(head, within, own, "    model.cuda()", TORCH, *CUDA)) == []
    assert named(diagnosed(head, own, f'  File "{PACKAGES}/another/init.py", line 3, in f', *CUDA)) == []


def test_a_package_that_refuses_its_own_call_is_not_of_another_release() -> None:
    frame = f'  File "{PACKAGES}/fresh/part.py", line 7, in <module>'
    assert (
        named(
            diagnosed(
                "Traceback (most recent call last):", frame, "ImportError: cannot import name 'x' from 'fresh.part'"
            )
        )
        == []
    )


SUMMARY = (
    "Failures:",
    "[1]:",
    "  rank      : 3 (local_rank: 3)",
    "  exitcode  : {other} (pid: 14692)",
    "[2]:",
    "  rank      : 0 (local_rank: 0)",
    "  exitcode  : -9 (pid: 14689)",
    "  traceback : Signal 9 (SIGKILL) received by PID 14689",
)


@pytest.mark.parametrize(
    ("other", "root", "expected"), [("1", False, []), ("-15", False, ["P113"]), ("1", True, ["P113"])]
)
def test_a_rank_that_torchrun_killed_ran_out_of_no_memory(other: str, root: bool, expected: list[str]) -> None:
    lines = [line.format(other=other) for line in SUMMARY]
    first = ("Root Cause (first observed failure):", "[0]:", "  rank      : 0 (local_rank: 0)", *lines[-2:])
    assert named(diagnosed(*lines[: -4 if root else None], *(first if root else ()))) == expected


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("/root/mindspore/mindspore/common/dtype.py", ["P070"]),
        ("/usr/lib/python3.9/site-packages/mindspore/common/dtype.py", []),
    ],
)
def test_a_package_without_its_compiled_part_in_its_source_folder_is_hidden(file: str, expected: list[str]) -> None:
    raised = "ModuleNotFoundError: No module named 'mindspore._c_expression'"
    frame = f'  File "{file}", line 20, in <module>'
    found = named(
        diagnosed("Traceback (most recent call last):", frame, "    from .._c_expression import typing", raised)
    )
    assert found[:1] == expected if expected else "P070" not in found


@pytest.mark.parametrize(
    "line",
    [
        "UserWarning: Failed to build CUDA kernels. Falling back to slow reference implementation. Details:",
        "step 1",
    ],
)
def test_a_package_for_cuda_that_is_replaced_stops_nothing(line: str) -> None:
    found = named(diagnosed(line, "", "OSError: CUDA_HOME environment variable is not set."))
    assert found[:1] == ([] if "Falling back" in line else ["P105"])


def test_an_issue_that_is_only_warned_of_ranks_behind_one_that_is_an_error() -> None:
    warned = "WARNING utils.py:1597 -- Version mismatch: The cluster was started with:"
    found = named(diagnosed(warned, *["step"] * 20, "ImportError: libascend_hal.so: cannot open shared object file"))
    assert found[0] == "P009" and "P102" in found


@pytest.mark.parametrize(
    ("line", "issues"),
    [
        ("    match data:", ["P039"]),
        ("    type Pair = tuple[int, int]", ["P039"]),
        ("    print 'step', 3", []),
        ("    if loss = 3:", []),
    ],
)
def test_syntax_of_a_newer_python_is_no_error_of_the_program(line: str, issues: list[str]) -> None:
    said = (
        "Traceback (most recent call last):",
        '  File "/opt/env/lib/python3.9/site-packages/quantizer/common.py", line 72',
    )
    assert named(diagnosed(*said, line, "          ^", "SyntaxError: invalid syntax")) == issues


@pytest.mark.parametrize(("asked", "first"), [("2.6.0", "P102"), ("2.5.1", "P038")])
def test_no_index_has_a_torch_that_torch_npu_does_not_accept(asked: str, first: str) -> None:
    said = (
        f"ERROR: Cannot install torch-npu==2.5.1 and torch=={asked} because these package versions have conflicting "
        "dependencies.",
        f"    The user requested torch=={asked}",
        "    torch-npu 2.5.1 depends on torch==2.5.1+cpu",
    )
    assert named(diagnosed(*said))[0] == first


def test_an_issue_that_refines_that_of_the_first_rank_comes_before_it() -> None:
    found = diagnosed(
        "(Worker_TP0 pid=571) ERROR 12-04 14:46:08 [a.py:597] Bind_Failed(EJ0003): Failed to bind the IP port. "
        "Reason: The IP address and port have been bound already.",
        "(Worker_TP1 pid=615) ERROR 12-04 14:46:09 [a.py:597] RuntimeError: the other worker is gone",
        "[ERROR] HCCL(570,):2026-12-04-14:46:09.911.312 [hccl_socket.cc:106] [570][HcclSocket][Listen] socket type[0], "
        "listen on ip[10.0.0.1] and specific port[16666] fail.",
    )
    assert named(found)[:1] == ["P023"]


def test_what_pdsh_says_of_a_host_that_was_reached_hides_no_exception() -> None:
    trace = (
        "node2: Traceback (most recent call last):",
        '  node2: File "/work/train.py", line 9',
        "node2: KeyError: 'lr'",
    )
    for code in (1, 255):
        ended = diagnosed("\n".join([*trace, f"pdsh@node1: node2: ssh exited with exit code {code}"]))
        assert named(ended) == [] and ended.answer and ended.answer.kind is AnswerKind.NOT_THE_ENVIRONMENT
    assert named(diagnosed("pdsh@node1: node2: ssh exited with exit code 255")) == ["P126"]
    assert named(diagnosed("pdsh@node1: node2: ssh exited with exit code 1")) == []


def test_the_steps_for_an_image_come_first_where_one_is_pulled() -> None:
    pulled = diagnosed(
        'Error response from daemon: Get "https://a.b/v2/": http: server gave HTTP response to HTTPS client'
    )
    model = diagnosed("OSError: We couldn't connect to 'https://huggingface.co' to load this file")
    for found, is_first in ((pulled, True), (model, False)):
        assert [one.pitfall.id for one in found.suspects] == ["P115"]
        steps = [step for step, _ in advice.steps(found.suspects[0])]
        assert steps[0].startswith("For an image, ") is is_first
        assert sum(step.startswith("For an image, ") for step in steps) == 1
