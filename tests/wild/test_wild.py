"""Failures from public threads: the signal that the program printed, and the cause that the thread concluded.

threads.json holds for each thread its link, the cause and the remedy in our words, the known issue that fits
(`pitfall`, and `also` where another one is right too), and `signal`, the lines of the program with names, times and
paths made neutral. `set` is `train` for what rules may be written from, `held` for what they are measured on. `twin_of`
names a thread of the other set with nearly the same message; `signal_completed` marks a message that the thread showed
in part.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from npudoctor import knowledge
from npudoctor.explain import advice, diagnosis, endings, scan
from npudoctor.explain.answers import AnswerKind
from npudoctor.explain.diagnosis import Diagnosis
from npudoctor.explain.patterns import Sought

THREADS: list[dict[str, Any]] = json.loads((Path(__file__).parent / "threads.json").read_text(encoding="utf-8"))
KINDS = {
    *("version-mismatch", "missing-library", "env-not-sourced", "wrong-package", "chip-not-supported", "other"),
    *("device-access", "port-or-network", "hccl-timeout-consequence", "out-of-memory-full-card", "device-index"),
    *("out-of-memory-job-too-large", "disk-or-permission", "kernels-not-compiled", "driver-or-firmware", "hardware"),
    *("container-config", "kv-transport", "not-environment"),
}
OF_THE_PROGRAM = frozenset({"P056", "P063", "P073", "P110"})
"""Known issues that say that the program or the size of the job is the cause: naming one blames no node."""

UNREAD: set[int] = set()
"""Collections that are labelled and not yet diagnosed: the bars begin with their first diagnosis."""

SOUGHT = Sought()
PRIVATE = re.compile(r"/home/(?!user\b|path\b)\w+|\b(?:\d{1,3}\.){3}\d{1,3}\b")
NEUTRAL = re.compile(r"^(?:10\.0\.0\.\d+|127\.0\.0\.1|0\.0\.0\.0)$")


@pytest.mark.parametrize("thread", THREADS, ids=lambda thread: str(thread["id"]))
def test_a_thread_is_labelled_and_neutral(thread: dict[str, Any]) -> None:
    assert thread["set"] in ("train", "held")
    assert thread["kind"] in KINDS
    assert thread["link"].startswith("https://")
    assert thread["cause"] and thread["remedy"] and thread["signal"]
    known = {row.id for row in knowledge.pitfalls().rows}
    assert {*filter(None, [thread["pitfall"]]), *thread.get("also", ())} <= known
    found = PRIVATE.findall("\n".join(thread["signal"]))
    assert [one for one in found if not NEUTRAL.match(one)] == []


def test_ids_are_unique_and_half_is_held_back() -> None:
    assert len({thread["id"] for thread in THREADS}) == len(THREADS)
    sets = Counter(thread["set"] for thread in THREADS)
    assert abs(sets["train"] - sets["held"]) <= 4


def diagnosed(thread: dict[str, Any]) -> Diagnosis:
    scanner = scan.Scanner(SOUGHT)
    scanner.read("signal", iter([("\n".join(thread["signal"]) + "\n").encode()]))
    return diagnosis.diagnose(scanner)


def outcome(thread: dict[str, Any]) -> str:
    """What `npudoctor explain --log` makes of a signal: right, wrong, nothing; fine or blamed for a fault of a program.

    `dangerous` is a wrong answer with a step that resets, reinstalls or ends something.
    """
    found = diagnosed(thread)
    meant = {*filter(None, [thread["pitfall"]]), *thread.get("also", ())}
    first = found.suspects[0] if found.suspects else None
    too_large = found.answer is not None and found.answer.kind is AnswerKind.JOB_TOO_LARGE
    if first is not None and first.pitfall.id in meant:
        return "right" if thread["kind"] != "not-environment" else "fine"
    if first is not None and any(map(advice.is_dangerous, (step for step, _ in advice.steps(first)))):
        return "dangerous"
    if thread["kind"] == "not-environment":
        return "fine" if first is None or first.pitfall.id in OF_THE_PROGRAM else "blamed"
    if first is None and too_large:
        return "right" if "P110" in meant else "wrong"
    return "nothing" if first is None else "wrong"


@cache
def counted(name: str) -> Counter[str]:
    return Counter(
        outcome(thread) for thread in THREADS if thread["set"] == name and thread.get("collection") not in UNREAD
    )


def share(count: int, counts: Counter[str], *of: str) -> float:
    return count / sum(counts[one] for one in of)


@pytest.mark.parametrize(("name", "least"), [("train", 0.89), ("held", 0.88)])
def test_no_fewer_causes_are_named_first_than_when_this_was_measured(name: str, least: float) -> None:
    counts = counted(name)
    assert share(counts["right"], counts, "right", "wrong", "nothing", "dangerous") >= least, counts


@pytest.mark.parametrize("name", ["train", "held"])
def test_no_wrong_answer_is_dangerous_and_few_are_wrong(name: str) -> None:
    counts = counted(name)
    assert counts["dangerous"] == 0
    assert share(counts["wrong"], counts, "right", "wrong", "nothing") <= 0.045, counts


@pytest.mark.parametrize(("name", "most"), [("train", 0.05), ("held", 0.03)])
def test_a_node_is_seldom_blamed_for_what_the_program_did(name: str, most: float) -> None:
    counts = counted(name)
    assert share(counts["blamed"], counts, "fine", "blamed") <= most, counts


HARMLESS = (
    "[INFO] GE(41022,python3.10):2026-03-11-14:02:10.110.221 [error_manager.cc:88]1 registered EI0006",
    "[INFO] HCCL(41022,python3.10):2026-03-11-14:02:10.110.221 [dispatcher.cc:1][1]Launch task taskType[Notify Wait]",
    "[INFO] HCCL(41022,python3.10):2026-03-11-14:02:10.110.221 [dispatcher.cc:1][1]Launch task taskType[SDMA]",
    "[INFO]     2026/03/11 15:22:04.602401 66      om/subscribe.go:99    load fault codes success: [8C204E00 80E01801]",
    "[  101.331301] [ascend] [dms] Event report. (dev_id=4; event_id=0x81078603; severity=0; assertion=0)",
    "[WARNING] HCCL(1,p):2026-03-11-14:02:10.310.321 [a.cc:612][1]HCCL_WHITELIST_DISABLE is not set, default 1",
    "Load dynamic library: libmindspore_gpu.so.11.6 failed. libcublas.so.11: cannot open shared object file",
    "[WARNING] HCCP(1,python):2026-03-11-14:02:10.310.321 rs_socket_recv(812) : recv errno(11) Resource temporarily "
    "unavailable, retry",
    "WARNING [_custom_ops.py:21] Failed to import from vllm._C with ModuleNotFoundError(\"No module named 'vllm._C'\")",
    "INFO [importing.py:53] Triton not installed or not compatible; certain GPU-related functions are off.",
    "INFO [__init__.py:243] No platform detected, vLLM is running on UnspecifiedPlatform",
    "[W330 compiler_depend.ts:117] Warning: Driver Version:  is invalid or not supported yet. (function operator())",
    "WARNING [registry.py:581] Model architecture A is already registered, and will be overwritten by the new model B.",
    "Failed to import from custom_ar with ModuleNotFoundError(\"No module named 'sgl_kernel'\")",
    "[W socket.cpp:209] [c10d] The hostname of the client socket cannot be retrieved. err=-3",
    "[rank0]:[W326 compiler_depend.ts:133] Warning: Device do not support double dtype now.",
    "I20260101 1000 ascend_direct_transport.cpp:1119] Connected to segment: 10.0.0.1:20033, cost:10016885 us.",
    "INFO flash_attn is not installed, using sdpa",
    "[W compiler_depend.ts:88] Warning: pinned_mem_register setting failure, the current cann version or driver "
    "version does not support this feature, now change to `False`. (function operator())",
    "[W compiler_depend.ts:12] Warning: Failed to find function aclrtSetStreamAttribute (function operator())",
    "[EVENT] HCCL(1,python):2026-01-01-00:00:00.000.000 [externalinput.cc:211] [1][Init][EnvVarParam]Env config",
    "max locked memory           (kbytes, -l) 65536",
    "+ ulimit -l unlimited",
    "+ grep -c EI0006 plog-1.log",
    "+ docker run -v /etc/hccl_rootinfo.json:/etc/hccl_rootinfo.json image",
    "#12 [8/14] RUN git clone --recursive https://example.org/a.git && git submodule update --init --recursive",
    "-- CANN: CANN_INSTALL_DIR =  /usr/local/Ascend/ascend-toolkit/latest",
    "-- Could NOT find pybind11 (missing: pybind11_DIR)",
    "  Compatibility with CMake < 3.10 will be removed from a future version of CMake.",
    '    "defaultDevice": {"default_device": "0"},',
    "[WARNING] PTA(1,python):2026-01-01-00:00:00.000 [A.cpp:88]1 Failed to find function aclsysGetVersionStr, ret: 0.",
    "WARNING 01-01 00:00:00 [mooncake_connector.py:512] Receive failed. error=timed out, attempts_left=2.",
    "UserWarning: torch_npu.amp.GradScaler is enabled, but NPU is not available.  Disabling.",
    "WARNING 01-01 00:00:00 [ascend_config.py:758] npugraph_ex is not supported on Ascend 310P. Disabling it.",
    "I20260101 00:00:00.000000 1 ascend_rank.cpp:91] Failed to call hccn_tool, try to read /etc/hccn.conf instead",
    "bind ip:10.20.0.20 port 16666 success",
    "INFO 01-01 00:00:00 [shm_broadcast.py:466] No available shared memory broadcast block found in 60 seconds.",
    "DEBUG 01-01 00:00:00 [__init__.py:93] CUDA platform is not available because: NVML Shared Library Not Found",
    "INFO [logger.py:41] Received request chatcmpl-1: prompt: 'Why do I get NPU out of memory?', params: None",
    "Prompt: 'What is EI0006?', Generated text: ' Getting socket times out. EI0006 is an error of HCCL.'",
    "d4e5f6a [BugFix] Fix NPU out of memory in profile run (#1)",
    "| EL0004 | Failed to allocate memory | Reduce the batch size |",
    "[WARNING] GE(1,python):2026-01-01-00:00:00.000 [a.cc:233]1 A: env ASCEND_OPP_PATH is not set, use default path",
    "No module named 'vllm._version'",
    "INFO:agent:Environment variable 'TORCHELASTIC_ENABLE_FILE_TIMER' not found. Do not start FileTimerServer.",
    "[2026-01-01 00:00:00] Ignore import error when loading sglang.srt.models.a: No module named 'torchaudio'",
    'E0101 00:00:00.000000 1 a.go:48] "Failed to get system container stats" err="failed to get cgroup stats for '
    '\\"/system.slice/docker.service\\": failed to get container info for \\"/system.slice/docker.service\\": unknown"',
    "curl: (7) Failed to connect to localhost port 8000 after 0 ms: Connection refused",
    "/a/torch/cuda/__init__.py:128: UserWarning: CUDA initialization: Found no NVIDIA driver on your system.",
    "Flash Attention 2.0 only supports torch.float16 and torch.bfloat16 dtypes, but the current dype in A is float32.",
    "/a/torchvision/io/image.py:13: UserWarning: Failed to load image Python extension: 'libjpeg.so.8: cannot open "
    "shared object file: No such file or directory'If you don't plan on using image functionality you can ignore this.",
    "fatal: not a git repository (or any of the parent directories): .git",
    "[WARNING] DISTRIBUTED(1,f,python):2026-01-01-00:00:00.000.000 [a.cc:173] Register] Failed to connect to the meta "
    "server node url: 127.0.0.1:8118",
    "[W0101 00:00:00.000000 TCPStore.cpp:122] [c10d] recvValue failed on SocketImpl(fd=66): Connection reset by peer",
    "(raylet) file_system_monitor.cc:116: /tmp/ray/session is over 95% full, available space: 51.4 GB; capacity: 1 TB.",
    "[Driver] [2026-01-01 00:00:00] [INFO]set username and usergroup, HwHiAiUser:HwHiAiUser",
    "2026-01-01 00:00:00,000 - modelscope - WARNING - Download file a error: Read timed out., retry 1",
    "make: [Makefile:12: cache-stats] Error 127 (ignored)",
    "ulimit: max locked memory: cannot modify limit: Operation not permitted (ignored, already unlimited)",
    "[W 2026-01-01 00:00:00.119 SingleUserLabApp] Could not determine npm prefix: [Errno 2] No such file or directory",
    "2026-01-01T00:00:00.1796130Z ##[group]Run pip install uv && uv pip install --system -r requirements.txt",
    "Step 4/9 : RUN pip install flash_attn || echo flash_attn is not installed",
    "(npu) user@node0:~/job$ grep -rn 'No module named torch_npu' logs",
    "[user@node1 job]$ dmesg -T | grep -i oom-kill",
    "[WARNING:swift] flash_attn is not available on NPU, sdpa is used",
    "make: warning:  Clock skew detected.  Your build may be incomplete.",
    "Start worker process with rank id:0, log file:a/worker_0.log. Environment variable [RANK_ID=0] is exported.",
    "make: *** [Makefile:30: test-npu] Error 1",
    "[EVENT] HCCL(1,python):2026-01-01-00:00:00.000.110 [externalinput.cc:344][1]environmental variable "
    "HCCL_WHITELIST_DISABLE is not set, default value is [1]",
    "bash-5.1$ source /opt/ascend/set_env.sh: No such file or directory",
    "[2026-01-01 00:00:00 TP1] Ignore import error when loading sglang.srt.models.a: No module named 'decord'",
    "#10 7.110   -- SOC_VERSION: ASCEND910B1 (npu-smi not found in the build container, default is used)",
    "Jan  1 00:00:00 node1 sshd[9001]: error: kex_exchange_identification: Connection closed by remote host",
    "[worker-1] waiting for worker-0.train: getaddrinfo: Name or service not known (try 1)",
    "[2026-01-01 00:00:00] NPU custom kernel packages unavailable: No module named 'custom_ops'",
    "ERROR 01-01 00:00:00 [config.py:29] Failed to import Triton kernels. Please make sure your triton version is "
    "compatible. Error: module 'triton' has no attribute 'constexpr_function'",
    "conftest.c:39:10: fatal error: gmp.h: No such file or directory",
    "node1:1:2 [2] proxy.cc:1458 NCCL WARN [Service thread] Accept failed Resource temporarily unavailable",
    "mkdir -p failed for path /results/.cache/matplotlib: [Errno 13] Permission denied: '/results/.cache/matplotlib'",
    "Jul 25 23:23:13 node1 ftpd[26463]: getpeername (ftpd): Transport endpoint is not connected",
    "Nov 9 12:10:55 node1 sshd[1761]: error: Bind to port 22 on 0.0.0.0 failed: Address already in use.",
    "  was not found",
    "[W1 00:00:00.711803220 compiler_depend.ts:659] Warning: 0Failed to find function aclrtCreateEventExWithFlag",
    "WARNING 01-01 00:00:00 [_custom_ops.py:20] Failed to import from vllm._C with ImportError('libcuda.so.1: cannot "
    "open shared object file: No such file or directory')",
    "[nltk_data] Error loading punkt: <urlopen error [Errno -3] Temporary failure in name resolution>",
)
"""Lines that logs of sound services have."""


@pytest.mark.parametrize("line", HARMLESS)
def test_a_line_that_stops_no_job_names_no_issue(line: str) -> None:
    found = diagnosed({"signal": [line]})
    assert [one.pitfall.id for one in found.suspects] == []


def _shows_no_failure(thread: dict[str, Any]) -> bool:
    """Whether a log ends well, or only warns before it goes on: with a failed end it is another log."""
    found = diagnosed(thread)
    only_warns = bool(found.notices) and not (found.suspects or found.answer)
    return only_warns or endings.good_ending("\n".join(thread["signal"])) is not None


@pytest.mark.parametrize("step", [6, pytest.param(1, marks=pytest.mark.slow)])
def test_what_programs_print_before_and_after_a_failure_changes_no_diagnosis(step: int) -> None:
    """The lines of sound jobs (versions, warnings, retries) and of the end of a failed one are no cause of anything."""
    lines = json.loads((Path(__file__).parent / "surroundings.json").read_text(encoding="utf-8"))
    assert {one.pitfall.id for one in diagnosed({"signal": lines["before"]}).suspects} <= OF_THE_PROGRAM
    failed = [thread for thread in THREADS[::step] if not _shows_no_failure(thread)]
    within = {
        thread["id"]: outcome({**thread, "signal": [*lines["before"], *thread["signal"], *lines["after"]]})
        for thread in failed
    }
    assert within == {thread["id"]: outcome(thread) for thread in failed}
