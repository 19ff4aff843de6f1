"""On a real terminal: tmux holds it, keys are typed, the screen is read."""

import fcntl
import os
import pty
import re
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from npudoctor import sim

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")


class Terminal:
    """One window of a tmux of its own."""

    def __init__(self, folder: Path) -> None:
        self._base = ["tmux", "-f", "/dev/null", "-S", str(folder / "tmux")]
        self._home = folder

    def start(self, *words: str, **environment: str) -> None:
        self.run("-m", "npudoctor", *words, **environment)

    def run(self, *words: str, **environment: str) -> None:
        variables = {"LC_ALL": "C.UTF-8", "XDG_CONFIG_HOME": str(self._home), "TERM": "xterm-256color", **environment}
        settings = [f"{name}={value}" for name, value in variables.items()]
        command = ["env", *settings, sys.executable, *words]
        shell = f"{shlex.join(command)}; echo ended with $?; sleep 600"
        self("new-session", "-d", "-x", "80", "-y", "24", shell)

    def __call__(self, *words: str) -> str:
        clean = {name: value for name, value in os.environ.items() if name not in ("TMUX", "LC_ALL", "LANG")}
        done = subprocess.run(
            [*self._base, *words], capture_output=True, env={**clean, "LC_ALL": "C.UTF-8"}, check=True
        )
        return done.stdout.decode()

    @property
    def screen(self) -> str:
        return self("capture-pane", "-p")

    def press(self, *keys: str) -> None:
        self("send-keys", *keys)

    def until(self, holds: Callable[[str], object]) -> str:
        for _ in range(1200):
            seen = self.screen
            if holds(seen):
                return seen
            time.sleep(0.1)
        raise AssertionError(f"it never came; the screen:\n{self.screen}")

    def settled(self) -> str:
        """The screen once it has not changed for half a second."""
        before = self.screen
        while True:
            time.sleep(0.5)
            if (seen := self.screen) == before:
                return seen
            before = seen

    def shows(self, *texts: str) -> str:
        return self.until(lambda seen: all(text in seen for text in texts))


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    made = Terminal(tmp_path)
    yield made
    subprocess.run([*made._base, "kill-server"], check=False, capture_output=True)


def test_a_person_walks_all_screens_mends_undoes_and_leaves(terminal: Terminal) -> None:
    terminal.start("tui", "--simulate", "new-node")
    terminal.shows("PROBLEMS", "SIMULATED", "CANN environment not loaded")
    for key, seen in (
        ("2", "AI Core"),
        ("3", "CPU affinity"),
        ("4", "VERSIONS"),
        ("5", "Trains a tiny model"),
        ("6", "No changes by npudoctor"),
    ):
        terminal.press(key)
        terminal.shows(seen)
    terminal.press("1")
    terminal.shows("PROBLEMS")
    terminal.press("/", *"ports-reserved", "Enter")
    terminal.shows("! hccl.ports-reserved")
    terminal.press("f")
    terminal.shows("60000-60031", "Apply", "Close")  # words of the dialog, and of nothing behind it
    terminal.press("Enter")
    terminal.shows("applied and verified")
    terminal.press("Enter")
    terminal.shows("✔ hccl.ports-reserved")
    terminal.press("6")
    terminal.shows("u Undo", "hccl.reserve-ports", "applied", "--- /etc/sysctl.d")
    terminal.press("u")
    terminal.shows("Undo hccl.reserve-ports")
    terminal.press("Enter")
    terminal.shows("everything is as it was before")
    terminal.press("Enter", "1")
    terminal.shows("! hccl.ports-reserved")
    terminal.press("q")
    seen = terminal.shows("ended with 0")
    assert seen.strip() == "ended with 0"


def test_a_signal_leaves_the_terminal_as_it_was(terminal: Terminal) -> None:
    terminal.start("tui", "--simulate", "healthy-a3")
    terminal.shows("No problems found")
    pane = int(terminal("display-message", "-p", "#{pane_pid}"))
    children = Path(f"/proc/{pane}/task/{pane}/children").read_text(encoding="utf-8").split()
    os.kill(int(children[0]), signal.SIGTERM)
    seen = terminal.shows("ended with 143")
    assert seen.strip() == "ended with 143"
    assert terminal("display-message", "-p", "#{alternate_on} #{mouse_any_flag} #{cursor_flag}").split() == [
        "0",
        "0",
        "1",
    ]


def test_a_terminal_without_unicode_gets_ascii_alone(terminal: Terminal) -> None:
    terminal.start("tui", "--simulate", "new-node", LC_ALL="C")
    seen = terminal.shows("x cann.environment", "PROBLEMS")
    assert seen.isascii()


def test_what_cannot_be_opened_is_one_line(terminal: Terminal) -> None:
    terminal.start("tui", "--replay", "/no/such/recording")
    seen = terminal.shows("ended with 2")
    assert "/no/such/recording" in seen
    assert "Traceback" not in seen and "│" not in seen


@pytest.mark.parametrize("where", ["node.line", "session.Session.run"], ids=["on the screen", "in a thread"])
def test_an_internal_error_is_one_line_that_names_the_log(terminal: Terminal, tmp_path: Path, where: str) -> None:
    script = tmp_path / "broken.py"
    script.write_text(
        "from npudoctor.tui.model import node, session\n"
        "def boom(*_): raise RuntimeError('of all things')\n"
        f"{where} = boom\n"
        "from npudoctor.cli import main\n"
        "raise SystemExit(main(['tui', '--simulate', 'healthy-a3']))\n",
        encoding="utf-8",
    )
    terminal.run(str(script), XDG_STATE_HOME=str(tmp_path))
    seen = terminal.shows("ended with 4")
    assert "npudoctor: internal error: RuntimeError: of all things" in seen and "Traceback" not in seen
    assert "errors shown" not in seen
    assert "of all things" in (tmp_path / "npudoctor" / "tui.log").read_text(encoding="utf-8")


def test_a_tool_that_hangs_holds_up_neither_the_keys_nor_the_way_out(terminal: Terminal, tmp_path: Path) -> None:
    node = tmp_path / "node"
    sim.write_tools(sim.simulate("healthy-a3"), str(node))
    terminal.start("tui", "--root", str(node), NPUDOCTOR_FAKE_DELAY_S="600")
    terminal.shows("checking this node")
    for key, seen in (("3", "checking"), ("5", "start, x stop"), ("?", "Keys of Smoke"), ("?", "start, x stop")):
        terminal.press(key)
        terminal.shows(seen)
    terminal.press("q")
    terminal.shows("ended with 0")
    left = subprocess.run(["pgrep", "-f", str(node)], capture_output=True, encoding="utf-8", check=False).stdout.split()
    commands = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in left if Path(f"/proc/{pid}").exists()]
    assert not [command for command in commands if b"npu-smi" in command]


def test_ctrl_z_gives_the_terminal_back_and_fg_draws_all_of_it_again(terminal: Terminal) -> None:
    terminal("new-session", "-d", "-x", "80", "-y", "24", "env PS1='ready:' bash --norc --noprofile")
    terminal.shows("ready:")
    words = f"LC_ALL=C.UTF-8 '{sys.executable}' -m npudoctor tui --simulate bare-host; echo ended with $?"
    terminal("send-keys", words, "Enter")
    terminal.shows("PROBLEMS", "Ascend NPU not found on this host", "q Quit")
    terminal.until(lambda seen: re.search(r"\d\d:\d\d · \d", seen))
    before = terminal.settled()
    terminal.press("C-z")
    terminal.shows("Stopped")
    assert terminal("display-message", "-p", "#{alternate_on} #{mouse_any_flag} #{cursor_flag}").split() == [*"001"]
    terminal("send-keys", "clear; fg", "Enter")
    terminal.until(lambda seen: seen == before)
    terminal.press("C-c")
    terminal.until(lambda _: terminal("display-message", "-p", "#{alternate_on}").strip() == "0")


@pytest.mark.parametrize("closed", ["0<&-", ">&-"])
def test_a_closed_stdin_or_stdout_is_no_terminal_and_no_error(closed: str) -> None:
    command = f"'{sys.executable}' -m npudoctor tui --simulate bare-host {closed}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 1, done.stderr  # as `check` ends where something is wrong
    assert "internal error" not in done.stderr


@pytest.mark.parametrize("told", [True, False], ids=["by SIGHUP", "by nobody"])
def test_who_loses_the_terminal_leaves_no_process(tmp_path: Path, told: bool) -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8", "XDG_CONFIG_HOME": str(tmp_path)}
    words = [sys.executable, "-m", "npudoctor", "tui", "--simulate", "new-node"]
    process = subprocess.Popen(
        words, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True
    )
    os.close(theirs)
    seen = b""
    while b"\x1b[?1049h" not in seen or len(seen) < 4000:  # a word may be drawn in pieces
        try:
            seen += os.read(ours, 1 << 16)
        except OSError:
            raise AssertionError(f"ended with {process.wait()}: {seen!r}") from None
    os.close(ours)
    if told:
        process.send_signal(signal.SIGHUP)
    assert process.wait(timeout=120) == 129
