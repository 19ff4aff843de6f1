"""An attempt that is repeated blames nothing by itself; the last one does, and one before a failure."""

from __future__ import annotations

import pytest

from npudoctor.explain import diagnosis, scan
from npudoctor.explain.patterns import Sought

SOUGHT = Sought()
TIMED_OUT = "HTTPSConnectionPool(host='pypi.org', port=443): Read timed out."
ATTEMPT = (
    "WARNING: Retrying (Retry(total={left}, connect=None, read=None, redirect=None, status=None)) after connection "
    f"broken by 'ReadTimeoutError(\"{TIMED_OUT}\")': /simple/numpy/"
)
REPEATED = (
    (ATTEMPT.format(left=4), "Successfully installed numpy-1.26.4"),
    (f"Error while downloading from https://cdn.example/a: {TIMED_OUT}", "Trying to resume download...", "100%"),
    ("modelscope - WARNING - Download of a failed, will retry: " + TIMED_OUT, "Download model successfully."),
    ("Connecting to a.example (a.example)|10.0.0.9|:443... failed: Connection timed out.", "Retrying.", "200 OK"),
    ("curl: (28) Operation timed out", "Warning: Transient problem: timeout Will retry in 1 seconds.", "done"),
)
GIVEN_UP = (
    (ATTEMPT.format(left=4), "ERROR: No matching distribution found for numpy"),
    (ATTEMPT.format(left=0),),
    (ATTEMPT.format(left=4), "ERROR: Could not install packages due to an OSError: " + TIMED_OUT),
    ("ERROR [config.py:278] Error retrieving file list: MaxRetryError(" + TIMED_OUT + "), retrying 1 of 2",),
)


def named(*lines: str) -> list[str]:
    scanner = scan.Scanner(SOUGHT)
    scanner.read("log", iter([("\n".join(lines) + "\n").encode()]))
    return [one.pitfall.id for one in diagnosis.diagnose(scanner).suspects]


@pytest.mark.parametrize("lines", REPEATED)
def test_an_attempt_that_is_repeated_names_no_issue(lines: tuple[str, ...]) -> None:
    assert named(*lines) == []


@pytest.mark.parametrize("lines", GIVEN_UP)
def test_attempts_before_a_failure_name_what_is_not_reached(lines: tuple[str, ...]) -> None:
    assert named(*lines)[:1] == ["P115"]


def test_a_later_failure_of_another_kind_ranks_before_a_repeated_attempt() -> None:
    failure = "ImportError: libhccl.so: cannot open shared object file: No such file or directory"
    assert named(*REPEATED[0], failure)[0] == "P001"


def test_an_exception_of_the_program_makes_no_earlier_attempt_fail() -> None:
    trace = ("Traceback (most recent call last):", '  File "/work/train.py", line 5, in build', "ValueError: 511 % 8")
    assert named(*REPEATED[0], *trace) == []


def test_other_failures_count_though_they_are_repeated() -> None:
    assert named("accept tcp [::]:8082: accept4: too many open files; retrying in 5ms") == ["P075"]
