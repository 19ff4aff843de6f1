"""How a log ends: what came before a good end, or after somebody stopped the job, is no cause."""

from __future__ import annotations

import gzip
import json

import pytest

from npudoctor.explain import endings
from npudoctor.explain.answers import AnswerKind
from npudoctor.explain.diagnosis import Diagnosis, diagnose
from npudoctor.explain.patterns import Sought
from npudoctor.explain.scan import Scanner

SOUGHT = Sought()
FAULT = "ImportError: libascend_hal.so: cannot open shared object file: No such file or directory"


def diagnosed(*lines: str) -> Diagnosis:
    scanner = Scanner(SOUGHT)
    scanner.read("log", [("\n".join(lines) + "\n").encode()])
    return diagnose(scanner)


def named(diagnosis: Diagnosis) -> list[str]:
    return [suspect.pitfall.id for suspect in diagnosis.suspects]


def kind(diagnosis: Diagnosis) -> AnswerKind | None:
    return diagnosis.answer.kind if diagnosis.answer else None


GOOD = [
    "{'train_runtime': 120.2, 'train_samples_per_second': 10.1}",
    "Process finished with exit code 0",
    "[INFO] Ascend-cann-toolkit_8.3.RC1_linux-aarch64.run install success",
    "Successfully installed torch-2.7.1 torch_npu-2.7.1",
    "INFO:     Application startup complete.",
    '2026-01-01 00:00:00 INFO 10.0.0.1:4242 - "POST /v1/completions HTTP/1.1" 200 OK',
    "===================== 41 passed, 2 skipped in 12.34s =====================",
    "OK (skipped=2)",
    "Finished: SUCCESS",
    "[100%] Built target ascendcl_demo",
    "ATC run success, welcome to the next use.",
    "Training completed. Do not forget to share your model on huggingface.co/models =)",
    "14207|ft|npu|acct|16|COMPLETED|0:0".replace("|", "  "),
    "2026-01-01 部署成功",
]
SAID = [
    "Job finished at Thu Jan  1 00:00:00 UTC 2026",
    "训练完成",
    "done",
    "Training finished.",
    "Benchmark completed",
]


@pytest.mark.parametrize("good", GOOD)
def test_what_a_log_complained_of_before_it_ended_well_stopped_nothing(good: str) -> None:
    found = diagnosed(FAULT, "step 1", good, "", "a last line")
    assert named(found) == [] and kind(found) is AnswerKind.NO_FAILURE
    assert found.notices and found.answer and found.answer.sighting.line == 3
    assert good.strip() in found.answer.sighting.text


@pytest.mark.parametrize("said", SAID)
def test_the_last_words_of_a_script_count_only_where_it_went_on_for_long(said: str) -> None:
    assert named(diagnosed(FAULT, *["a line"] * 5, said)) == named(diagnosed(FAULT))
    found = diagnosed(FAULT, *["a line"] * 40, said)
    assert named(found) == [] and kind(found) is AnswerKind.NO_FAILURE


@pytest.mark.parametrize(
    "bad",
    [
        "Process finished with exit code 1",
        "exit code: 01",
        "===================== 3 failed, 41 passed in 12.34s =====================",
        "Training failed to finish",
        "Step 3/7 : RUN pip install torch",
        "model was not exported successfully: error",
        "FAILED (errors=1)",
        'Normal  Pulled  32s  kubelet  Successfully pulled image "a/b:1" in 708ms',
        "pod-0   0/1   CrashLoopBackOff   4 (12s ago)   3m\npod-1   0/1   Completed   0   3h",
        "Ran 5 tests in 2.1s",
        "14207  ft  npu  acct  16  FAILED  1:0",
        "training is done by four ranks, and never ended",
        "Unknown argument",
        "训练失败",
    ],
)
def test_no_other_end_is_good(bad: str) -> None:
    assert named(diagnosed(FAULT, "step 1", bad))


def test_a_failure_behind_a_good_report_is_told() -> None:
    assert named(diagnosed("Successfully installed torch-2.7.1", FAULT))
    assert named(diagnosed(FAULT, "Successfully installed torch-2.7.1", "RuntimeError: it failed"))
    assert named(diagnosed(FAULT, GOOD[0], *["step"] * 20))


def test_faults_of_a_device_and_warnings_of_degraded_jobs_are_told_after_a_good_end() -> None:
    fault = "[ERROR] TS(1): device 3 multi bit ecc error, fault code 0x80E01801"
    assert named(diagnosed(fault)) == named(diagnosed(fault, GOOD[1]))


@pytest.mark.parametrize("made", ["plain", "gz", "docker"])
def test_the_line_of_a_good_end_is_that_of_the_file(made: str) -> None:
    lines = [f"step {number}" for number in range(3000)] + [FAULT, *["step"] * 9, GOOD[1], "bye"]
    if made == "docker":
        lines = [json.dumps({"log": line + "\n", "stream": "stdout", "time": "2026-01-01T00:00:00Z"}) for line in lines]
    data = ("\n".join(lines) + "\n").encode()
    scanner = Scanner(SOUGHT)
    scanner.read("log.gz" if made == "gz" else "log", [gzip.compress(data) if made == "gz" else data])
    found = diagnose(scanner)
    assert found.answer and found.answer.kind is AnswerKind.NO_FAILURE
    at = found.answer.sighting
    assert at.line == 3011
    assert data[at.offset :].startswith(lines[3010].encode())


STOPS = [
    "^CTraceback (most recent call last):",
    "KeyboardInterrupt",
    "torch.distributed.elastic.multiprocessing.api.SignalException: Process 4242 got signal: 15",
    "slurmstepd: error: *** JOB 77 ON node0 CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME LIMIT ***",
    "slurmstepd: error: *** STEP 77.0 ON node0 CANCELLED AT 2026-01-01T00:00:00 DUE TO PREEMPTION ***",
    "Received 15 death signal, shutting down workers",
    "slurmstepd: error: *** JOB 77 ON node0 CANCELLED AT 2026-01-01T00:00:00 ***",
    "INFO launcher.py:110] SIGTERM received, shutting down FastAPI HTTP server.",
    "##[error]The operation was canceled.",
    "  Warning  Preempted  12s  volcano  Preempted by pod 77 on node node0",
]


@pytest.mark.parametrize("stop", STOPS)
def test_what_follows_from_a_stop_is_no_cause(stop: str) -> None:
    after = "EI0006: Getting socket times out. Reason: Remote Rank did not send the data in time."
    found = diagnosed("step 1", stop, *["  frame"] * 20, after, FAULT)
    assert named(found) == [] and kind(found) is AnswerKind.STOPPED
    assert found.answer and found.answer.sighting.line == 2


@pytest.mark.parametrize("stop", STOPS)
def test_what_failed_before_a_stop_stays_the_cause(stop: str) -> None:
    assert named(diagnosed(FAULT, stop)) == named(diagnosed(FAULT))


def test_a_later_command_in_the_same_log_is_judged() -> None:
    assert named(diagnosed("^C", *["step"] * 400, FAULT)) == named(diagnosed(FAULT))


PROGRESS = [
    "{'loss': 0.5479, 'grad_norm': 0.5213, 'learning_rate': 1.886598e-05, 'epoch': 0.75}",
    "epoch: 1 step: 100, loss is 2.3012",
    " iteration 10/ 100 | elapsed time per iteration (ms): 1201.3 | lm loss: 1.1E+01 |",
    "INFO loggers.py:116] Engine 000: Avg prompt throughput: 31.2 tokens/s, Running: 1 reqs",
    'INFO:     10.0.0.1:4242 - "POST /v1/chat/completions HTTP/1.1" 200 OK',
    '0: :::MLLOG {"time_ms": 1745065575557, "event_type": "POINT_IN_TIME", "key": "train_loss", "value": 1.31}',
    "Epoch[1] [100/13990] step cost: 22372.04 ms, G_loss: 13.80, loss_G_A: 0.25",
    "Epoch: [0][10/500] Time 0.31 (0.40) Loss 6.9123 (6.9200) Acc@1 0.39",
    "2022-08-12 16:13:26 step 100, 1832.5 images/sec",
    "examples/sec: 3841.2",
    "Output throughput: 263.489 token/s",
    "=========== 19 passed, 1 skipped, 13 warnings in 141.20s (0:02:21) ============",
]


@pytest.mark.parametrize("progress", PROGRESS)
def test_what_was_reported_before_the_job_made_progress_stopped_nothing(progress: str) -> None:
    found = diagnosed(FAULT, "step", progress, "the end of the log")
    assert named(found) == [] and found.notices and found.unexplained is None
    again = diagnosed(FAULT, progress, "step", FAULT)
    assert named(again) == named(diagnosed(FAULT)) and again.suspects[0].evidence[0].line == 4


@pytest.mark.parametrize(
    "line",
    [
        "router_aux_loss_coef: 0.001",
        "loss is nan",
        "Avg prompt throughput: 0.0 tokens/s",
        '"POST /v1/completions HTTP/1.1" 500 Internal Server Error',
        "loss function: cross_entropy_2.1",
        "5 packets transmitted, packet loss: 0.0%",
        "5 packets transmitted, 5 received, Packet Loss: 0.0%",
        "speed: 0.0 samples/s",
        "=========== 2 failed, 19 passed in 141.20s (0:02:21) ============",
        '"key": "init_start", "value": null',
        'INFO: 10.0.0.1:42 - "POST /v2/workers HTTP/1.1" 200 OK',
    ],
)
def test_other_lines_are_no_progress(line: str) -> None:
    assert endings.first_progress(line.encode()) is None


def test_warnings_after_progress_stopped_nothing_and_an_error_makes_them_count() -> None:
    warned = (
        "[W424 00:00:00.0 TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl(fd=1): failed to recv, got 0 bytes"
    )
    found = diagnosed("step", PROGRESS[0], warned)
    assert named(found) == [] and [one.pitfall.id for one in found.notices] == ["P050"]
    assert named(diagnosed("step", warned)) == ["P050"]
    assert named(diagnosed("step", PROGRESS[0], warned, FAULT)) != []


WARNED = (
    "[WARNING] ME(1:2,MainProcess) MindSpore version 2.4.10 and Ascend AI software package version 7.5 does not match"
)


def test_warnings_before_many_lines_without_a_failure_stopped_nothing() -> None:
    assert named(diagnosed(WARNED)) == named(diagnosed(WARNED, "some", "lines")) == ["P109"]
    found = diagnosed(WARNED, *[f"answer {number}" for number in range(25)])
    assert named(found) == [] and [one.pitfall.id for one in found.notices] == ["P109"]
    for failed in ("ERROR: the job did not come to an end", "subprocess.CalledProcessError: Command died"):
        assert named(diagnosed(WARNED, *["an answer"] * 25, failed)) == ["P109"], failed


def test_an_event_of_kubernetes_is_no_mere_warning() -> None:
    event = "  Warning  FailedScheduling  12s  scheduler  0/1 nodes are available: 1 Insufficient huawei.com/Ascend910."
    assert named(diagnosed(event, *["  Normal  Pulled  12s  kubelet  Image is present"] * 25)) == ["P121"]


def test_the_status_of_a_service_is_no_good_end() -> None:
    shown = ("$ systemctl status munge", "   Active: active (running)", "  Process: 415 ExecStart=/usr/sbin/munged")
    assert named(diagnosed(FAULT, *shown[:2], f"{shown[2]} (code=exited, status=0/SUCCESS)", " Main PID: 415 (munged)"))
    assert named(diagnosed(FAULT, "systemd[1]: job.service: Main process exited, code=exited, status=0/SUCCESS")) == []


def test_symbols_that_mindspore_can_do_without_are_no_cause() -> None:
    line = (
        "[WARNING] DEVICE(1,2,python):2026-01-01 [mindspore/ccsrc/utils/dlopen_macro.h:165] DlsymAscend] Dynamically "
        "load symbol aclrtX failed, result = /usr/local/Ascend/lib64/libascendcl.so: undefined symbol: aclrtX"
    )
    assert named(diagnosed(line, FAULT)) == named(diagnosed(FAULT))


def test_progress_of_another_file_says_nothing() -> None:
    scanner = Scanner(SOUGHT)
    scanner.read("rank0.log", [(PROGRESS[0] + "\n").encode()])
    scanner.read("rank1.log", [(FAULT + "\n").encode()])
    assert named(diagnose(scanner))


@pytest.mark.parametrize("killed", ["  exitcode : -9 (pid: 42)", "  traceback : Signal 9 (SIGKILL) received by PID 42"])
def test_what_a_scheduler_killed_ran_out_of_no_memory(killed: str) -> None:
    limit = "slurmstepd: error: *** JOB 77 ON node0 CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME LIMIT ***"
    assert named(diagnosed("step 1", killed)) == ["P113"]
    assert kind(diagnosed("step 1", killed, limit)) is AnswerKind.STOPPED
    oom = "slurmstepd: error: Detected 1 oom_kill event in StepId=77.0. Some of the step tasks have been OOM Killed."
    assert named(diagnosed("step 1", oom, killed, limit))[:1] == ["P113"]


PROBE = "  Normal   Killing    2m (x6 over 18m)    kubelet  Container vllm failed liveness probe, will be restarted"
KILLED = "torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: -9) local_rank: 5 (pid: 42)"


@pytest.mark.parametrize("end", [PROBE, KILLED])
def test_how_a_process_was_ended_is_no_cause_beside_a_failure(end: str) -> None:
    assert named(diagnosed("step", end)) == (["P188"] if end == PROBE else ["P113"])
    assert named(diagnosed(FAULT, *["step"] * 9, end)) == named(diagnosed(FAULT))
    own = diagnosed("Traceback (most recent call last):", "KeyError: 'lr'", *["step"] * 9, end)
    assert named(own) == [] and kind(own) is AnswerKind.NOT_THE_ENVIRONMENT


def test_a_sigkill_that_torchrun_names_first_stays_the_cause() -> None:
    root = (
        "Root Cause (first observed failure):",
        "[0]:",
        "  rank      : 5 (local_rank: 5)",
        "  exitcode  : -9 (pid: 42)",
    )
    assert named(diagnosed("[rank1]: KeyError: 'lr'", *["step"] * 9, KILLED, *root))[:1] == ["P113"]


def test_the_stop_of_an_earlier_job_in_the_same_file_stopped_nothing() -> None:
    limit = "slurmstepd: error: *** JOB 77 ON node0 CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME LIMIT ***"
    assert named(diagnosed(limit, *["epoch: 1 step: 100, loss is 2.3012"] * 9, FAULT)) == named(diagnosed(FAULT))


def test_a_failed_node_stops_a_job_from_outside() -> None:
    cancelled = "slurmstepd: error: *** JOB 77 ON node0 CANCELLED AT 2026-01-01T00:00:00 DUE TO NODE FAILURE ***"
    found = diagnosed("step", "srun: error: Node failure on node12", cancelled, "Received 15 death signal")
    assert found.answer and "a node of the job failed" in found.answer.title


def test_the_output_of_commands_that_show_earlier_lines_is_no_good_end() -> None:
    shown = ("user@node0:~$ tail -3 run1.log", PROGRESS[-1], "Terminated", "user@node0:~$ ")
    assert named(diagnosed(FAULT, *shown)) == named(diagnosed(FAULT))
    assert named(diagnosed(FAULT, "user@node0:~$ curl -s host/v1/completions", PROGRESS[-1], "user@node0:~$ ")) == []


def test_a_command_that_the_shell_says_succeeded_is_a_good_end() -> None:
    assert kind(diagnosed(FAULT, "$ python bench.py", "p50 3.2 ms", "$ echo $?", "0", "")) is AnswerKind.NO_FAILURE
    assert named(diagnosed(FAULT, "$ python bench.py", "$ echo $?", "1"))


def test_a_stop_explains_nothing_that_a_later_command_printed() -> None:
    watched = ("$ kubectl get pods -w", "NAME READY", "^C", "$ kubectl logs job-0")
    assert named(diagnosed(*watched, FAULT)) == named(diagnosed(FAULT))
    assert named(diagnosed("$ kubectl get pods -w", "^C$ kubectl logs job-0", FAULT)) == named(diagnosed(FAULT))


def test_what_a_ci_system_does_after_the_job_is_no_cause() -> None:
    after = "fatal: No url found for submodule path 'third_party/x' in .gitmodules"
    found = diagnosed("FAILED tests/test_a.py::test_b - AssertionError", "Post job cleanup.", after)
    assert named(found) == [] and found.answer is None


def test_a_library_that_interrupts_its_own_process_is_not_stopped_from_outside() -> None:
    openblas = "OpenBLAS blas_thread_init: pthread_create failed for thread 12 of 64: Resource temporarily unavailable"
    found = diagnosed("  from . import multiarray", "KeyboardInterrupt", openblas)
    assert named(found)[0] == "P094" and kind(found) is not AnswerKind.STOPPED


def test_an_engine_that_is_ended_by_its_parent_is_not_stopped_from_outside() -> None:
    assert not [*endings.stops_in("KeyboardInterrupt: MQLLMEngine terminated")]
    assert not [*endings.stops_in("Sending process 4242 closing signal SIGTERM")]
    assert not [*endings.stops_in("slurmstepd: error: *** STEP 77.0 ON node1 CANCELLED AT 2026-01-01T00:00:00 ***")]
