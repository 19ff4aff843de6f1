"""No credential of a command line, a variable, a file or a tool's output is in anything that npudoctor writes."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from npudoctor import data, engine, plugins, sim
from npudoctor.cli import main
from npudoctor.daemon.history import History
from npudoctor.daemon.timetable import RunKind
from npudoctor.daemon.web import api
from npudoctor.facts.parsers import to_json
from npudoctor.facts.system.processes import parse
from npudoctor.host import Completed, Host
from npudoctor.host.recording.bundle_writer import files_of, write_folder
from npudoctor.host.recording.recorder import RecordingHost
from npudoctor.privacy import command_lines, recording_policy
from npudoctor.privacy.command_lines import reduce_line
from npudoctor.privacy.credentials import mask
from npudoctor.records import replace
from npudoctor.sdk import Options, RemoveFile, WriteFile
from npudoctor.selection import Selection
from npudoctor.tui.app import DoctorApp
from tests.daemon.conftest import Asker, Running, Watched
from tests.plain_user import ALICE, as_root, identity
from tests.security.test_paths import applied
from tests.tui.driving import Driver, node_of, play_on, press
from tests.tui.driving import text as shown_by

S = "s3cr3t"
"""Stands in each planted credential, where its form allows it."""

LETTERS = "Qz7Kp2Vx9Lm4Tr8Wn3Bs"
SHAPES = (
    *(
        f"AIza{LETTERS}{LETTERS}"[:39],
        f"ya29.{LETTERS}{LETTERS}",
        f"npm_{LETTERS}{LETTERS}"[:40],
        f"dckr_pat_{LETTERS}",
    ),
    *(
        f"ghp_{LETTERS}",
        f"github_pat_{LETTERS}",
        f"glpat-{LETTERS}",
        f"hf_{LETTERS}",
        f"sk-{LETTERS}",
        f"xoxb-{LETTERS}",
    ),
    *("AKIA" + LETTERS.upper()[:16], f"pypi-{LETTERS}", f"eyJ{LETTERS}.eyJ{LETTERS}.{LETTERS}", f"dop_v1_{LETTERS}"),
)
NAMED = (
    *(
        f"--key {S}1",
        f"-k {S}1",
        f"--pw {S}1",
        f"--hf_tok {S}1",
        f"--cookie {S}=1",
        f"--session {S}1",
        f"--license {S}1",
    ),
    *(f"passwd {S}1", f"new password {S}1, again", f"passphrase {S}1"),
    *(f"--password={S}1", f"--api-key {S}1", f"--auth-token '{S} 1'", f"https://h/p?X-Amz-Signature={S}1", f"sig={S}1"),
    *(f"curl -u user:{S}1 https://h", f"mysql -p{S}1 -h db", f"sshpass -p {S}1 ssh h", f"redis-cli -a {S}1 ping"),
    *(f"export TOKEN={S}1 && run", f"DB_PASSWORD='{S} 1'", f'{{"password": "{S} 1"}}', f"Authorization: Bearer {S}123"),
    *(f"Authorization: Basic {S}MTIz", f"Cookie: a={S}; b={S}", f"X-Auth-Token: {S}", f"git+https://oauth2:{S}@h/x"),
    *(
        f"postgresql://me:{S}/x@db/y",
        f"aws_secret_access_key = {S}",
        f"username=x,password={S},vers=3",
        f"?key={S}&a=1",
    ),
    *(f"docker login -u bob -p {S} reg", f"-----BEGIN RSA PRIVATE KEY-----\n{S}\n-----END RSA PRIVATE KEY-----"),
)
"""Forms that text keeps: what stands before and after the value stays readable."""

ARGUMENTS = (
    *(
        "--key",
        f"{S}a",
        "-k",
        f"{S}b",
        "--pw",
        f"{S}c",
        f"-p{S}d",
        f"curl -u user:{S}e https://h",
        "--cookie",
        f"a={S}f",
    ),
    *(
        "-c",
        f"export TOKEN={S}g && run",
        S,
        f"https://me:{S}h@host/x",
        f"--x={S}i",
        f"{S}=1",
        "czNjcjN0czNjcjN0",
        *SHAPES,
    ),
)
SECRETS = (S, "czNjcjN0", LETTERS, LETTERS.upper()[:16])


def leaks(text: str) -> list[str]:
    return [text[max(place - 60, 0) : place + 30] for one in SECRETS if (place := text.find(one)) >= 0]


def lines_with_credentials() -> list[str]:
    """Lines of a failing job that end in a credential, some so long that it is cut where they are quoted."""
    told = [one for one in (*NAMED, *SHAPES) if "\n" not in one]
    lines = [f"[rank{rank}] EI0006: Getting socket times out. {text}" for rank, text in enumerate(told)]
    lines += [f"[rank{rank}] ValueError: EI0006 of {text}" for rank, text in enumerate(told, 100)]
    for rank, cut in enumerate(range(330, 400, 10), 200):
        text = "the peer did not answer and " * 20
        lines.append(f"[rank{rank}] EI0006: {text[:cut]} --token={S}{S}{S} https://{S}:{S}@h/v2 ghp_{LETTERS} {text}")
    for rank, length in enumerate(range(80, 160, 10), 300):
        lines.append(f"[rank{rank}] KeyError: https://{'u' * length}:{S}{S}@host/")
        lines.append(f"[rank{rank}] {'x ' * length} https://{S}{'u' * 300}@host/ EI0006: Getting socket times out.")
    return lines


# Texts


@pytest.mark.parametrize("text", (*NAMED, *SHAPES))
def test_a_text_is_masked(text: str) -> None:
    for within in (text, f"npu 3: {text} failed", json.dumps({"error": f'x "{text}" y'}), f"a\n{text}\nb"):
        assert not leaks(mask(within)), mask(within)
        assert mask(mask(within)) == mask(within)


def test_json_stays_json() -> None:
    for text in NAMED:
        for said in ({"error": f'x "{text}" y'}, {"password": text, "token": "", "tokenizers": {"version": "1"}}):
            assert json.loads(mask(json.dumps(said))).keys() == said.keys()


def test_what_tools_really_print_is_left_as_it_is() -> None:
    folder = Path(__file__).parents[1] / "facts" / "data"
    for path in sorted(folder.rglob("*")):
        if path.is_file() and b"\0" not in path.read_bytes():
            text = path.read_text(errors="replace")
            assert mask(text) == text, path


@pytest.mark.parametrize(
    "text", ["tokenizers==0.1", "docker run -p 80:80 -u 1000:1000 x", "basic tests", "ps -k 5 -p 7"]
)
def test_what_is_no_credential_stays(text: str) -> None:
    assert mask(text) == text


# Command lines


@pytest.mark.parametrize("program", ["python3", "/usr/bin/python3.11", "bash", "torchrun", "curl", "server", "perl"])
def test_of_a_command_line_only_the_program_is_left(program: str) -> None:
    for first in ((), ("-c",), ("--key",), ("-u", "--"), ("-",), ("-x", "-uc"), ("-m", "a b"), ("--rdzv-id",)):
        line = command_lines.reduce_line([program, *first, *ARGUMENTS])
        assert not leaks(" ".join(line)), line
        assert command_lines.reduce_line(line) == line


def test_a_program_that_is_a_credential_is_not_named() -> None:
    for words in ([f"x --token={S}"], [f"TOKEN={S}"], [f"ghp_{LETTERS}", "x"], [f"u:{S}@h"]):
        assert not leaks(" ".join(command_lines.reduce_line(words)))


def test_twins_are_known_as_such_and_others_are_not() -> None:
    rows = [{"pid": pid, "name": "x", "cmdline": ["x", *rest]} for pid, rest in ((7, "ab"), (5, "ab"), (6, "ac"))]
    found = parse(rows).by_pid
    assert found[5].cmdline == found[7].cmdline != found[6].cmdline
    assert found[5].command == "x (+2 arguments)"


def test_options_of_launchers_keep_numbers_alone() -> None:
    words = ["torchrun", "--nproc_per_node=8", "--master_port", "29500", f"--node_rank={S}", "--nnodes", S, "train.py"]
    assert command_lines.reduce_line(words)[:4] == ("torchrun", "--nproc_per_node=8", "--master_port", "29500")
    assert not leaks(" ".join(command_lines.reduce_line(words)))


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        *(("10.0.0.5", True), ("localhost", True), ("10.0.0.5:29500", True), ("[fe80::1]:5000", True), ("::", True)),
        *((S, False), ("node-7.corp.example", False), (f"10.0.0.5/{S}", False), ("cafe", False), ("1.2.3.4.5", False)),
    ],
)
@pytest.mark.parametrize("option", ["--host", "--master_addr", "--dist-init-addr", "--data-parallel-address"])
def test_options_that_name_a_host_keep_addresses_alone(option: str, value: str, kept: bool) -> None:
    for words in (["vllm", "serve", option, value], ["vllm", "serve", f"{option}={value}"]):
        line = command_lines.reduce_line(words)
        assert (value in " ".join(line)) is kept
        assert line[2].startswith(option)
        assert command_lines.reduce_line(line) == line


def test_of_a_connector_the_name_alone_is_kept() -> None:
    said = f'{{"token": "{S}", "kv_connector": "MooncakeConnectorV1", "x": "{S}"}}'
    for words in (["vllm", "serve", "--kv-transfer-config", said], ["vllm", "serve", f"--kv-transfer-config={said}"]):
        line = command_lines.reduce_line(words)
        assert line == ("vllm", "serve", "--kv-transfer-config", '{"kv_connector":"MooncakeConnectorV1"}')
        assert command_lines.reduce_line(line) == line
    line = command_lines.reduce_line(["vllm", "serve", "--kv-transfer-config", f'{{"kv_connector": "Mooncake{S}/x"}}'])
    assert not leaks(" ".join(line))


def test_a_name_of_a_process_is_short_and_masked() -> None:
    (found,) = parse([{"pid": 5, "name": f"ghp_{LETTERS}" + "x" * 5000}]).by_pid.values()
    assert not leaks(found.name)
    assert len(found.name) <= 64


# All outputs of a node whose every source holds credentials


class Planted:
    """A node that says a credential after each line that a command prints or a file holds."""

    def __init__(self, host: Host, planted: str, *, inline: bool) -> None:
        self._host, self._planted, self._inline = host, planted, inline

    def __getattr__(self, name: str) -> Any:
        return getattr(self._host, name)

    def _more(self, text: str) -> str:
        if self._inline:
            return "\n".join(f"{line} {self._planted}" if line.strip() else line for line in text.split("\n"))
        return f"{text}\n{self._planted}\n"

    @property
    def environ(self) -> dict[str, str]:
        secret = {
            "HF_TOKEN": S,
            "HCCL_TOKEN": S,
            "http_proxy": f"http://u:{S}@p",
            "MASTER_ADDR": f"tcp://u:{S}@10.0.0.1",
        }
        return {**self._host.environ, **secret, "AWS_SECRET_ACCESS_KEY": S, "ASCEND_PRIVATE": S, "NPUDOCTOR_X": S}

    def run(self, argv: Sequence[str], **more: Any) -> Completed:
        done = self._host.run(argv, **more)
        return replace(done, stdout=self._more(done.stdout), stderr=self._more(done.stderr))

    def run_in_target(self, *words: Any, **more: Any) -> Completed:
        done = self._host.run_in_target(*words, **more)
        return replace(done, stderr=self._more(done.stderr))

    def read(self, path: str) -> str:
        return self._more(self._host.read(path))

    def read_bytes(self, path: str, **more: Any) -> bytes:
        content = self._host.read_bytes(path, **more)
        return content if b"\0" in content else self._more(content.decode()).encode()

    def measure(self, key: str) -> Any:
        found = self._host.measure(key)
        if key == "processes":
            return [{**row, "cmdline": [*row["cmdline"], *ARGUMENTS]} for row in found]
        if key == "mounts":
            return [{**row, "options": f"{row.get('options')},password={S}"} for row in found]
        return found


PLANTED = (f"password={S} https://u:{S}@h/x", f"Authorization: Bearer {S}123 {' '.join(SHAPES)}", "\n".join(NAMED))


@pytest.mark.parametrize("inline", [False, True])
@pytest.mark.parametrize("scenario", ["in-service", "sick-cards", "container-broken", "new-node"])
def test_no_output_holds_what_a_node_says(scenario: str, inline: bool, tmp_path: Path) -> None:
    catalog = plugins.load()
    for number, planted in enumerate(PLANTED[:2] if inline else PLANTED):
        host: Any = Planted(sim.simulate(scenario), planted, inline=inline)
        facts = {probe.name: value for probe, value in engine.gather(catalog, host, Options()).items()}
        for name, value in facts.items():
            text = str(to_json(getattr(value, "reason", value)))
            assert not leaks(text), (name, leaks(text))
        recorder = RecordingHost(host)
        for event in engine.run(catalog, recorder, Selection(), facts=catalog.probes):
            if isinstance(event, engine.Done):
                assert not leaks(data.to_json(event.report))
        files = files_of(recording_policy.reduce_notes(recorder.notes)[0])
        for name, content in files.items():
            assert not leaks(name + "\n" + content.decode("utf-8", "replace")), name
        if number == 0:
            _no_format_holds(files, tmp_path / f"{scenario}-{inline}")


def _no_format_holds(files: dict[str, bytes], folder: Path) -> None:
    """A recording by hand with the credentials still in it, over every output of the command line."""
    _write_by_hand(files, folder)
    commands = [
        ["check"],
        ["check", "-v"],
        ["check", "-vv"],
        ["facts"],
        ["facts", "--json"],
        ["fix", "--all-safe", "--dry-run"],
        ["report"],
        ["report", "--no-redact"],
    ]
    formats = ("json", "junit", "html", "markdown", "nagios", "npd")
    for words in [*commands, *(["check", "--format", name] for name in formats)]:
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out), contextlib.suppress(SystemExit):
            main([*words, "--replay", str(folder)])
        assert not leaks(out.getvalue()), (words, leaks(out.getvalue()))


def _write_by_hand(files: dict[str, bytes], folder: Path) -> None:
    host = {**json.loads(files["host.json"])}
    host["processes"] = [{**row, "cmdline": ["server", *ARGUMENTS]} for row in host["processes"]]
    extra = {"HF_TOKEN": S, "HCCL_IF_IP": f"http://u:{S}@h", "HCCL_SOCKET_IFNAM": f"tcp://u:{S}@h"}
    environ = {**json.loads(files["environ.json"]), **extra}
    write_folder(
        {**files, "host.json": json.dumps(host).encode(), "environ.json": json.dumps(environ).encode()}, str(folder)
    )


PAGES = ("/livez", "/readyz", "/v1/report", "/v1/issues?all=true", "/v1/history?limit=1000", "/v1/cards", "/metrics")


@pytest.mark.parametrize("scenario", ["in-service", "sick-cards"])
def test_no_answer_of_the_daemon_and_no_history_holds_what_a_node_says(scenario: str, tmp_path: Path) -> None:
    history = History(str(tmp_path / "history.sqlite"), kept_days=30)
    with contextlib.closing(history):
        watched = Watched(plugins.load(), Planted(sim.simulate("healthy-a3"), PLANTED[0], inline=False), history)
        changes = watched.run(RunKind.STANDARD)
        for planted in PLANTED:
            host: Any = Planted(sim.simulate(scenario), planted, inline=False)
            changes += watched.run(RunKind.STANDARD, host) + watched.run(RunKind.QUICK, host)
        assert "opened" in changes
        asker = Asker(api(watched.board))
        for page in PAGES:
            answer = asker.get(page)
            assert answer.status_code in (200, 503), page
            assert not leaks(answer.text), (page, leaks(answer.text))
        assert watched.said == [] or not leaks("\n".join(watched.said))
        for path in tmp_path.iterdir():
            assert not leaks(path.read_bytes().decode("utf-8", "replace")), path


def test_no_screen_holds_what_a_recording_made_by_hand_says(tmp_path: Path) -> None:
    recorder = RecordingHost(sim.simulate("sick-cards"))
    catalog = plugins.load()
    for _ in engine.run(catalog, recorder, Selection(), facts=catalog.probes):
        pass
    folder = tmp_path / "node"
    files = files_of(recording_policy.reduce_notes(recorder.notes)[0])
    told = {name: content for name, content in files.items() if re.match(r"commands/(dmesg|npu-smi).*/stdout", name)}
    _write_by_hand({**files, **{name: content + PLANTED[0].encode() for name, content in told.items()}}, folder)
    seen: list[str] = []

    async def acts(app: DoctorApp, pilot: Driver) -> None:
        for key in ("1", "2", "enter", "escape", "3", "enter", "escape", "4", "5", "6", "7", "F"):
            await press(pilot, key)
            seen.append(shown_by(app))

    play_on(lambda: node_of("--replay", str(folder)), acts, size=(200, 60))
    assert len(set(seen)) > 5
    assert not leaks("\n".join(seen)), leaks("\n".join(seen))


# The live machine


@contextmanager
def holding(port: int, *words: str, uid: int = 0) -> Iterator[int]:
    """A process that listens on a port, with these words on its command line."""
    code = "import socket,sys,time;s=socket.socket();s.setsockopt(1,2,1);s.bind(('',int(sys.argv[1])));s.listen()"
    code += ";print(s.getsockname()[1],flush=True);time.sleep(600)"
    who = identity(uid) if uid else {}
    process = subprocess.Popen(
        ["/usr/bin/env", "python3", "-c", code, str(port), *words], stdout=subprocess.PIPE, cwd="/", **who
    )
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline() or 0)
    finally:
        process.kill()
        process.wait()
        if process.stdout:
            process.stdout.close()


def npudoctor(*words: str, **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "npudoctor", *words],
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=300,
        **more,
    )


def _often(folder: Path) -> Path:
    path = folder / "config.toml"
    path.write_text("[daemon]\nquick_s = 1\nstandard_s = 60\n", encoding="utf-8")
    return path


@as_root
def test_arguments_of_two_users_and_variables_are_in_no_output_of_this_machine(tmp_path: Path) -> None:
    environ = {**os.environ, "HF_TOKEN": S, "DB_PASSWORD": S, "http_proxy": f"http://u:{S}@h", "HCCL_TOKEN": S}
    archive = tmp_path / "node"
    with holding(0, *ARGUMENTS), holding(0, *ARGUMENTS, uid=ALICE):
        outputs = {
            " ".join(words): npudoctor(*words, env=environ)
            for words in (
                *(("facts", "--json"), ("facts",), ("check", "-vv"), ("check", "--format", "html")),
                *(("check", "--json"), ("record", str(archive))),
            )
        }
        running = Running(tmp_path, "--config", str(_often(tmp_path)), environment=environ).start()
        try:
            running.until_looked()
            pages = {page: running.get(page).text for page in PAGES}
        finally:
            running.end()
    for page, answer in pages.items():
        assert not leaks(answer), (page, leaks(answer))
    for name in ("history.sqlite", "log"):
        assert not leaks((tmp_path / name).read_bytes().decode("utf-8", "replace")), name
    for name, done in outputs.items():
        assert not leaks(done.stdout + done.stderr), (name, leaks(done.stdout + done.stderr))
    assert re.search(r"\(\+\d+ arguments #\d+\)", outputs["facts --json"].stdout)
    for path in archive.rglob("*"):
        assert not leaks(str(path) + (path.read_bytes().decode("utf-8", "replace") if path.is_file() else ""))


def test_long_arguments_cost_a_check_nothing() -> None:
    from npudoctor.host.live.local import LocalHost

    def took() -> float:
        began = time.process_time()
        LocalHost().measure("processes")
        return time.process_time() - began

    without = min(took() for _ in range(3))
    with holding(0, "a" * 60_000, "A0_-" * 15_000):
        long = min(took() for _ in range(3))
    assert long < 3 * without + 0.1


def test_no_preview_of_a_file_and_no_journal_shows_what_else_the_file_holds(tmp_path: Path) -> None:
    """What the undo needs is kept, for its owner alone; what is shown has the credentials masked."""
    path, state = tmp_path / "profile", tmp_path / "state"
    old = "\n".join([*NAMED, *(f"export THING={shape}" for shape in SHAPES), f"export API_TOKEN={S}", ""])
    path.write_text(old, encoding="utf-8")
    applied(WriteFile(str(path), f"{old}export HCCL_IF_BASE_PORT=60000\n"), state)
    applied(RemoveFile(str(path)), state)
    for words in (["history"], ["history", "--json"], ["undo"]):
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out), contextlib.suppress(SystemExit):
            main([*words, "--state", str(state)])
        assert "profile" in out.getvalue() or words == ["history"], (words, out.getvalue())
        assert not leaks(out.getvalue()), (words, leaks(out.getvalue()))
    for kept in (one for one in state.rglob("*") if one.is_file()):
        assert kept.stat().st_mode & 0o077 == 0 or not leaks(kept.read_text(errors="replace")), kept


@pytest.mark.parametrize(
    "line",
    [
        ("python3", "--config=" * 12_000 + "s3cret"),
        ("python3", *["(+1 argument #0)"] * 3_000, "s3cret"),
        ("vllm", "serve", "--config=--uds=--config=s3cret", "--uds=--host=s3cret"),
    ],
)
def test_a_command_line_made_to_be_reduced_again_and_again_costs_nothing_and_keeps_no_value(
    line: tuple[str, ...],
) -> None:
    kept = reduce_line(line)
    assert "s3cret" not in " ".join(kept) and len(kept) <= 25
    assert reduce_line(kept) == kept
