"""What a line says about itself: rank, process, time, gravity."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npudoctor.explain import chinese_messages
from npudoctor.explain.lines import NOBODY, Source, advice_begins, gravity_of, moment_of, source_of, source_of_file


@pytest.mark.parametrize(
    ("line", "source"),
    [
        ("[rank3]: RuntimeError: x", Source(rank=3)),
        ("[rank5]:[E1212 12:10:10.142701460 compiler_depend.ts:1675] [Rank 5] HCCL watchdog", Source(rank=5)),
        ("[default2]:[rank10]: Traceback", Source(rank=10)),
        ("[Rank 7] Watchdog caught", Source(rank=7)),
        ("[ERROR] 2025-03-26-17:01:03 (PID:159, Device:0, RankID:4) ERR02200", Source(rank=4, pid=159)),
        ("[ERROR] 2025-03-26-17:01:03 (PID:159, Device:0, RankID:-1) ERR02200", Source(pid=159)),
        ("EI0006: [PID: 1292363] 2025-04-08-18:07:20.444.436 Getting", Source(pid=1292363)),
        ("(EngineCore pid=118) ERROR 04-08 18:07:20 x", Source(pid=118)),
        ("(VllmWorker rank=2 pid=400) ERROR", Source(rank=2, pid=400)),
        ("(VllmWorker TP1 pid=35532) ERROR 08-26", Source(worker="TP1", pid=35532)),
        ("(Worker_DP0_TP3 pid=9) ERROR", Source(worker="DP0_TP3", pid=9)),
        ("[2026-03-03 03:53:36 TP0] Scheduler hit an exception", Source(worker="TP0")),
        ("[1,6]<stderr>:Traceback", Source(rank=6)),
        ("[ERROR] HCCL(17528,python3):2026-03-18-10:33:52.113.403 [x.cc:797]", Source(pid=17528)),
        ("[CRITICAL] KERNEL(51545,ffff8ba74480,python):2019-07-25-19:17:54.525.980 [m.cc:4]", Source(pid=51545)),
        ("Traceback (most recent call last):", NOBODY),
        ("wait socket establish timeout, role[1] rank[12] timeout[120]", NOBODY),
    ],
)
def test_who_wrote_a_line(line: str, source: Source) -> None:
    assert source_of(line) == source


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("logs/rank_3.log", Source(rank=3)),
        ("train-rank12.txt", Source(rank=12)),
        ("worker_5.log", Source(rank=5)),
        ("/tmp/run/attempt_0/3/stderr.log", Source(rank=3)),
        ("plog/plog-1609_20231019123311.log", Source(pid=1609)),
        ("train.log", NOBODY),
        ("2025/train.log", NOBODY),
    ],
)
def test_whose_file_it_is(name: str, source: Source) -> None:
    assert source_of_file(name) == source


@pytest.mark.parametrize(
    ("line", "moment"),
    [
        ("EI0006: [PID: 1] 2025-04-08-18:07:20.444.436 Getting", "2025-04-08 18:07:20.444"),
        ("[ERROR] 2025-03-26-17:01:03 (PID:159", "2025-03-26 17:01:03"),
        ("2025-04-08 18:07:20,123 INFO", "2025-04-08 18:07:20.123"),
        ("2025-04-08T18:07:20.5Z x", "2025-04-08 18:07:20.500"),
        ("2025/04/08 18:07:20 x", "2025-04-08 18:07:20"),
        ("(E pid=1) ERROR 03-30 03:00:55 [patch_core.py:68]", "03-30 03:00:55"),
        ("[rank5]:[E1212 12:10:10.142701460 x.ts:1675]", "12-12 12:10:10.142"),
        ("[rank1]:[W901 21:19:08.277343715 x.cpp:1783]", "09-01 21:19:08.277"),
        ("E20251208 11:52:44.736321 69197 x.cpp:96]", "2025-12-08 11:52:44.736"),
        ("Nov 03 09:12:41 node7 trainer[2201]: x", "11-03 09:12:41"),
        ("04/08/2025 18:07:20 - INFO - accelerate.utils", "2025-04-08 18:07:20"),
        ("2025-13-40 25:00:00", None),
        ("version 2025.1.0 at 10.0.0.1:60000", None),
    ],
)
def test_when_a_line_was_written(line: str, moment: str | None) -> None:
    found = moment_of(line)
    assert (str(found) if found else None) == moment


def test_moments_without_a_year_are_compared_in_the_year_of_the_others() -> None:
    short, full = moment_of("ERROR 03-30 03:00:55 x"), moment_of("2026-03-30 03:00:56 x")
    assert short and full
    assert full.seconds(2026) - short.seconds(2026) == 1
    assert short.key(2026) < full.key(2026)


@pytest.mark.parametrize(
    ("line", "gravity"),
    [
        ("[ERROR] HCCL(1,p):x", 1.0),
        ("[WARNING] HCCL(1,p):x", 0.8),
        ("[W socket.cpp:436] [c10d] x", 0.8),
        ("[rank1]:[W901 21:19:08.27 x.cpp:1783] x", 0.8),
        ("[INFO] HCCL(1,p):x", 0.05),
        ("INFO 04-08 18:07:20 x", 0.3),
        ("[EVENT] RUNTIME(1,p):x", 0.8),
        ("RuntimeError: x", 1.0),
        ("", 1.0),
    ],
)
def test_how_grave_a_line_is(line: str, gravity: float) -> None:
    assert gravity_of(line) == gravity


def test_advice_is_told_from_what_happened() -> None:
    line = "EI0006: Getting socket times out. Reason: 1. The remote does not. Solution: try"
    assert line[advice_begins(line) :].startswith("Reason: 1.")
    assert advice_begins("Failed to bind. Reason: the port is bound") == len(
        "Failed to bind. Reason: the port is bound"
    )


@pytest.mark.thorough
@given(st.text(max_size=200))
def test_no_line_upsets_them(line: str) -> None:
    source_of(line)
    source_of_file(line)
    moment_of(line)
    assert 0 < gravity_of(line) <= 1
    assert 0 <= advice_begins(line) <= len(line)


@pytest.mark.parametrize(
    ("chinese", "english"),
    [
        ("bash: npu-smi：未找到命令", "bash: npu-smi: command not found"),
        ("./run.sh: 行 33: cmake：未找到命令", "./run.sh: line 33: cmake: command not found"),
        ("a.c:3: 致命错误：acl/acl.h：没有那个文件或目录", "a.c:3: fatal error: acl/acl.h: No such file or directory"),
        ("a.c:(.text+0x1)：对‘aclInit’未定义的引用", "a.c:(.text+0x1): undefined reference to `aclInit'"),
        ("x.so: 无法打开共享对象文件: 权限不够", "x.so: cannot open shared object file: Permission denied"),
        ("显存：不足", "显存：不足"),
        ("plain", "plain"),
    ],
)  # fmt: skip
def test_messages_of_linux_and_its_compilers_in_chinese_are_read_in_english(chinese: str, english: str) -> None:
    assert chinese_messages.in_english(chinese) == english
