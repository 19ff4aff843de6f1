"""Root believes only a configuration that nobody else could have written, and no file that is named can hang it."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from npudoctor import config
from npudoctor.cli import main
from npudoctor.host.live.safe_files import Unreadable, Untrusted, read_bounded, read_trusted
from tests.plain_user import ALICE, BOB, as_root, give

SIMULATED = ("--simulate", "seed-910b1")
COMMANDS = (
    ("check", "npu.present", *SIMULATED),
    ("facts", *SIMULATED),
    ("fix", "hccl.reserve-ports", "--dry-run", *SIMULATED),
    ("history", *SIMULATED),
    ("env", *SIMULATED),
    ("record", "never.tar.gz", *SIMULATED),
)
DIGITS = 10_000


def written(path: Path, text: str = 'profile = "quick"\n') -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o644)
    return path


def everybody(path: Path) -> None:
    path.chmod(0o666)


def alices(path: Path) -> None:
    give(path, ALICE)


def in_an_open_folder(path: Path) -> None:
    path.parent.chmod(0o777)


def through_a_link(path: Path) -> None:
    real = path.rename(path.with_name("real.toml"))
    path.symlink_to(real)
    os.chown(path, BOB, BOB, follow_symlinks=False)


def of_another_group(path: Path) -> None:
    os.chown(path, 0, ALICE)
    path.chmod(0o664)


WAYS = (everybody, alices, in_an_open_folder, through_a_link, of_another_group)


@as_root
@pytest.mark.parametrize("way", WAYS)
def test_a_configuration_that_others_can_write_is_refused_to_root(
    open_folder: Path, way: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(open_folder / "site" / "config.toml")
    way(path)
    assert main(["check", "npu.present", *SIMULATED, "--config", str(path)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert f"{path} is refused: " in said
    assert "chmod go-w" in said or "chown" in said


@as_root
@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: words[0])
def test_every_command_refuses_it(
    open_folder: Path,
    command: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = written(open_folder / "config.toml")
    everybody(path)
    assert main([*command, "--config", str(path)]) == 2
    monkeypatch.setenv("NPUDOCTOR_CONFIG", str(path))
    assert main(list(command)) == 2
    assert capsys.readouterr().err.count(f"{path} is refused") == 2


@as_root
@pytest.mark.parametrize("way", WAYS)
def test_the_one_in_etc_is_refused_too(
    open_folder: Path, way: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(open_folder / "etc" / "config.toml")
    monkeypatch.setattr(config, "SYSTEM", str(path))
    assert config.load().profile == "quick"
    way(path)
    with pytest.raises(config.ConfigError, match="is refused"):
        config.load()


@as_root
def test_with_the_home_of_a_user_root_passes_over_his_configuration_and_says_so(
    open_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = open_folder / "home"
    mine = written(home / ".config" / "npudoctor" / "config.toml", "profile = 'full'\n")
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr(config, "SYSTEM", str(written(open_folder / "etc" / "config.toml")))
    assert config.load().profile == "full", "a home that only root can write is root's own"
    give(home, ALICE)
    assert config.load().profile == "quick", "what lies in /etc counts then"
    assert main(["check", "npu.present", *SIMULATED]) == 0
    said = capsys.readouterr().err
    assert said.count(f"{mine} is ignored") == 1


@as_root
@pytest.mark.parametrize("named", ["home", "variable", "option"])
def test_what_a_users_configuration_names_is_not_run_by_root(open_folder: Path, named: str) -> None:
    home, mark = open_folder / "home", open_folder / "mark"
    mark.mkdir(mode=0o777)
    mark.chmod(0o777)
    python = written(home / "python", f'#!/bin/sh\nid -u >"{mark}/ran"\nexec /usr/bin/python3 "$@"\n')
    python.chmod(0o755)
    path = written(home / ".config" / "npudoctor" / "config.toml", f'python = "{python}"\n')
    give(home, ALICE)
    environ = {name: value for name, value in os.environ.items() if name != "XDG_CONFIG_HOME"} | {"HOME": str(home)}
    words = ["--config", str(path)] if named == "option" else []
    environ |= {"NPUDOCTOR_CONFIG": str(path)} if named == "variable" else {}
    argv = [sys.executable, "-m", "npudoctor", "check", "python.version", "--environment", "process", *words]
    done = subprocess.run(argv, env=environ, capture_output=True, encoding="utf-8", check=False)
    assert not (mark / "ran").exists()
    assert (done.returncode == 2) is (named != "home")
    assert "Traceback" not in done.stderr


def test_a_user_reads_a_configuration_of_his_own(open_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(open_folder / "config.toml")
    if os.geteuid() == 0:
        give(path, ALICE)
        monkeypatch.setattr(os, "geteuid", lambda: ALICE)
    assert config.load(str(path)).profile == "quick"


@as_root
def test_a_file_is_judged_by_what_was_opened(open_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the opening and the judgement another user puts a good file in the place of his own."""
    path, good = written(open_folder / "config.toml"), written(open_folder / "good.toml", "")
    give(path, ALICE)
    from npudoctor.host.live import safe_files

    judge = safe_files.why_untrusted

    def swapped(asked: str) -> str | None:
        good.replace(path)
        return judge(asked)

    monkeypatch.setattr(safe_files, "why_untrusted", swapped)
    with pytest.raises(Untrusted):
        read_trusted(str(path))


@pytest.fixture
def in_time() -> Iterator[None]:
    """Ends a test that would wait for ever."""

    def late(*_: object) -> None:
        raise TimeoutError("it waits")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(120)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


# What is no file, no TOML, or too much of it

TEXTS = {
    "deep": "a = " + "[" * 100_000 + "]" * 100_000,
    "digits": f"timeout_s = {'9' * DIGITS}",
    "hexadecimal digits": f"timeout_s = 0x{'f' * DIGITS}",
    "digits in a table": f"[thresholds]\nx = {'9' * DIGITS}",
    "hexadecimal digits in a section": f"[daemon]\nquick_s = 0x{'f' * DIGITS}",
    "a number that is none": "timeout_s = nan",
    "an infinite number": "timeout_s = inf",
    "an overflowing number": "timeout_s = 1e999",
    "a threshold that is no number": "[thresholds]\nx = nan",
    "an escape in a key": '"\\u001b]52;c;x\\u0007" = 1',
    "an escape in a value": 'profile = "\\u001b[31m"',
    "2,000 dotted keys": ".".join(["a"] * 2_000) + " = 1",
    "a zero byte": 'profile = "qui\0ck"',
    "2 MiB": "#" * (2 << 20),
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("option", ["--config", "--simulate"])
def test_a_text_that_is_none_is_one_line_and_exit_2(
    tmp_path: Path, text: str, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path / "site.toml", text)
    rest = SIMULATED if option == "--config" else ()
    assert main(["check", "npu.present", *rest, option, str(path)]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert str(path) in said.err
    assert len(said.err) < 4000
    assert "internal error" not in said.err


def test_bytes_that_are_no_utf_8_are_one_line_and_exit_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "site.toml"
    path.write_bytes(b'profile = "\xff\xfe"')
    assert main(["check", *SIMULATED, "--config", str(path)]) == 2
    assert main(["check", "--simulate", str(path)]) == 2
    assert main(["check", "--environment", f"file:{path}"]) == 2
    assert capsys.readouterr().err.count("\n") == 3


def fifo(path: Path) -> str:
    os.mkfifo(path)
    return str(path)


def link_to_a_fifo(path: Path) -> str:
    path.symlink_to(fifo(path.with_name("pipe")))
    return str(path)


def unix_socket(path: Path) -> str:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.path.relpath(path))  # a long path is none for a socket
    return str(path)


def folder(path: Path) -> str:
    path.mkdir()
    return str(path)


def zeros(_: Path) -> str:
    return "/dev/zero"


OPTIONS: dict[str, Callable[[str], list[str]]] = {
    "config": lambda path: ["check", *SIMULATED, "--config", path],
    "environment": lambda path: ["check", "npu.present", "--environment", f"file:{path}"],
    "scenario": lambda path: ["check", "--simulate", path],
    "parse": lambda path: ["parse", "npu-smi-info", path],
}


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("kind", [fifo, link_to_a_fifo, unix_socket, folder])
def test_what_is_no_regular_file_is_refused_at_once(
    option: str, kind: Callable[[Path], str], tmp_path: Path, capsys: pytest.CaptureFixture[str], in_time: None
) -> None:
    assert main(OPTIONS[option](kind(tmp_path / "named.toml"))) == 2
    said = capsys.readouterr().err
    assert (said.count("\n"), "regular file" in said) == (1, True)


@pytest.mark.parametrize("option", OPTIONS)
def test_an_endless_device_is_refused_at_once(option: str) -> None:
    argv = [sys.executable, "-m", "npudoctor", *OPTIONS[option]("/dev/zero")]
    done = subprocess.run(argv, capture_output=True, encoding="utf-8", check=False, timeout=120)
    assert (done.returncode, done.stderr.count("\n"), "regular file" in done.stderr) == (2, 1, True)


def test_a_pipe_of_endless_text_is_bounded() -> None:
    with open("/dev/zero", "rb") as endless:
        argv = [sys.executable, "-m", "npudoctor", "parse", "npu-smi-info", "-"]
        done = subprocess.run(argv, stdin=endless, capture_output=True, encoding="utf-8", check=False, timeout=120)
    assert (done.returncode, "too large" in done.stderr) == (2, True)


def test_a_name_with_a_zero_byte_is_no_file() -> None:
    with pytest.raises(Unreadable):
        read_bounded("site\0.toml")


def test_a_file_may_have_a_mebibyte_and_no_more(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * (1 << 20))
    assert len(read_bounded(str(path))) == 1 << 20
    path.write_bytes(b"x" * ((1 << 20) + 1))
    with pytest.raises(Unreadable, match="too large: at most 1 MiB"):
        read_bounded(str(path))


def test_what_has_no_size_is_bounded_too() -> None:
    """Files of /proc say that they are empty."""
    assert read_bounded("/proc/self/status")
    with pytest.raises(Unreadable, match="too large"):
        read_bounded("/proc/self/status", 16)


@pytest.mark.parametrize("kind", [fifo, zeros])
def test_variables_that_name_a_pipe_or_a_device_hold_nothing_up(kind: Callable[[Path], str], tmp_path: Path) -> None:
    names = ("RANK_TABLE_FILE", "ASCEND_HOME_PATH", "HCCL_ALGO")
    named = kind(tmp_path / "named")
    path = written(tmp_path / "job.env", "".join(f"{name}={named}\n" for name in names))
    argv = [sys.executable, "-m", "npudoctor", "check", "env", "hccl", "cann", "--environment", f"file:{path}"]
    done = subprocess.run(argv, capture_output=True, encoding="utf-8", check=False, timeout=240)
    assert done.returncode in (0, 1, 3), done.stderr
    assert "Traceback" not in done.stderr
