"""Whole jobs: the folders of several nodes, their clocks, the rank that failed first, and the echoes."""

from __future__ import annotations

import gzip
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from npudoctor.cli import logfiles
from npudoctor.explain import jobs, scan
from npudoctor.explain.answers import AnswerKind
from npudoctor.explain.diagnosis import Diagnosis, diagnose
from npudoctor.explain.lines import Moment, moment_of, source_of, source_of_file
from npudoctor.explain.patterns import Sought
from npudoctor.explain.sightings import FileRead

SOUGHT = Sought()


def put(path: Path, *lines: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)


def diagnosed(*folders: Path) -> Diagnosis:
    scanner = scan.Scanner(SOUGHT)
    for name, blocks in logfiles.Logs([str(folder) for folder in folders]).read(scan.BLOCK):
        scanner.read(name, blocks)
    return diagnose(scanner, [str(folder) for folder in folders])


def step(hour: int, minute: int) -> str:
    return f"2026-02-03 {hour:02}:{minute:02}:00,000 INFO step {minute} loss 2.0"


def plog(pid: int, clock: str, text: str) -> str:
    return f"[ERROR] HCCL({pid},python3):2026-02-03-{clock}.014.102 [op_base.cc:12] {text}"


def waiting(pid: int, clock: str) -> str:
    return (
        f"[PID: {pid}] 2026-02-03-{clock}.014.102 Communication_Error_Timeout(EI0002): The wait execution of "
        f"the Notify "
        "register times out."
    )


def bound(pid: int, clock: str) -> str:
    return (
        f"[PID: {pid}] 2026-02-03-{clock}.014.102 Communication_Error_Bind_IP_Port(EI0019): Failed to bind the "
        f"IP port. "
        "Reason: The IP address and port have been bound already."
    )


def two_nodes(top: Path, *, hours: int = 0, packed: str = "") -> None:
    """A job of two nodes with two ranks each: rank 3 fails at 18:07, the others time out; node-1 is `hours` ahead."""
    for node in (0, 1):
        ahead = hours if node == 1 else 0
        for local in (0, 1):
            rank, pid = 2 * node + local, 1200 + local
            early = rank == 3
            hour, minute = (10 + ahead, 7) if early else (10 + ahead, 17 + rank)
            clock = f"{hour:02}:{minute:02}:20"
            run = top / f"node-{node}" / "torchrun" / "attempt_0" / str(local)
            put(
                run / "stderr.log",
                *(step(10 + ahead, minute) for minute in range(6)),
                f"[rank{rank}]: Traceback (most recent call last):",
                f"[ERROR] 2026-02-03-{clock} (PID:{pid}, Device:{local}, RankID:{rank}) ERR02200 DIST call hccl "
                f"failed.",
                step(10 + ahead, 25),
            )
            text = bound(pid, clock) if early else waiting(pid, clock)
            put(
                top / f"node-{node}" / "ascend" / "log" / "debug" / "plog" / f"plog-{pid}_20260203100000.log{packed}",
                plog(pid, f"{10 + ahead:02}:00:00", "start"),
                plog(pid, clock, "call trace: hcclRet -> 4"),
                text,
                plog(pid, f"{10 + ahead:02}:25:00", "end"),
            )


@pytest.mark.parametrize("packed", ["", ".gz"])
@pytest.mark.parametrize("hours", [0, 8, -5])
def test_the_rank_that_failed_first_on_several_nodes_whose_clocks_differ(
    tmp_path: Path, hours: int, packed: str
) -> None:
    two_nodes(tmp_path, hours=hours, packed=packed)
    diagnosis = diagnosed(tmp_path)
    first = diagnosis.first_failure
    assert first is not None
    assert (first.who, first.by, first.of) == ("rank 3 of node-1", "time", 4)
    assert first.sighting.found.what == "P003"
    assert {echo.sighting.found.what for echo in diagnosis.echoes} == {"P019"}
    assert diagnosis.suspects[0].pitfall.id == "P003"
    assert any(diagnosis.shifts) is bool(hours)
    assert diagnosis.nodes == ("node-0", "node-1")
    assert [echo.who for echo in diagnosis.echoes] == ["rank 0 of node-0", "rank 1 of node-0", "rank 2 of node-1"]
    assert [round(echo.after_s or 0) for echo in diagnosis.echoes] == [600, 660, 720]


def test_the_folders_of_the_nodes_may_be_named_one_by_one(tmp_path: Path) -> None:
    two_nodes(tmp_path)
    (tmp_path / "node-0").rename(tmp_path / "alpha")
    (tmp_path / "node-1").rename(tmp_path / "beta")
    first = diagnosed(tmp_path / "alpha", tmp_path / "beta").first_failure
    assert first and (first.who, first.of) == ("rank 3 of beta", 4)


def test_the_pods_of_a_job_print_utc_beside_a_local_plog(tmp_path: Path) -> None:
    uid = "3b0c7a52-1111-2222-3333-444455556666"
    for pod, rank, minute, text in (
        ("train-worker-0", 0, 40, waiting(51, "18:40:00")),
        ("train-worker-1", 1, 7, "KeyError: 'labels'"),
    ):
        stamp = f"2026-02-03T10:{minute:02}:00.014102123Z"
        put(
            tmp_path / f"default_{pod}_{uid}" / "trainer" / "0.log",
            f"2026-02-03T10:00:00.000000001Z stdout F step {rank}",
            f"{stamp} stderr F [rank{rank}]: Traceback (most recent call last):",
            f"{stamp} stderr F [rank{rank}]: {text}",
            "2026-02-03T10:41:00.000000001Z stdout F end",
        )
    diagnosis = diagnosed(tmp_path)
    assert diagnosis.first_failure and diagnosis.first_failure.who == "rank 1 of train-worker-1"
    assert diagnosis.answer and diagnosis.answer.kind.value == "not-the-environment"
    assert [echo.who for echo in diagnosis.echoes] == ["rank 0 of train-worker-0"]


def test_ray_s_workers_say_on_which_node_they_run(tmp_path: Path) -> None:
    put(
        tmp_path / "driver.log",
        "(RayWorkerWrapper pid=771, ip=10.0.0.9) [PID: 771] 2026-02-03-10:07:00.014.102 Bind_Failed(EI0019): "
        "Failed to bind "
        "the IP port. Reason: The IP address and port have been bound already.",
        *["step"] * 30,
        "(RayWorkerWrapper pid=771, ip=10.0.0.8) " + waiting(771, "10:37:00"),
    )
    diagnosis = diagnosed(tmp_path)
    assert diagnosis.first_failure and diagnosis.first_failure.who == "process 771 of 10.0.0.9"
    assert [echo.who for echo in diagnosis.echoes] == ["process 771 of 10.0.0.8"]


WAITED = "RuntimeError: EI0002: The wait execution of the Notify register times out."
BOUND = "RuntimeError: EI0019: Failed to bind the IP port. Reason: The IP address and port have been bound already."


def of_four(form: str) -> list[str]:
    """Lines of four processes of which the third fails first: form has the number of the process, and its node."""
    return [
        form.format(number, 1 + number // 2, f"2026-02-03 10:0{0 if number == 2 else 3}:12,10{number}")
        + (BOUND if number == 2 else WAITED)
        for number in range(4)
    ]


@pytest.mark.parametrize(
    ("form", "first", "echoes"),
    [
        ("(EngineCore_DP0 pid=7) (Worker_TP{0} pid=8{0}) ERROR {2} [a.py:5] ", "worker TP2", "worker TP0"),
        ("(EngineCore pid=7) (RayWorkerProc pid=9{0}) (Worker_TP{0} pid=8{0}) ERROR {2} ", "worker TP2", "worker TP0"),
        ("(WorkerDict pid=5{0}, ip=10.0.0.{1}) (Worker_TP{0} pid=8{0}) {2} ", "worker TP2 of 10.0.0.2", "worker TP0"),
        ("[pod/train-worker-{0}/main] {2} ", "train-worker-2", "train-worker-0"),
        ("train-worker-{0} main {2} ", "train-worker-2", "train-worker-0"),
    ],
)
def test_the_process_in_the_last_brackets_and_the_pod_before_a_line_are_its_source(
    tmp_path: Path, form: str, first: str, echoes: str
) -> None:
    put(tmp_path / "all.log", *of_four(form))
    found = diagnosed(tmp_path)
    assert found.first_failure and (found.first_failure.who, found.first_failure.of) == (first, 4)
    assert next(one.who.removesuffix(" of 10.0.0.1") for one in found.echoes) == echoes and len(found.echoes) == 3


@pytest.mark.parametrize("folders", [("node-0", "node-1"), ("", "")])
def test_ray_s_driver_and_the_file_of_a_worker_are_one_process(tmp_path: Path, folders: tuple[str, str]) -> None:
    put(tmp_path / "driver.log", *of_four("(WorkerDict pid=500{0}, ip=10.0.0.{1}) {2} "))
    for number, line in enumerate(of_four("{2} ERROR x.py:1 ")):
        folder = tmp_path / folders[number // 2] / "session_latest" / "logs"
        put(folder / f"worker-{number:040x}-01000000-500{number}.out", line)
    found = diagnosed(tmp_path)
    assert found.first_failure and found.first_failure.of == 4
    assert found.first_failure.who == f"process 5002 of {folders[1] or '10.0.0.2'}"
    assert len({one.who for one in found.echoes}) == 3


def test_processes_of_one_number_on_two_nodes_stay_two(tmp_path: Path) -> None:
    for node in (0, 1):
        put(tmp_path / f"node-{node}" / "logs" / f"worker-{node:040x}-01000000-5000.out", of_four("{2} ")[2 * node])
    put(tmp_path / "driver.log", *of_four("(WorkerDict pid=5000, ip=10.0.0.{1}) {2} ")[::2])
    found = diagnosed(tmp_path)
    assert found.first_failure and (found.first_failure.who, found.first_failure.of) == ("process 5000 of node-1", 2)


def test_a_worker_s_file_of_msrun_names_its_rank_and_the_scheduler_is_no_rank(tmp_path: Path) -> None:
    for number, line in enumerate(of_four("[ERROR] DISTRIBUTED(90{0},ffff,python):{2} [a.cc:1] ")):
        put(tmp_path / f"worker_{number}.log", line)
    put(
        tmp_path / "scheduler.log",
        "[WARNING] DISTRIBUTED(899,ffff,python):2026-02-03 10:05:00 The node: 1 is timed out",
    )
    found = diagnosed(tmp_path)
    assert found.first_failure and (found.first_failure.who, found.first_failure.of) == ("rank 2", 4)


@pytest.mark.parametrize(
    ("exit", "traceback", "said"),
    [
        ("-11 (pid: 43)", "Signal 11 (SIGSEGV) received by PID 43", "ended by Signal 11 (SIGSEGV)"),
        ("1 (pid: 43)", "To enable traceback see: https://example.org", "exit code 1"),
    ],
)
def test_a_report_of_torchrun_alone_names_the_rank_that_failed_first(
    tmp_path: Path, exit: str, traceback: str, said: str
) -> None:
    rows = ("time      : 2026-02-03_10:00:12", "rank      : 11 (local_rank: 3)", f"exitcode  : {exit}")
    put(
        tmp_path / "node0.log",
        "train.py FAILED",
        "Root Cause (first observed failure):",
        "[0]:",
        *(f"  {row}" for row in rows),
        "  error_file: <N/A>",
        f"  traceback : {traceback}",
    )
    found = diagnosed(tmp_path)
    assert found.answer and found.answer.kind is AnswerKind.SAID_BY_THE_LOG and found.suspects == ()
    assert found.answer.title == f"Rank 11 failed first, {said}, as the launcher says"


def test_what_torchrun_reports_is_shown_without_escape_sequences(tmp_path: Path) -> None:
    rows = ("rank      : 3 (local_rank: 3)", "exitcode  : \x1b]52;c;UFdO\x07\x1b[31mEVIL (pid: 5)")
    put(tmp_path / "a.log", "Root Cause (first observed failure):", "[0]:", *(f"  {row}" for row in rows))
    found = diagnosed(tmp_path)
    assert found.answer and found.answer.title == "Rank 3 failed first, exit code unknown, as the launcher says"


def test_rotated_parts_are_read_oldest_first(tmp_path: Path) -> None:
    names = [
        "train.log",
        "train.log.1",
        "train.log.2.gz",
        "train.log.10.gz",
        "0.log",
        "0.log.20260203-111213.gz",
        "b-12",
    ]
    for name in names:
        put(tmp_path / name, name)
    read = [Path(name).name for name, _ in logfiles.Logs([str(tmp_path)]).read(scan.BLOCK)]
    assert read == [
        *("0.log.20260203-111213.gz", "0.log", "b-12"),
        *("train.log.10.gz", "train.log.2.gz", "train.log.1", "train.log"),
    ]


def test_the_cause_is_that_of_the_rank_that_failed_first(tmp_path: Path) -> None:
    put(
        tmp_path / "rank_0.log",
        "2026-02-03 10:00:00,000 INFO start",
        "2026-02-03 10:07:00,000 ERROR [rank0]: OSError: [Errno 28] No space left on device: '/home/user/x'",
    )
    late = "2026-02-03 10:07:05,000 ERROR [rank1]: "
    put(
        tmp_path / "rank_1.log",
        "2026-02-03 10:00:00,000 INFO start",
        f"{late}Failed to bind the IP port. Reason: The IP address and port have been bound already.",
        f"{late}Communication_Error_Bind_IP_Port(EJ0003)",
    )
    diagnosis = diagnosed(tmp_path)
    assert diagnosis.first_failure and diagnosis.first_failure.who == "rank 0"
    assert diagnosis.suspects[0].pitfall.id == "P065"


def test_what_the_only_process_reports_right_behind_its_rank_is_no_other_process(tmp_path: Path) -> None:
    put(
        tmp_path / "job.log",
        "2026-02-03 10:00:01,000 ERROR [rank4]: RuntimeError: ACL stream synchronize failed, error code:507015",
        "EZ9999: [PID: 3112] 2026-02-03-10:00:01.100.200 The error from device(chipId:4), there is an exception of "
        "aivec error, core id is 14",
    )
    found = diagnosed(tmp_path)
    assert [one.pitfall.id for one in found.suspects] == ["P056"]
    assert (found.first_failure and found.first_failure.of, found.echoes) == (1, ())


@pytest.mark.parametrize("later_s", [1200, 1500, 1790, 1836, 2250, 3000, 3590, 5400, 7190])
def test_logs_of_errors_alone_are_half_an_hour_apart_because_a_rank_waited(tmp_path: Path, later_s: int) -> None:
    failed = "[ERROR] RUNTIME(208,python3.10):{}.501.334 [a.cc:1]1 there is an exception of aivec error, core id is 12"
    began = datetime(2026, 3, 11, 12, 2, 20)
    clock = f"{began + timedelta(seconds=later_s):%H:%M:%S}"
    put(tmp_path / "node-1" / "rank_0.log", waiting(101, clock))
    put(tmp_path / "node-2" / "rank_8.log", failed.format("2026-02-03-12:02:20"))
    found = diagnosed(tmp_path)
    assert (any(found.shifts), found.apart) == (False, {})
    assert found.suspects[0].pitfall.id == "P056"
    assert found.first_failure and found.first_failure.who == "rank 8 of node-2"
    assert [round(echo.after_s or 0) for echo in found.echoes] == [later_s]


def test_the_kernel_is_no_rank_that_failed(tmp_path: Path) -> None:
    lost = "[Tue Feb  3 12:02:11 2026] [ascend] [ERROR] [devmng] Device heartbeat lost. (dev_id=0; lost_count=5)"
    put(tmp_path / "node-1" / "rank_0.log", waiting(101, "12:05:20"))
    put(tmp_path / "node-2" / "dmesg.txt", lost)
    found = diagnosed(tmp_path)
    assert found.suspects[0].pitfall.id == "P052"
    assert found.first_failure and (found.first_failure.who, found.first_failure.of) == ("kernel of node-2", 1)
    assert [(echo.who, round(echo.after_s or 0)) for echo in found.echoes] == [("rank 0 of node-1", 189)]


def test_an_exception_of_the_program_leads_over_one_device_error_seconds_later(tmp_path: Path) -> None:
    put(tmp_path / "rank_0.log", "[rank0]: KeyError: 'x'", "[ERROR] 2026-03-11-12:02:20 (PID:100, RankID:0) ERR99999")
    put(
        tmp_path / "rank_1.log",
        "[rank1]: RuntimeError: NPU function error: AclrtSynchronizeDeviceWithTimeout, error code is 507015",
        "[ERROR] 2026-03-11-12:02:29 (PID:101, Device:1, RankID:1) ERR00100 PTA call acl api failed",
    )
    found = diagnosed(tmp_path)
    assert found.answer and found.answer.kind is AnswerKind.NOT_THE_ENVIRONMENT and not found.suspects


def test_a_device_that_fails_minutes_after_a_program_is_a_fault_of_its_own(tmp_path: Path) -> None:
    stamp = "[ERROR] 2026-02-03-10:00:20 (PID:100, Device:0, RankID:0) ERR99999 UNKNOWN applicaiton exception"
    put(
        tmp_path / "node-1" / "rank_0.log",
        "[rank0]: Traceback (most recent call last):",
        "[rank0]: KeyError: 'x'",
        stamp,
    )
    late = "2026-02-03 10:10:20 ERROR [rank8]: RuntimeError: HBM MULTI BIT ECC ERROR, error code:507054"
    put(tmp_path / "node-2" / "rank_8.log", late)
    found = diagnosed(tmp_path)
    assert found.first_failure is not None and found.first_failure.who == "rank 0 of node-1"
    assert found.answer is not None and found.answer.kind is AnswerKind.NOT_THE_ENVIRONMENT
    assert [(echo.who, echo.after_s) for echo in found.echoes] == [("rank 8 of node-2", 600)]
    assert [one.pitfall.id for one in found.suspects] == ["P053"]


def test_a_fault_of_a_device_reported_soon_after_an_exception_leads(tmp_path: Path) -> None:
    put(tmp_path / "rank0.log", "2026-02-03 10:10:00,100 ERROR [rank0]: AssertionError: loss is nan")
    put(
        tmp_path / "rank1.log",
        "2026-02-03 10:10:30,100 ERROR [rank1]: HBM MULTI BIT ECC, Uncorrectable ECC, device_id=1",
    )
    found = diagnosed(tmp_path)
    assert found.answer is None
    assert [one.pitfall.id for one in found.suspects] == ["P053"]


@pytest.mark.parametrize("names", [("a.log", "b.log"), ("b.log", "a.log")])
@pytest.mark.parametrize(
    "warned",
    [
        "[WARNING] DRV(9,python3):2026-02-03-10:05:08.400.000 [dev.cc:1] Heartbeat lost! (device_id=1), recovered",
        "[WARNING] RUNTIME(9,python3):2026-02-03-10:05:08.400.000 [a.cc:1] driver package may not support a interface, "
        "please change new one",
        "2026-02-03 10:05:08,400 WARNING Pull kv failed: x",
    ],
)
def test_a_warning_in_another_file_before_an_exception_stopped_nothing(
    tmp_path: Path, names: tuple[str, str], warned: str
) -> None:
    raised = ("Traceback (most recent call last):", '  File "/w/t.py", line 3, in main', "KeyError: 'loss'")
    put(tmp_path / names[0], "2026-02-03 10:10:00,100 ERROR step 5 failed", *raised)
    put(tmp_path / names[1], warned, "2026-02-03 10:06:00,100 INFO step 4")
    found = diagnosed(tmp_path)
    assert found.answer is not None and found.answer.kind is AnswerKind.NOT_THE_ENVIRONMENT
    assert found.suspects == ()
    assert found.first_failure is not None and found.first_failure.sighting.found.what == "KeyError: 'loss'"
    assert found.echoes == ()


@pytest.mark.parametrize(
    "later", ["KeyError: 'loss'", "EI0002: [PID: 9] The wait execution of the Notify register times out."]
)
def test_what_a_line_for_information_says_is_no_limit_of_the_program(tmp_path: Path, later: str) -> None:
    said = "2026-02-03 10:00:00,100 INFO [c.cpp:3] [ParamChecker::CheckJsonParamType] a: missing compulsory field"
    put(tmp_path / "rank0.log", said, "2026-02-03 10:10:00,100 ERROR failed", later)
    put(tmp_path / "rank1.log", said, "2026-02-03 10:10:00,100 INFO step 4")
    found = diagnosed(tmp_path)
    assert found.suspects or found.answer
    assert found.answer is None or "MindIE" not in found.answer.title
    put(tmp_path / "rank0.log", said, "2026-02-03 10:10:00,100 INFO step 1")
    assert diagnosed(tmp_path).answer is None


def test_the_first_failure_is_shown_by_the_issue_that_leads(tmp_path: Path) -> None:
    missing = "ImportError: libhccl.so: cannot open shared object file: No such file or directory"
    put(tmp_path / "rank_0.log", f"{missing}. Please check that the cann package is installed.")
    put(tmp_path / "rank_1.log", "[rank1]: EI0006: Getting socket times out")
    found = diagnosed(tmp_path)
    assert found.first_failure is not None
    assert found.suspects[0].pitfall.id == found.first_failure.sighting.found.what == "P001"


def test_a_port_that_is_down_goes_before_the_links_that_wait_for_it_on_another_node(tmp_path: Path) -> None:
    down = plog(220, "10:00:20", "[rs_rdma.c:1] rdev port is down, phyId[0] port[1] status[1]")
    put(tmp_path / "node-1" / "plog-118_20260203100000000.log", waiting(118, "10:02:10"))
    put(tmp_path / "node-2" / "plog-220_20260203100000000.log", down)
    found = diagnosed(tmp_path)
    assert found.suspects[0].pitfall.id == "P026"
    assert found.first_failure and found.first_failure.who == "process 220 of node-2"


def test_files_belong_to_the_nodes_whose_folders_were_named() -> None:
    names = ["/a/run/hana/train.log", "/a/run/ito/x/train.log"]
    assert jobs.nodes_of(names, ["/a/run/hana", "/a/run/ito/"]) == ("hana", "ito")
    assert jobs.nodes_of(["r/rank0/a.log", "r/rank1/a.log"], ["r/rank0", "r/rank1"]) == (None, None)


@pytest.mark.parametrize(
    ("names", "nodes"),
    [
        (["run/node-0/a.log", "run/node-1/a.log"], ("node-0", "node-1")),
        (["run/10.0.0.8/a.log", "run/10.0.0.9/b/c.log"], ("10.0.0.8", "10.0.0.9")),
        (["job/train-worker-0/0.log", "job/train-master-0/0.log"], ("train-worker-0", "train-master-0")),
        (["a/log/debug/plog/plog-1_20260203.log", "b/log/debug/plog/plog-1_20260203.log"], ("a", "b")),
        (["run/rank_0.log", "run/rank_1.log"], (None, None)),
        (["run/attempt_0/0/stderr.log", "run/attempt_0/1/stderr.log"], (None, None)),
        (["node-0/a.log"], (None,)),
        (["plog/plog-1_20260203.log", "train.log"], (None, None)),
    ],
)
def test_files_belong_to_nodes_by_their_folders(names: list[str], nodes: tuple[str | None, ...]) -> None:
    assert jobs.nodes_of(names) == nodes


@pytest.mark.parametrize(
    ("line", "source"),
    [
        ("2026-02-03T10:00:00.014102123Z stderr F [rank3]: x", ("rank 3")),
        ("2026-02-03T10:00:00.014102123+08:00 stderr F (VllmWorker rank=2 pid=400) x", "rank 2"),
        ("02/03/2026 10:07:00 - WARNING - __main__ - Process rank: 3, device: npu:3", "rank 3"),
        ("worker-1: [rank9]: RuntimeError: x", "rank 9 of worker-1"),
        ("10.0.0.9: Traceback (most recent call last):", "10.0.0.9"),
        ("(RayTrainWorker pid=12, ip=10.0.0.9) x", "process 12 of 10.0.0.9"),
        ("(EngineCore_DP1 pid=12) ERROR 02-03 10:00:00 x", "worker DP1"),
        ("[2026-02-03 10:00:00.014+08:00] [771] [281473] [server] [ERROR] x", "process 771"),
        ("2026-02-03 10:00:00,014 [ERROR] [771] [llm_engine.cpp:12] [MIE04E000001] x", "process 771"),
    ],
)
def test_lines_of_containers_launchers_and_services_name_their_source(line: str, source: str) -> None:
    assert source_of(line).label == source


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("logs/rank_3.log.2.gz", "rank 3"),
        ("slurm-4711_3.out", "rank 3"),
        ("logs/log_3.txt", "rank 3"),
        ("attempt_0/3/stderr.log.gz", "rank 3"),
        ("worker_5.log.1", "rank 5"),
        ("plog/plog-118_20260203101112.log.gz", "process 118"),
        ("device-0/device-118_20260203101112.log", "process 118"),
        ("session/logs/worker-" + "0a" * 28 + "-01000000-4711.err", "process 4711"),
        ("mindie-server_771_20260203101112.log", "process 771"),
    ],
)
def test_names_of_files_name_their_source(name: str, label: str) -> None:
    assert source_of_file(name).label == label


@pytest.mark.parametrize(
    ("text", "zone"),
    [
        ("2026-02-03T10:00:00Z x", 0),
        ("2026-02-03T10:00:00.014102123Z stderr F x", 0),
        ("2026-02-03T18:00:00+08:00 x", 28800),
        ("2026-02-03 18:00:00,123 +0800 x", 28800),
        ("[2026-02-03 04:30:00.014-05:30] x", -19800),
        ("2026-02-03 10:00:00 UTC x", 0),
        ("2026-02-03 10:00:00,000 INFO x", None),
        ("2026-02-03-10:00:00.014.102 x", None),
    ],
)
def test_stamps_with_a_zone_are_compared_in_utc(text: str, zone: int | None) -> None:
    moment = moment_of(text)
    assert moment and moment.zone_s == zone
    if zone is not None:
        assert round(moment.seconds(2026)) == round(Moment(2026, 2, 3, 36000, 0).seconds(2026))


def test_a_zone_is_found_only_where_beginnings_and_ends_agree_on_it() -> None:
    def file(name: str, began: str, ended: str) -> FileRead:
        return FileRead(name, 1, 1, began=moment_of(f"2026-02-{began}"), ended=moment_of(f"2026-02-{ended}"))

    names = ("node-0", "node-1")
    here = file("a", "03 10:00:00", "03 12:00:00")
    assert jobs.clock_shifts([here, file("b", "03 18:00:10", "03 20:03:00")], names) == (28800.0, 0.0)
    assert jobs.clock_shifts([here, file("b", "03 10:00:10", "03 12:30:00")], names) == (0.0, 0.0)
    assert jobs.clock_shifts([here, file("b", "01 18:00:10", "03 20:03:00")], names) == (0.0, 0.0)
    assert jobs.clock_shifts([here, FileRead("b", 1, 1)], names) == (0.0, 0.0)


@pytest.mark.parametrize("ahead_s", [-95, 0, 60, 8 * 3600 + 3])
def test_a_rank_of_a_program_that_failed_leads_over_the_timeouts_of_others(tmp_path: Path, ahead_s: int) -> None:
    def at(rank: int, second: float) -> str:
        clock = datetime(2026, 3, 1, 10) + timedelta(seconds=second + (ahead_s if rank >= 4 else 0))
        return clock.strftime("%Y-%m-%d %H:%M:%S,000")

    for rank in range(8):
        steps = [f"{at(rank, second)} INFO [rank{rank}] iteration {second}" for second in range(30)]
        failed = [f"{at(rank, 30)} ERROR [rank5]: ValueError: bad sample in shard 7"]
        waited = [f"{at(rank, 150 + rank)} ERROR [rank{rank}] EI0006: Getting socket times out"]
        put(tmp_path / f"node-{rank // 4}" / f"rank_{rank}.log", *steps, *(failed if rank == 5 else waited))
    found = diagnosed(tmp_path)
    assert found.first_failure is not None and found.first_failure.who == "rank 5 of node-1"
    assert found.answer is not None and found.answer.kind is AnswerKind.NOT_THE_ENVIRONMENT
    assert len(found.echoes) == 7


@pytest.mark.parametrize("ahead_s", [3 * 3600 + 17 * 60, -(2 * 3600 + 43 * 60), 26 * 3600 + 16 * 60, -17 * 60])
def test_a_clock_that_is_hours_ahead_does_not_say_who_failed_first(tmp_path: Path, ahead_s: int) -> None:
    def at(rank: int, second: float) -> str:
        clock = datetime(2026, 3, 3, 10) + timedelta(seconds=second + (ahead_s if rank >= 4 else 0))
        return clock.strftime("%Y-%m-%d %H:%M:%S,000")

    for rank in range(8):
        steps = [f"{at(rank, second)} INFO [rank{rank}] iteration {second}" for second in range(30)]
        failed = [f"{at(rank, 60)} ERROR [rank1]: Failed to bind the IP port. Reason: EI0019"]
        waited = [f"{at(rank, 150 + rank)} ERROR [rank{rank}] EI0006: Getting socket times out"]
        put(tmp_path / f"node-{rank // 4}" / f"rank_{rank}.log", *steps, *(failed if rank == 1 else waited))
    found = diagnosed(tmp_path)
    [(node, ahead)] = found.apart.items()
    assert node in ("node-0", "node-1")
    assert abs(abs(ahead) - abs(ahead_s)) < 120
    assert found.first_failure is not None
    assert (found.first_failure.who, found.first_failure.by) == ("rank 1 of node-0", "cause")
    assert found.suspects[0].pitfall.id == "P003"


def test_clocks_that_agree_and_nodes_that_join_later_are_not_apart() -> None:
    def file(began: str, ended: str) -> FileRead:
        return FileRead("log", 1, 1, began=moment_of(f"2026-02-{began}"), ended=moment_of(f"2026-02-{ended}"))

    names = ("node-0", "node-1", "node-2")
    here = file("03 10:00:00", "03 12:00:00")
    for other in (("03 10:09:00", "03 12:09:00"), ("03 11:30:00", "03 12:00:00"), ("03 10:00:00", "03 10:20:00")):
        assert jobs.clocks_apart([here, here, file(*other)], names, (0.0,) * 3) == {}
    assert jobs.clocks_apart([here, here, file("03 13:17:00", "03 15:17:00")], names, (0.0,) * 3) == {"node-2": 11820.0}
    assert jobs.clocks_apart([here, file("03 13:17:00", "03 15:17:00")], (None, None), (0.0,) * 2) == {}
