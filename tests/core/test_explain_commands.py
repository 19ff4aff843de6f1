"""Terminal sessions in a log: what an earlier command reports is past where a later one runs the same again."""

from __future__ import annotations

import pytest

from npudoctor.explain import commands
from npudoctor.explain.answers import AnswerKind
from npudoctor.explain.diagnosis import Diagnosis, diagnose
from npudoctor.explain.patterns import Sought
from npudoctor.explain.scan import Scanner

SOUGHT = Sought()
MISSING = "ModuleNotFoundError: No module named 'decorator'"
FAULT = "RuntimeError: EI0019: Failed to bind the IP port. Reason: The IP address and port have been bound already."


def diagnosed(*lines: str) -> Diagnosis:
    scanner = Scanner(SOUGHT)
    scanner.read("session.log", [("\n".join(lines) + "\n").encode()])
    return diagnose(scanner)


def named(diagnosis: Diagnosis) -> list[str]:
    return [suspect.pitfall.id for suspect in diagnosis.suspects]


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("bash ci/build.sh --python=3.9", "bash ci/build.sh --python=3.9 2>&1 | tee build.log"),
        ("./build.sh", "bash build.sh"),
        ("sudo docker build -t image .", "docker build --progress plain -t image ."),
        ("cd build_out && ./custom.run", "./custom.run --install-path=/path/to"),
        ("RANK=1 nohup python train.py > log", "python train.py --resume"),
        ("source /usr/local/Ascend/ascend-tookit/set_env.sh", ". /usr/local/Ascend/ascend-toolkit/set_env.sh"),
        ("pip install -q torch_npu", "pip install torch_npu --no-deps"),
        ("for i in 0 1; do hccn_tool -i $i -link -g; done", "for i in 0 1; do hccn_tool -i $i -link -g; done"),
        ("docker run -v /a:/b image", "docker run -it -v /a:/b image"),
        ("mpirun -n 8 ./bin/all_reduce_test -p 8", "mpirun -n 8 ./bin/all_reduce_test -p 8"),
    ],
)
def test_a_command_with_the_same_words_or_more_is_the_same(earlier: str, later: str) -> None:
    assert commands.runs_again(commands.words_of(earlier), commands.words_of(later))


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("for i in 0 1; do python train.py; done", "for f in *.log; do wc -l $f; done"),
        ("accelerate launch train.py", "accelerate launch --help"),
        ("docker exec -it c python train.py", "docker exec -it c python -V"),
        ("uv pip install X", "uv pip install Y"),
        ("python -m pip install X", "python -m pip install Y"),
        ("vllm serve A", "vllm serve B"),
        ("timeout 60 python a.py", "timeout 60 python b.py"),
        ("numactl -C 1 python a.py", "numactl -C 1 python b.py"),
        ("git clone A", "git clone B"),
        ("kubectl logs -f pod-a", "kubectl logs -f pod-b"),
        ("source", "source"),
        ("", ""),
        ("|||", ">>>"),
    ],
)
def test_another_command_is_not_the_same(earlier: str, later: str) -> None:
    known = commands.words_of(earlier)
    assert earlier == "source" or not commands.runs_again(known, commands.words_of(later))


@pytest.mark.parametrize(
    "prompt", ["$ ", "[root@node0 job]# ", "user@node0:~/job$ ", "(npu) user@node0:/data$ ", "bash-5.1$ "]
)
@pytest.mark.parametrize("between", [(), ("{0}pip install decorator", "Requirement already satisfied")])
def test_a_failure_of_a_command_that_is_run_again_is_past(prompt: str, between: tuple[str, ...]) -> None:
    first = (f"{prompt}python train.py", "Traceback (most recent call last):", MISSING)
    middle = tuple(line.format(prompt) for line in between)
    assert named(diagnosed(*first, *middle))[0] == "P006"
    found = diagnosed(*first, *middle, f"{prompt}python train.py --resume", "ready")
    assert named(found) == [] and found.notices[0].pitfall.id == "P006"
    assert named(diagnosed(*first, *middle, f"{prompt}python other.py", "ready"))[0] == "P006"


def test_a_command_that_has_printed_nothing_yet_hides_no_failure() -> None:
    assert named(diagnosed("$ python train.py", FAULT, "$ python train.py"))[0] == "P003"


def test_a_log_of_many_prompts_is_no_session_and_keeps_its_fault() -> None:
    cases = [
        line
        for number in range(2100)
        for line in (f"u@h:~$ python case{number}.py", "ERR99999 UNKNOWN application exception", "EZ9999: Inner Error!")
    ]
    found = diagnosed(*cases, "u@h:~$ python train.py", FAULT)
    assert named(found)[0] == "P003" and found.files[0].run_again == frozenset()


@pytest.mark.parametrize(
    "ending",
    [
        ("$ python train.py 2>&1 | tee train.log", FAULT, "$ echo $?", "0"),
        (FAULT, "=== 10 passed, 2 errors in 31.20s ==="),
        (FAULT, "123          train     FAILED      1:0", "123.extern   extern    COMPLETED      0:0"),
        (FAULT, 'INFO: 10.0.0.1:1 - "GET /health HTTP/1.1" 200 OK'),
        (FAULT, 'INFO: 10.0.0.1:1 - "GET /metrics HTTP/1.1" 200 OK'),
    ],
)
def test_what_looks_like_success_and_says_nothing_of_the_job_hides_no_failure(ending: tuple[str, ...]) -> None:
    assert named(diagnosed(*ending))[0] == "P003"


def test_the_last_run_of_a_command_names_the_cause() -> None:
    session = ("$ python train.py", MISSING, "$ python train.py", FAULT, "$ npu-smi info", "$ ls")
    assert named(diagnosed(*session))[0] == "P003"
    again = diagnosed("$ python train.py", MISSING, "$ python train.py", MISSING)
    assert again.suspects[0].evidence[0].line == 4


def test_a_status_of_0_of_a_command_that_only_looks_is_no_success() -> None:
    status = ("$ echo $?", "0")
    assert (
        named(diagnosed("$ python train.py", FAULT, "$ ping 10.0.0.2", "64 bytes from 10.0.0.2", *status))[0] == "P003"
    )
    found = diagnosed("$ bash build.sh", FAULT, "$ bash build.sh", "done", *status)
    assert found.answer is not None and found.answer.kind is AnswerKind.NO_FAILURE


def test_a_file_that_docker_does_not_find_is_the_program_s() -> None:
    copy = 'ERROR: failed to solve: failed to compute cache key: failed to calculate checksum of ref a: "/c": not found'
    found = diagnosed("#5 1.5   Temporary failure in the middle", copy)
    assert found.answer is not None and found.answer.kind is AnswerKind.NOT_THE_ENVIRONMENT


def test_an_exception_of_the_program_leads_over_those_that_wait_for_it() -> None:
    waited = "[ERROR] HCCL(7,python):2026-02-03-10:00:00.014.102 [a.cc:12] EI0002: The wait execution of the Notify"
    own = "json.decoder.JSONDecodeError: Extra data: line 2 column 1 (char 412)"
    found = diagnosed("Traceback (most recent call last):", own, *["step"] * 40, waited)
    assert found.answer is not None and found.answer.kind is AnswerKind.NOT_THE_ENVIRONMENT
