"""Logs of programs that fail by themselves on a sound node: no known issue of the node is named, no dangerous step."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from npudoctor.explain import advice, diagnosis, scan
from npudoctor.explain.answers import AnswerKind
from npudoctor.explain.diagnosis import Diagnosis
from npudoctor.explain.patterns import Sought
from npudoctor.explain.scoring import STRONG
from tests.wild.test_wild import OF_THE_PROGRAM

SOUGHT = Sought()
OWN = {AnswerKind.NOT_THE_ENVIRONMENT, AnswerKind.PROGRAM_OR_PACKAGES, AnswerKind.JOB_TOO_LARGE}

BEFORE = """\
/usr/local/python3.11/lib/python3.11/site-packages/torch_npu/contrib/transfer_to_npu.py:300: ImportWarning:
  warnings.warn(msg, ImportWarning)
[W compiler_depend.ts:51] Warning: CAUTION: The operator 'aten::isin.Tensor_Tensor_out' is not currently supported on \
the NPU backend and will fall back to run on the CPU. (function npu_cpu_fallback)
Traceback (most recent call last):
  File "/work/train.py", line 88, in <module>
    main()
"""
AFTER = "[ERROR] 2026-01-01-00:00:00 (PID:1000, Device:0, RankID:0) ERR99999 UNKNOWN applicaiton exception\n"
LAUNCHER = """\
E0101 00:00:00.000000 1 site-packages/torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1) \
local_rank: 0 (pid: 1000) of binary: /usr/bin/python3
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
"""

PROGRAMS = json.loads((Path(__file__).parent / "programs.json").read_text(encoding="utf-8"))
"""`raised`: exceptions of programs, each below a traceback; `logs`: operators that are refused or fail."""


MESSAGES: dict[str, list[str]] = json.loads((Path(__file__).parent / "messages.json").read_text(encoding="utf-8"))
"""Messages that name their cause by themselves, by the known issue that they name first; `none` blames no node."""


def diagnosed(text: str) -> Diagnosis:
    scanner = scan.Scanner(SOUGHT)
    scanner.read("log", iter([text.encode()]))
    return diagnosis.diagnose(scanner)


@pytest.mark.parametrize("prefix", ["", "[rank3]: ", "(EngineCore_DP0 pid=1000) ERROR 01-01 00:00:00 [core.py:700] "])
@pytest.mark.parametrize("raised", PROGRAMS["raised"])
def test_a_program_that_fails_by_itself_is_no_fault_of_the_node(raised: str, prefix: str) -> None:
    lines = (BEFORE + raised + "\n" + AFTER).splitlines()
    found = diagnosed("\n".join(prefix + line for line in lines) + "\n" + LAUNCHER)
    assert {one.pitfall.id for one in found.suspects} <= OF_THE_PROGRAM
    steps = [step for one in found.suspects for step, _ in advice.steps(one)]
    steps += found.answer.steps if found.answer else []
    assert not any(map(advice.is_dangerous, steps))
    assert found.answer is not None
    assert found.answer.kind in OWN


@pytest.mark.parametrize("log", PROGRAMS["logs"])
def test_a_refused_or_failed_operator_is_no_fault_of_the_node(log: str) -> None:
    found = diagnosed(log + "\n")
    assert {one.pitfall.id for one in found.suspects} <= OF_THE_PROGRAM
    assert not any(advice.is_dangerous(step) for one in found.suspects for step, _ in advice.steps(one))
    assert found.suspects or (found.answer and found.answer.kind in OWN)


@pytest.mark.parametrize(("known", "message"), [(known, one) for known, ones in MESSAGES.items() for one in ones])
def test_a_message_that_names_its_cause_is_named(known: str, message: str) -> None:
    found = diagnosed(message + "\n")
    if known == "none":
        assert not found.suspects
        assert found.answer is not None
        assert found.answer.kind in OWN
    else:
        assert found.suspects[0].pitfall.id == known


def test_a_general_symptom_counts_less_than_a_symptom_and_allows_no_dangerous_step() -> None:
    general = "ImportError: libother.so.3: cannot open shared object file: No such file or directory"
    specific = "ImportError: libhccl.so: cannot open shared object file: No such file or directory"
    assert [one.pitfall.id for one in diagnosed(f"{general}\n{specific}\n").suspects[:2]] == ["P001", "P118"]
    assert [one.weight < STRONG for one in diagnosed(f"{general}\n").suspects] == [True]
