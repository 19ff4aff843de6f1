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
    ("exception", "waiting", "first"), itertools.product(OWN, (LINK, NOTIFY, (*LINK, *NOTIFY)), (True, False))
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
