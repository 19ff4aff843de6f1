"""The headline of a log: the program's own exception of the rank that failed first, and the decisive line."""

from __future__ import annotations

import itertools

import pytest

from npudoctor.explain import log_documents
from npudoctor.explain.diagnosis import Diagnosis, diagnose
from npudoctor.explain.patterns import Sought
from npudoctor.explain.scan import Scanner
from npudoctor.report import explained

SOUGHT = Sought()
LINK = (
    "[rank5]: RuntimeError: [ERROR] HCCL error in: build/ProcessGroupHCCL.cpp:64",
    "[rank5]: EI0006: [PID: 4321] Getting socket times out. Reason: Remote Rank did not send the data in time.",
    "[rank5]:         Solution: 1. Check the rank service processes. 2. Increase HCCL_CONNECT_TIMEOUT.",
)
NOTIFY = (
    "[rank0]: EI0002: [PID: 77] The wait execution of the Notify register times out. Reason: The Notify register "
    "has not received the Notify record from remote rank [3].",
    "[rank0]: RuntimeError: The Inner error is reported as above.",
)
OWN = {
    "KeyError: 'labells'": "KeyError",
    "ValueError: too many values to unpack (expected 2)": "ValueError",
    "RuntimeError: shape '[2, 3]' is invalid for input of size 7": "RuntimeError",
    "IndexError: list index out of range": "IndexError",
}


def diagnosed(*lines: str) -> Diagnosis:
    scanner = Scanner(SOUGHT)
    scanner.read("train.log", [("\n".join(lines) + "\n").encode()])
    return diagnose(scanner)


def told(*lines: str) -> str:
    return explained.log(log_documents.of_log(diagnosed(*lines)), width=200)


def raised(exception: str, rank: int = 3) -> tuple[str, ...]:
    return (
        f"[rank{rank}]: Traceback (most recent call last):",
        f'[rank{rank}]:   File "/home/alice/train.py", line 12, in <module>',
        f"[rank{rank}]:     main()",
        f"[rank{rank}]: {exception}",
    )


@pytest.mark.parametrize(
    ("exception", "waiting", "first"), [*itertools.product(OWN, (LINK, NOTIFY, (*LINK, *NOTIFY)), (True, False))]
)
def test_an_exception_of_the_program_is_the_headline_before_the_ranks_that_waited(
    exception: str, waiting: tuple[str, ...], first: bool
) -> None:
    lines = (*raised(exception), *waiting) if first else (*waiting, *raised(exception))
    text = told(*lines)
    headline = text.splitlines()[0]
    assert OWN[exception] in headline and "timeout" not in headline
    assert "HCCL_CONNECT_TIMEOUT=" not in text
    also = text[text.index("Also in the log") :].splitlines()
    assert "(a consequence; " in also[1]


@pytest.mark.parametrize(("waiting", "first"), itertools.product((LINK, NOTIFY), (True, False)))
def test_a_job_that_is_too_large_is_the_headline_before_the_ranks_that_waited(
    waiting: tuple[str, ...], first: bool
) -> None:
    large = raised(
        "RuntimeError: NPU out of memory. Tried to allocate 2.00 GiB (NPU 1; 60.97 GiB total capacity; 58.10 GiB "
        "already allocated; 58.60 GiB current active; 512.00 MiB free; 59.20 GiB reserved in total by PyTorch)"
    )
    text = told(*large, *waiting) if first else told(*waiting, *large)
    assert text.startswith("The job needs more memory than the NPU has; no other process holds it\n")
    assert "HCCL_CONNECT_TIMEOUT=" not in text


def test_an_unknown_exception_of_the_rank_that_failed_first_is_the_headline_too() -> None:
    headline = told(*LINK, *raised("FooError: the widget could not reach its backend")).splitlines()[0]
    assert headline == "Rank 3 failed first: FooError: the widget could not reach its backend"


def test_a_cause_on_another_rank_stays_the_headline() -> None:
    bound = "[rank5]: EI0019: [PID: 4321] Failed to bind the IP port. Reason: The port has been bound already."
    assert diagnosed(bound, *raised("KeyError: 'labells'")).answer is None


MISMATCHES = {
    "P030": (
        "driver version is not matched with runtime version, drv version is 23.0.3",
        "Driver version mismatch: driver 23.0.3, runtime 8.3.RC1",
        "The version of driver (24.1.rc1) is incompatible with CANN 8.5.0",
        "CANN 8.5.0 is not compatible with driver 23.0.5",
        "version mismatch between driver and runtime",
        "the driver and runtime versions are inconsistent",
        "runtime version 9.0 does not match the driver version 24.1.rc1",
        "Check driver version failed",
        "drv version check failed, cur=23.0.3",
        "Incompatible driver version: CANN 8.5 requires 25.0 or newer",
        "HDK version 23.0.3 is not compatible with toolkit 8.3",
    ),
    "P029": (
        "driver and firmware version mismatch",
        "firmware version 7.1 does not match driver 25.0",
        "the version of firmware is not consistent with the driver version",
        "driver 24.1.rc2 and firmware 7.1.0 are incompatible",
        "version mismatch: firmware and driver",
    ),
}


@pytest.mark.parametrize(("issue", "said"), [(id, said) for id, every in MISMATCHES.items() for said in every])
def test_versions_that_do_not_match_are_the_headline_and_the_evidence(issue: str, said: str) -> None:
    diagnosis = diagnosed(
        "[ERROR] RUNTIME(1234,python):2025-01-01-10:00:00.123.456 [api.cc:100]rtSetDevice: ErrCode=507033, "
        "desc=[device open failed]",
        f"[ERROR] RUNTIME(1234,python):2025-01-01-10:00:00.123.457 [runtime.cc:100] {said}",
        "RuntimeError: NPU function error: aclrtSetDevice, error code is 507033",
    )
    top = diagnosis.suspects[0]
    assert top.pitfall.id == issue
    assert said in top.evidence[0].text


@pytest.mark.parametrize(
    "line",
    [
        "CUDA driver version is insufficient for CUDA runtime version",
        "driver version 25.0.rc1, runtime version 8.3.RC1",
        "firmware 7.7.0 and driver 25.2.0 installed, versions match",
    ],
)
def test_versions_that_are_only_named_are_no_mismatch(line: str) -> None:
    assert not {"P029", "P030"} & {one.pitfall.id for one in diagnosed(line).suspects}


def test_what_is_left_out_is_named_and_contradicts_no_step() -> None:
    text = told(
        "[ERROR] RUNTIME(1234,python):2025-01-01-10:00:00.123.456 [api.cc:100]rtSetDevice: ErrCode=507033, "
        "desc=[device open failed]",
        "RuntimeError: NPU function error: aclrtSetDevice, error code is 507033",
    )
    assert "(left out: 1 step that resets the NPU or reboots the node; run the checks first" in text
    assert "reinstall" not in text
    for word in ("(clear;", "(likely;", "(possible;"):
        assert word not in text


def test_a_library_of_the_driver_that_is_missing_speaks_of_the_host_too() -> None:
    text = told("ImportError: libascend_hal.so: cannot open shared object file: No such file or directory")
    assert text.splitlines()[0].startswith("Driver libraries or NPU device nodes not found")
    assert "set_env.sh" in text and "npudoctor check driver cann.environment" in text
    assert text.index("On a host") < text.index("In a container")


def test_the_place_in_the_program_is_named() -> None:
    text = told(
        "Traceback (most recent call last):",
        '  File "/home/alice/train.py", line 12, in <module>',
        "    main()",
        '  File "/usr/lib/python3.10/site-packages/torch/nn/modules/module.py", line 1501, in _call_impl',
        "    return forward_call(*args, **kwargs)",
        "KeyError: 'labells'",
    )
    assert "Begin at /home/alice/train.py:12, the last frame of the traceback in your own code." in text


def test_the_place_is_that_of_the_rank_and_of_its_own_traceback() -> None:
    text = told(
        "[rank3]: Traceback (most recent call last):",
        '[rank3]:   File "/srv/a.py", line 1, in load',
        '[rank1]:   File "/srv/c.py", line 3, in train',
        "[rank3]: KeyError: 'x'",
        "[rank3]: During handling of the above exception, another exception occurred:",
        "[rank3]: Traceback (most recent call last):",
        '[rank3]:   File "/srv/b.py", line 22, in train',
        "[rank3]: IndexError: list index out of range",
    )
    assert "Begin at /srv/a.py:1," in text


def test_a_traceback_of_installed_packages_names_no_place() -> None:
    text = told(
        "Traceback (most recent call last):",
        '  File "/opt/venv/lib/python3.10/site-packages/yaml/parser.py", line 3, in load',
        "KeyError: 'labells'",
    )
    assert "Begin at" not in text and "Read the traceback" in text


SILENT = {
    ("starting", "epoch 1 loss 2.3", "done"): "no ERROR and no Traceback in 3 lines of train.log: this log shows no",
    ("starting",): "no ERROR and no Traceback in 1 line of train.log: this log shows no failure",
    ("starting", "WARN: slow"): "no known error and no ERROR and no Traceback in 2 lines of train.log; to get help",
    ("starting", "Killed"): "no known error and no ERROR and no Traceback in 2 lines of train.log; to get help",
    ("starting", "ERROR: the flux is low"): "no known error in train.log; to get help, send the lines around the first",
}


@pytest.mark.parametrize(("lines", "said"), SILENT.items())
@pytest.mark.parametrize("end", ["\n", ""])
def test_a_log_without_a_known_error(lines: tuple[str, ...], said: str, end: str) -> None:
    scanner = Scanner(SOUGHT)
    scanner.read("train.log", [("\n".join(lines) + end).encode()])
    assert log_documents.nothing_known(diagnose(scanner)).startswith(said)


def test_a_word_of_failure_is_seen_in_logs_whose_lines_all_differ() -> None:
    scanner = Scanner(SOUGHT)
    block = "".join(f"{chr(103 + number % 19) * (number % 90 + 1)} {number}\n" for number in range(4000))
    scanner.read("train.log", [block.encode(), block.encode(), b"ERROR: the flux is low\n", block.encode()])
    assert log_documents.nothing_known(diagnose(scanner)).startswith("no known error in train.log")


@pytest.mark.parametrize(
    "line",
    [
        "root@0a1b2c3d4e5f:/workspace# python train.py",
        "2026-02-03T10:00:00.000000001Z stdout F start",
        "docker run -it ascend bash",
        '  File "/vllm-workspace/vllm-ascend/x.py", line 1',
    ],
)
def test_the_steps_for_a_container_come_first_where_the_log_shows_one(line: str) -> None:
    text = told(line, "ImportError: libascend_hal.so: cannot open shared object file: No such file or directory")
    assert text.index("In a container") < text.index("On a host")


@pytest.mark.parametrize(
    "line", ["[root@node-7 ~]# python train.py", "Nov 23 10:00:01 node-7 systemd[1]: Started job."]
)
def test_a_log_of_a_host_speaks_of_the_host_first(line: str) -> None:
    text = told(line, "ImportError: libascend_hal.so: cannot open shared object file: No such file or directory")
    assert text.index("On a host") < text.index("In a container")


def test_a_label_that_is_longer_than_its_column_has_a_line_of_its_own() -> None:
    lines = told(
        "EZ9999: The extend info: errcode:(0x800000, 0, 0) errorStr: The DDR address is out of range."
    ).splitlines()
    label = lines.index("  AICore (0x800000, 0, 0)")
    assert lines[label + 1].startswith(" " * 15 + "memory access: ")
