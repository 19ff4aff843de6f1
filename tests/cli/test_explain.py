"""`npudoctor explain` as a person runs it."""

import bz2
import json
import os
import pty
import select
import subprocess
import sys
from pathlib import Path

import pytest

from npudoctor.explain import diagnosis, log_documents, scan
from tests.security.test_masking import leaks, lines_with_credentials

from .conftest import Command

LOGS = Path(__file__).resolve().parents[1] / "core" / "data" / "logs"


def test_a_check_says_why_how_and_what_to_do(npudoctor: Command) -> None:
    ran = npudoctor("explain", "hccl.ports-free")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("hccl.ports-free  HCCL host ports free\n")
    for piece in ("why ", "EJ0003", "profile quick; uses ", "P003", "$ export HCCL_IF_BASE_PORT=60100"):
        assert piece in ran.out, piece


def test_a_pitfall_says_which_checks_foresee_it(npudoctor: Command) -> None:
    ran = npudoctor("explain", "P003")
    assert ran.code == 0
    assert "detected by  npudoctor check hccl.base-port" in ran.out
    assert "as of        20" in ran.out


@pytest.mark.parametrize("code", ["EI0006", "507033", "-8005", "0x80E3A203", "ERR02200", "EJ0003", "107001"])
def test_a_code_is_explained(npudoctor: Command, code: str) -> None:
    ran = npudoctor("explain", code)
    assert (ran.code, ran.err) == (0, "")
    assert "means " in ran.out and "source " in ran.out and "as of " in ran.out


@pytest.mark.parametrize("code", ["80C98009", "80CB8009", "80E01801", "81078603", "80E3A203"])
def test_a_code_of_a_chip_is_detected_by_its_health(npudoctor: Command, code: str) -> None:
    ran = npudoctor("explain", code)
    assert "detected by  npudoctor check npu.health" in ran.out
    assert "ASCEND_LAUNCH_BLOCKING" not in ran.out


def test_several_are_explained_one_after_the_other_and_two_words_may_be_one_code(npudoctor: Command) -> None:
    assert npudoctor("explain", "EI0006", "P003").out.count("as of") == 2
    assert npudoctor("explain", "HCCL", "7").out.startswith("HCCL 7  HCCL_E_UNAVAIL\n")


def test_topics_as_json(npudoctor: Command) -> None:
    document = npudoctor("explain", "--json", "hccl.ports-free", "P003", "EI0006").json
    assert document["schema"] == "npudoctor.explain/1"
    check, pitfall, code = document["topics"]
    assert (check["kind"], check["id"], check["after"]) == ("check", "hccl.ports-free", ["hccl.base-port"])
    assert "network.sockets" in check["facts"]
    assert pitfall["mend"][0] == {"step": pitfall["mend"][0]["step"], "command": True}
    assert [each["id"] for each in code["pitfalls"]] == ["P005", "P016", "P025"]


BAD = {
    ("EI0099",): "unknown code 'EI0099' of HCCL; the line that prints it says more",
    ("hccl.port-free",): "did you mean hccl.ports-free?",
    ("P003", "--log", "x"): "--log cannot be combined with an ID",
    (): "nothing to explain",
    ("--log", "/no/such/file"): "/no/such/file: No such file or directory",
    ("--log",): "expected at least one argument",
}


@pytest.mark.parametrize(("argv", "said"), BAD.items())
def test_bad_input_is_one_line_and_exit_2(npudoctor: Command, argv: tuple[str, ...], said: str) -> None:
    ran = npudoctor("explain", *argv)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1), ran
    assert said in ran.err


def test_a_log_is_diagnosed(npudoctor: Command) -> None:
    ran = npudoctor("explain", "--log", str(LOGS / "P023-two-processes-on-a-card.txt"))
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("NPU side port 16666 already in use (several processes per NPU)  P023\n")
    for piece in (
        "evidence  ",
        "at           line 1, process 41200, 2025-12-24 01:02:03.400",
        "cause  ",
        "do  ",
        "$ export HCCL_",
    ):
        assert piece in ran.out, piece
    assert "npudoctor check npu.processes" in ran.out
    assert "EI0019       a port could not be bound" in ran.out


def test_several_ranks_at_once_name_the_first_that_failed(npudoctor: Command) -> None:
    ran = npudoctor("explain", "--log", *map(str, sorted((LOGS / "four-ranks").glob("*.log"))))
    assert ran.code == 0
    said = " ".join(ran.out.split())
    assert "first rank 3, of 4 that failed (by time stamps): P017 (rank_3.log:7, rank 3, about 2025-04-08" in said
    assert ran.out == npudoctor("explain", "--log", str(LOGS / "four-ranks")).out, "a folder is all its files"


def test_a_log_as_one_json_document(npudoctor: Command) -> None:
    document = npudoctor("explain", "--json", "--log", *map(str, sorted((LOGS / "four-ranks").glob("*.log")))).json
    assert document["schema"] == "npudoctor.explain-log/1"
    assert [file["problem"] for file in document["files"]] == [None] * 4
    first = document["first_failure"]
    assert (first["who"], first["known_by"], first["of"], first["line"]) == ("rank 3", "time", 4, 7)
    assert [pitfall["id"] for pitfall in document["pitfalls"]] == ["P017", "P019"]
    top = document["pitfalls"][0]
    assert top["certainty"] == "clear" and top["foreseen_by"] == ["npu.memory-free"]
    assert top["evidence"][0]["text"].startswith("RuntimeError: NPU out of memory")
    assert {code["code"] for code in document["codes"]} == {"507048", "ERR00100", "EI0002"}


def test_a_log_from_a_pipe() -> None:
    command = f"cat '{LOGS}/P004-run-after-a-kill.txt' | '{sys.executable}' -m npudoctor explain --log -"
    done = subprocess.run(["bash", "-c", command], capture_output=True, encoding="utf-8", check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "P004" in done.stdout.splitlines()[0]


@pytest.mark.parametrize("colon", [":", ": "])
@pytest.mark.parametrize("time", ["2026-01-01T00:00:05.1Z", "2026-01-01T00:00:05.123456789Z"])
def test_a_line_of_docker_is_quoted_as_the_program_printed_it(
    npudoctor: Command, tmp_path: Path, time: str, colon: str
) -> None:
    said = "ImportError: libascend_hal.so: cannot open shared object file"
    line = json.dumps({"log": f"{said}\n", "stream": "stderr", "time": time}, separators=(",", colon))
    (tmp_path / "c-json.log").write_text(f"{line}\n", encoding="utf-8")
    document = npudoctor("explain", "--json", "--log", str(tmp_path / "c-json.log")).json
    assert document["pitfalls"][0]["evidence"][0]["text"] == said
    assert document["in_container"]


@pytest.mark.parametrize("unknown", ["50703X", "999999"])
def test_an_unknown_code_beside_a_known_one_is_refused(npudoctor: Command, unknown: str) -> None:
    ran = npudoctor("explain", "EI0006", unknown)
    assert ran.code == 2 and unknown in ran.err and not ran.out


def test_a_code_that_says_little_comes_with_its_line(npudoctor: Command, tmp_path: Path) -> None:
    said = "[812] [server] [ERROR] [MIE04E02070A] the certificate of the service is missing"
    (tmp_path / "out").write_text(f"{said}\n", encoding="utf-8")
    assert said in " ".join(npudoctor("explain", "--log", str(tmp_path / "out")).out.split())


def test_a_known_message_without_a_pitfall_is_a_diagnosis(npudoctor: Command, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("Device ID is out of the valid range.\nCmd execute failed!\n", encoding="utf-8")
    ran = npudoctor("explain", "--log", str(tmp_path / "out"))
    assert ran.code == 0
    assert ran.out.startswith("hccn_tool wants the device id")


NOTHING = {
    b"": "is empty",
    b"\x7fELF\0\0\0": "was not read: binary",
    bz2.compress(b"x"): "was not read: compressed (bzip2); unpack it and pipe it into --log -",
    "程序启动失败，请检查环境变量。\n".encode() * 30: "the text is in another language; to get help, send",
    b"step 1\nForeignError: x\n": "the first exception is `ForeignError: x` (LOG:2); to get help, send",
    b"all is well\n": "no ERROR and no Traceback in 1 line of LOG: this log shows no failure",
}


@pytest.mark.parametrize(("data", "said"), NOTHING.items(), ids=range(len(NOTHING)))
def test_a_log_that_shows_nothing_known_is_one_line_and_exit_1(
    npudoctor: Command, tmp_path: Path, data: bytes, said: str
) -> None:
    path = tmp_path / "log"
    path.write_bytes(data)
    ran = npudoctor("explain", "--log", str(path))
    assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1), ran
    assert said.replace("LOG", str(path)) in ran.err
    document = npudoctor("explain", "--json", "--log", str(path)).json
    assert document["pitfalls"] == []


def test_files_that_are_not_read_for_one_reason_are_one_line(npudoctor: Command, tmp_path: Path) -> None:
    for number in range(9):
        (tmp_path / f"{number}.log").write_bytes(b"\x7fELF\0\0\0" if number < 5 else bz2.compress(b"x"))
    said = npudoctor("explain", "--log", str(tmp_path)).err.replace(f"{tmp_path}/", "").splitlines()
    assert said == [
        "npudoctor explain: 0.log, 1.log, 2.log and 2 more were not read: binary",
        "npudoctor explain: 5.log, 6.log, 7.log and 1 more were not read: compressed (bzip2); unpack them first",
    ]


def test_a_failure_of_the_program_itself_is_said_clearly_and_is_no_known_error(
    npudoctor: Command, tmp_path: Path
) -> None:
    for wrapper in (
        "",
        "[ERROR] 2026-01-01 (PID:1, Device:0, RankID:-1) ERR99999 UNKNOWN application exception\n",
    ):
        (tmp_path / "log").write_text(f"step 1\nKeyError: 'labels'\n{wrapper}", encoding="utf-8")
        ran = npudoctor("explain", "--log", str(tmp_path / "log"))
        assert (ran.code, ran.err) == (1, "")
    assert ran.out.startswith("Not the environment: the first exception is KeyError: 'labels'\n")
    document = npudoctor("explain", "--json", "--log", str(tmp_path / "log")).json
    assert (document["answer"]["kind"], document["pitfalls"]) == ("not-the-environment", [])


def test_a_job_that_is_too_large_is_explained_by_the_numbers_of_its_log(npudoctor: Command) -> None:
    ran = npudoctor("explain", "--log", str(LOGS / "job-too-large-cache.txt"))
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("The job needs more memory than the NPU has; no other process holds it\n")
    assert "of 61.27 GiB the job itself holds 57.00" in " ".join(ran.out.split())


def test_a_file_that_cannot_be_read_does_not_stop_the_others(npudoctor: Command, tmp_path: Path) -> None:
    (tmp_path / "core").write_bytes(b"\x7fELF\0\0\0")
    ran = npudoctor("explain", "--log", str(tmp_path / "core"), str(LOGS / "P065-home-is-full.txt"))
    assert ran.code == 0
    assert "P065" in ran.out.splitlines()[0]
    assert ran.err == f"npudoctor explain: {tmp_path}/core was not read: binary\n"


def on_a_terminal(argv: list[str], columns: int = 60) -> tuple[int, str]:
    """Run with stderr on a terminal; exit code and what it showed there."""
    leader, follower = pty.openpty()
    environment = {**os.environ, "TERM": "xterm"}
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=follower, env=environment)
    os.close(follower)
    shown = b""
    while select.select([leader], [], [], 120)[0]:
        try:
            piece = os.read(leader, 4096)
        except OSError:
            break
        if not piece:
            break
        shown += piece
    os.close(leader)
    return process.wait(timeout=120), shown.decode()


def test_progress_is_shown_on_a_terminal_and_gone_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "big.log"
    with path.open("wb") as file:
        for _ in range(900):
            file.write(b"".join(b"%s unlike the others\n" % os.urandom(24).hex().encode() for _ in range(800)))
    code, shown = on_a_terminal([sys.executable, "-m", "npudoctor", "explain", "--log", str(path)])
    assert code == 1
    assert "% of" in shown and "MB/s" in shown
    last = shown.rstrip("\r\n").rpartition("\x1b[K")[2]
    assert last.startswith("npudoctor explain: no ERROR and no Traceback in 720000 lines"), (
        "the bar is wiped before anything is said"
    )


def test_colours_only_on_a_terminal(process: Command) -> None:
    assert "\x1b" not in process("explain", "P003").out
    assert "\x1b[" in process("explain", "P003", environment={"FORCE_COLOR": "1"}).out
    assert "\x1b" not in process("explain", "--no-color", "P003", environment={"FORCE_COLOR": "1"}).out


def test_a_narrow_terminal_wraps_the_text_and_leaves_commands_whole(process: Command) -> None:
    out = process("explain", "--log", str(LOGS / "P003-second-service.txt"), environment={"COLUMNS": "50"}).out
    prose = [line for line in out.splitlines() if "$ " not in line]
    assert max(map(len, prose[1:])) <= 50
    assert any(line.endswith("another for each job") for line in out.splitlines())


def test_an_empty_folder_of_logs_is_said(npudoctor: Command, tmp_path: Path) -> None:
    ran = npudoctor("explain", "--log", str(tmp_path))
    assert ran.code == 1
    assert "no log file was found" in ran.err


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_log_is_quoted_without_credentials(npudoctor: Command, tmp_path: Path, options: list[str]) -> None:
    log = tmp_path / "train.log"
    log.write_text("\n".join(lines_with_credentials()), encoding="utf-8")
    ran = npudoctor("explain", "--log", str(log), *options)
    assert "EI0006" in ran.out and "***" in ran.out
    assert leaks(ran.out) == []


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_each_line_of_a_log_is_quoted_without_credentials(
    npudoctor: Command, tmp_path: Path, options: list[str]
) -> None:
    log = tmp_path / "train.log"
    for line in lines_with_credentials():
        log.write_text(line, encoding="utf-8")
        ran = npudoctor("explain", "--log", str(log), *options)
        assert leaks(ran.out) == [], line


def test_a_line_is_searched_before_its_credentials_are_hidden() -> None:
    scanner = scan.Scanner()
    scanner.read("log", [b"RuntimeError: --token EI0006: Getting socket times out"])
    found = diagnosis.diagnose(scanner)
    assert [seen.spelled for seen in found.codes] == ["EI0006"]
    assert "EI0006" not in log_documents.of_log(found)["codes"][0]["first"]["text"]


PIECES = {
    ("libascend_hal.so: cannot open shared object file",): "P009",
    ("ImportError:", "libascend_hal.so:", "cannot", "open", "shared", "object", "file"): "P009",
    ("wait socket establish timeout",): "P005",
    ("driver version mismatch: driver 23.0.3, runtime 8.3",): "P030",
}


@pytest.mark.parametrize(("argv", "issue"), PIECES.items())
def test_a_piece_of_a_message_finds_the_issue_that_a_log_would_show(
    npudoctor: Command, argv: tuple[str, ...], issue: str
) -> None:
    assert npudoctor("explain", "--json", *argv).json["topics"][0]["id"] == issue


def test_an_unknown_piece_of_a_message_is_told_how_to_be_explained(npudoctor: Command) -> None:
    ran = npudoctor("explain", "the flux of the widget is low")
    assert ran.code == 2 and "explain --log FILE`, or pipe them into `--log -`" in ran.err


def test_every_fix_is_explained(npudoctor: Command) -> None:
    from npudoctor import plugins

    fixes = plugins.load().fixes
    ran = npudoctor("explain", *fixes)
    assert ran.code == 0
    for id, fix in fixes.items():
        assert f"{id}  {fix.title}\n" in ran.out
        assert f"$ npudoctor fix {id} --dry-run\n" in ran.out
    said = npudoctor("explain", "env.profile").out
    for label in ("changes", "resolves", "risk", "parameters", "undo"):
        assert f"\n  {label} " in said, label


def test_a_long_comment_stands_above_its_command(npudoctor: Command) -> None:
    lines = npudoctor("explain", "EI0006").out.splitlines()
    at = next(number for number, line in enumerate(lines) if "HCCL_SOCKET_IFNAME==eth0" in line)
    assert "#" not in lines[at]
    assert "exactly this name" in " ".join(lines[at - 2 : at])


def test_what_a_later_run_of_a_command_overcame_is_listed_below_a_headline(npudoctor: Command, tmp_path: Path) -> None:
    failure = (
        "RuntimeError: EI0019: Failed to bind the IP port. Reason: The IP address and port have been bound already."
    )
    (tmp_path / "session.log").write_text(f"$ python train.py\n{failure}\n$ python train.py\nready\n")
    ran = npudoctor("explain", "--log", str(tmp_path / "session.log"))
    assert ran.out.startswith("No cause found: what is listed below stopped nothing, or the same command ran again\n")
    assert "P003" in ran.out and ran.err == ""
