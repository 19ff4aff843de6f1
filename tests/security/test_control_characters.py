"""What the node says reaches no reader raw: one hostile node over every output (finding 5 of the review)."""

import asyncio
import contextlib
import io
import json
import os
import pty
import re
import select
import subprocess
import sys
import time
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from npudoctor import control_characters, engine, plugins, sim
from npudoctor.cli import main
from npudoctor.control_characters import all_visible, escape, visible_json, visible_lines, visible_screen
from npudoctor.daemon.history import History
from npudoctor.data import to_json
from npudoctor.host.live import local
from npudoctor.host.recording import recorded_node
from npudoctor.report.text import render
from npudoctor.selection import Selection
from tests.daemon.conftest import Watched
from tests.plain_user import ALICE, as_root, identity
from tests.security.hostile import (
    CLIPBOARD,
    FORGED,
    ONE_LINE,
    at_the_end,
    hidden,
    hostile_node,
    in_each_line,
    in_words,
    strings,
)
from tests.tui.driving import node_of, play_on, press, text


def test_what_is_not_looked_at_has_nothing_to_escape() -> None:
    told = [chr(code) for code in range(0x110000)]
    shown = [one for one in told if control_characters._shows_as_line(one)]
    assert len(shown) > 130_000
    assert not re.search(control_characters._LINE, "".join(shown))


NODES: dict[str, tuple[str, Callable[[str], str] | None]] = {
    "lines": ("sick-cards", in_each_line),
    "words": ("new-node", in_words),
    "tail": ("in-service", at_the_end),
    "failing": ("sick-cards", None),
}
FORMATS = ("text", "json", "jsonl", "markdown", "html", "junit", "nagios", "npd")


@pytest.fixture(scope="module", params=NODES)
def node(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    scenario, change = NODES[request.param]
    return hostile_node(tmp_path_factory.mktemp(request.param) / "node", scenario, change)


def run(*argv: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main([*argv])
        except SystemExit as ended:
            code = int(ended.code or 0)
    return code, out.getvalue(), err.getvalue()


def assert_clean(shown: str) -> None:
    assert hidden(shown) == []
    assert not [line for line in shown.splitlines() if line.startswith("✔ forged")]


# The one function


def test_every_character_that_is_no_letter_mark_number_sign_or_blank_is_escaped() -> None:
    for number in range(0x110000):
        letter = chr(number)
        if unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp"):
            assert escape(letter).isascii() and escape(letter).startswith("\\")
    assert escape(ONE_LINE).startswith("\\x1b]52;c;UFdO\\x1b\\\\x1b]0;PWN\\x07\\x1b[31m\\x9b32m\\r\\x08\\x7f\\x00")
    assert escape("\u202e\U000e0041\udc80") == "\\u202e\\U000e0041\\udc80"


def test_text_that_people_write_is_left_as_it_is() -> None:
    for shown in ("größe 中文 العربية 🙂 ⚠️ e\u0301 a\u00a0b\u3000c", "C:\\path\\n", "✔ · – × █"):
        assert escape(shown) == visible_lines(shown) == visible_screen(shown) == shown
    assert escape("a\tb\nc") == "a\\tb\\nc"
    assert visible_lines("a\tb\nc\r") == "a\tb\nc\\r"
    assert visible_screen("\x1b[1;31mred\x1b[0m \x1b[2J") == "\x1b[1;31mred\x1b[0m \\x1b[2J"
    assert escape(escape(ONE_LINE)) == escape(ONE_LINE)


def test_a_json_document_says_the_same_as_before() -> None:
    value = {f"{ONE_LINE}{FORGED}": [ONE_LINE, "\udc80"]}
    shown = visible_json(json.dumps(value, ensure_ascii=False, indent=1))
    assert hidden(shown) == [] and json.loads(shown) == value
    assert hidden("".join(strings(all_visible(value)))) == []


# The outputs


@pytest.mark.parametrize("shape", FORMATS)
def test_no_report_shows_a_control_character(node: Path, shape: str) -> None:
    code, out, err = run("check", "--replay", str(node), "--format", shape, "-vv")
    assert code in (0, 1, 2, 3)
    assert_clean(out + err)
    if shape in ("json", "jsonl"):
        assert hidden("".join(one for line in _documents(out, shape) for one in strings(line))) == []
    if shape == "junit":
        ElementTree.fromstring(out)
    if shape in ("nagios", "npd"):
        assert "forged" not in out.split("\n")[1:2]


def _documents(out: str, shape: str) -> Iterator[Any]:
    return map(json.loads, out.splitlines() if shape == "jsonl" else [out])


def test_the_payload_is_shown_escaped_and_not_lost(node: Path) -> None:
    _, out, _ = run("check", "--replay", str(node), "-vv")
    assert "\\x1b]52;c;UFdO\\x1b" in out.replace("\n", "")


@pytest.mark.parametrize("words", [("facts",), ("facts", "--json"), ("fix", "--list"), ("env",)])
def test_no_other_command_shows_one(node: Path, words: tuple[str, ...]) -> None:
    code, out, err = run(*words, "--replay", str(node))
    assert code != 4, err
    assert_clean(out + err)
    if "--json" in words:
        assert hidden("".join(strings(json.loads(out)))) == []


@pytest.mark.parametrize("option", ["-v", "--json"])
def test_compare_shows_none(node: Path, tmp_path: Path, option: str) -> None:
    other = hostile_node(tmp_path / "other", "healthy-a3", in_words)
    code, out, err = run("compare", str(node), str(other), option)
    assert code == 1
    assert_clean(out + err)


def test_what_record_says_of_a_hostile_node_shows_none(node: Path, tmp_path: Path) -> None:
    code, out, err = run("record", "--replay", str(node), "-v", str(tmp_path / "copy.tar.gz"))
    assert code == 0
    assert_clean(out + err)


def test_explain_shows_none_of_a_log_or_its_name(tmp_path: Path) -> None:
    log = tmp_path / os.fsdecode(f"rank_0{CLIPBOARD}\u202e\n✔ forged.log".encode())
    payload = ONE_LINE.replace("\0", "")
    log.write_text(f"ERROR EI0006 Failed to bind the IP port {payload}\nRuntimeError: {payload}\n", encoding="utf-8")
    other = tmp_path / "rank_1.log"
    other.write_text("nothing known\x1b[2J\n", encoding="utf-8")
    for words in ((str(log), str(other)), (str(log), "--json"), (str(other),), (str(tmp_path / f"no{CLIPBOARD}"),)):
        _, out, err = run("explain", "--log", *words)
        assert_clean(out + err)
    assert "\\x1b]52" in run("explain", "--log", str(log), str(other))[1]


REFUSED = (
    ("check", "--replay", "NAME"),
    ("check", "--simulate", "NAME"),
    ("check", "--config", "NAME"),
    ("check", "--root", "NAME"),
    ("check", "--python", "NAME"),
    ("check", "--environment", "file:NAME"),
    ("check", "--metrics-file", "NAME/x"),
    ("check", "NAME"),
    ("check", "--format", "nagios", "NAME"),
    ("check", "--format", "npd", "NAME"),
    ("compare", "NAME", "NAME"),
    ("explain", "NAME"),
    ("explain", "--log", "NAME"),
    ("facts", "NAME"),
    ("parse", "NAME"),
    ("parse", "npu-smi-info", "NAME"),
    ("record", "NAME/x.tar.gz"),
    ("fix", "NAME"),
    ("undo", "NAME"),
    ("healthcheck", "--state", "NAME", "--require", "daemon"),
    ("NAME",),
)


@pytest.mark.parametrize("words", REFUSED, ids=" ".join)
def test_a_refusal_is_one_line_without_control_characters(words: tuple[str, ...]) -> None:
    hostile = f"x{ONE_LINE.replace(chr(0), '')}{FORGED}"
    code, out, err = run(*(word.replace("NAME", hostile) for word in words))
    assert code
    assert_clean(out + err)
    assert err.count("\n") <= 1 and out.count("\n") <= 1


def test_a_configuration_shows_none_of_its_keys_and_values(tmp_path: Path) -> None:
    for text_ in ('"\\u001b]52;c;x\\u0007\\u202e" = 1\n', f'role = "{ONE_LINE[22:24]}\\u009b\\u202e"\n', "\x1b]52;c;x"):
        path = tmp_path / "config.toml"
        path.write_text(text_, encoding="utf-8")
        code, out, err = run("check", "--config", str(path), "--simulate", "new-node", "--profile", "quick")
        assert code == 2
        assert_clean(out + err)


# The daemon


def test_no_answer_metric_or_log_line_of_the_daemon_shows_one(node: Path, tmp_path: Path) -> None:
    from prometheus_client.parser import text_string_to_metric_families

    history = History(str(tmp_path / "history.sqlite"), kept_days=30)
    try:
        watched = Watched(plugins.load(), recorded_node.open_bundle(str(node)), history)
        watched.run()
        board = watched.board
        bodies = [board.report(None), board.issues(all_of_them=True), board.changes(100, None), board.cards()]
        bodies += [to_json(board.live()).encode(), to_json(board.ready()).encode()]
        for body in bodies:
            assert body is not None
            assert_clean(body.decode())
            assert hidden("".join(strings(json.loads(body)))) == []
        assert_clean(board.metrics.decode() + "".join(watched.said))
        assert list(text_string_to_metric_families(board.metrics.decode()))
    finally:
        history.close()


def test_the_textfile_shows_none(node: Path, tmp_path: Path) -> None:
    path = tmp_path / "npudoctor.prom"
    run("check", "--replay", str(node), "--profile", "quick", "--metrics-file", str(path))
    assert_clean(path.read_text(encoding="utf-8"))


# The terminal interface


def test_no_screen_shows_one(node: Path) -> None:
    seen: list[str] = []

    async def acts(app: Any, pilot: Any) -> None:
        for key in "123456":
            await press(pilot, key)
            await asyncio.sleep(0.15)
            await pilot.pause()
            seen.append(text(app))
            await press(pilot, "down", "down")
            seen.append(text(app))

    play_on(lambda: node_of("--replay", str(node)), acts, size=(120, 40))
    assert_clean("\n".join(seen))
    assert "\\x1b]52" in "".join(seen)


def test_no_control_sequence_of_others_is_written_to_a_real_terminal(node: Path, tmp_path: Path) -> None:
    master, slave = pty.openpty()
    variables = {**os.environ, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8", "XDG_CONFIG_HOME": str(tmp_path)}
    argv = [sys.executable, "-m", "npudoctor", "tui", "--replay", str(node)]
    with subprocess.Popen(argv, stdin=slave, stdout=slave, stderr=slave, env=variables) as process:
        os.close(slave)
        try:
            written = _until(master, b"52;c;UFdO")
            for key in b"2345":
                os.write(master, bytes([key]))
                written += _read(master, 0.4)
            os.write(master, b"q")
            written += _read(master, 3.0)
        finally:
            process.kill()
            os.close(master)
    assert b"\x1b]52" not in written and b"\x1b]0;PWN" not in written
    for letter in "\u202e\u2066\u200b\u2060\U000e0041\x9b":
        assert letter.encode() not in written


def _until(terminal: int, sought: bytes) -> bytes:
    written, until = b"", time.monotonic() + 120
    while sought not in written:
        assert time.monotonic() < until, written[-2000:]
        written += _read(terminal, 0.5)
    return written


def _read(terminal: int, seconds: float) -> bytes:
    written, until = b"", time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        if not select.select([terminal], [], [], left)[0]:
            break
        try:
            written += os.read(terminal, 1 << 16)
        except OSError:
            break
    return written


# Live


HOLDER = """
import ctypes, socket, sys, time
for port in range(60000, 60032):
    held = socket.socket()
    try:
        held.bind(("", port))
    except OSError:
        continue
    held.listen()
    break
ctypes.CDLL(None).prctl(15, b"\\x1b]0;PWN\\x1b\\\\\\n\\xe2\\x80\\xae", 0, 0, 0)
print(port, flush=True)
time.sleep(600)
"""


@as_root
@pytest.mark.skipif(not os.access("/usr/bin/python3", os.X_OK), reason="no Python here that a plain user can run")
def test_a_plain_users_process_forges_nothing_and_writes_no_title(monkeypatch: pytest.MonkeyPatch) -> None:
    argv: list[str | bytes] = ["/usr/bin/python3", "-I", "-c", HOLDER, f"\x1b]0;PWN\x07\n{FORGED}".encode()]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, **identity(ALICE)) as process:
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            here, node = local.LocalHost(), sim.simulate("new-node")
            elsewhere = node.measure
            lived = ("sockets", "processes")
            monkeypatch.setattr(node, "measure", lambda key: (here.measure if key in lived else elsewhere)(key))
            selection = Selection(names=("hccl.ports-free",))
            (done,) = (one for one in engine.run(plugins.load(), node, selection) if isinstance(one, engine.Done))
        finally:
            process.kill()
    shown = render(done.report, verbose=True)
    assert f"{port}" in shown and "\\x1b]0;PWN" in shown
    assert_clean(shown)
