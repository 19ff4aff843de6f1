"""A recording holds what checks need and nothing that its node's people must keep; redacted, it names nobody."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest

from npudoctor import engine, plugins, sim
from npudoctor.data import to_json
from npudoctor.facts.cann import elf
from npudoctor.facts.network import hccl_whitelist, rank_table
from npudoctor.findings import Report
from npudoctor.host import Host, User
from npudoctor.host.live.local import LocalHost
from npudoctor.host.live.named_paths import is_named, named_paths
from npudoctor.host.recording.bundle_writer import files_of, write_folder
from npudoctor.host.recording.canned import FakeHost
from npudoctor.host.recording.recorded_node import open_bundle
from npudoctor.host.recording.recorder import Notes, RecordingHost
from npudoctor.host.simulated.tree import Overlay
from npudoctor.privacy import recorded_sources, recording_policy, redaction
from npudoctor.sdk import Options
from npudoctor.selection import Selection
from tests.nodes import labels
from tests.plain_user import ALICE, NAMES, accounts_missing, as_root, run_as, with_accounts

CATALOG = plugins.load()
NODES: dict[str, Any] = {
    **{f"simulated {name}": name for name in sim.scenarios()},
    **{one.name: one for one in (*labels.written(), *labels.recorded())},
}


def judged(host: Host, options: Options | None = None) -> Any:
    for event in engine.run(CATALOG, host, Selection(options=options or Options()), facts=CATALOG.probes):
        if isinstance(event, engine.Done):
            return _findings(event.report)
    raise AssertionError("the run did not end")


def _findings(report: Report) -> Any:
    said = json.loads(to_json(report))
    return [{key: one.get(key) for key in ("check", "status", "reason", "findings")} for one in said["results"]]


def recorded(host: Host, options: Options | None = None) -> tuple[Any, dict[str, bytes], Notes]:
    recorder = RecordingHost(host)
    live = judged(recorder, options)
    return live, files_of(recording_policy.reduce_notes(recorder.notes)[0]), recorder.notes


def opened(files: dict[str, bytes], folder: Path) -> Host:
    shutil.rmtree(folder, ignore_errors=True)
    write_folder(files, str(folder))
    return open_bundle(str(folder))


def node(name: str, folder: Path) -> tuple[Host, Options]:
    what = NODES[name]
    if isinstance(what, str):
        return sim.simulate(what), Options()
    folder.mkdir(parents=True, exist_ok=True)
    return what._host(folder), Options(**what.said.get("options", {}))


def mapped(said: Any, names: redaction.Pseudonyms) -> Any:
    text = redaction._map_strings(said, names.apply)
    text = re.sub(r"\(\+\d+ arguments? #\d+\)", "", json.dumps(text))
    return json.loads(re.sub(r"(?<!\w)(?=[0-9a-f]*[a-f])[0-9a-f]{12}(?!\w)", "0" * 12, text))  # ids of containers


def compare_with_its_recordings(name: str, folder: Path) -> None:
    host, options = node(name, folder / "node")
    live, files, _ = recorded(host, options)
    assert judged(opened(files, folder / "recording"), options) == live
    redacted, names = redaction.redact(files)
    again = judged(opened(redacted, folder / "redacted"), options)
    assert mapped(again, names) == mapped(live, names)
    text = "\n".join(f"{name}\n{content.decode('utf-8', 'replace')}" for name, content in redacted.items())
    for old in (*names.hosts, *names.users, *names.serials, *names._ipv4):
        assert not re.search(rf"(?<![\w.-]){re.escape(old)}(?![\w.-])", text), old
    assert redaction.redact(files)[0] == redacted


ODD = ("library-cut-short", "npu-smi-hangs", "example-healthy-user-install")
"""An empty file, a tool that hangs, and a user called `dev`."""

FEW = [name for number, name in enumerate(NODES) if name.startswith("simulated") or name in ODD or number % 12 == 0]


@pytest.mark.parametrize("name", FEW)
def test_findings_are_those_of_the_recording_and_of_the_redacted_one(name: str, tmp_path: Path) -> None:
    compare_with_its_recordings(name, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", NODES)
def test_so_they_are_on_every_node(name: str, tmp_path: Path) -> None:
    compare_with_its_recordings(name, tmp_path)


# Each source says whether it identifies


def unmarked(notes: Notes) -> list[str]:
    found = [key for key in notes.commands if recorded_sources.command(key) is None]
    for path in {*notes.files, *notes.parts}:
        asked = notes.asked.get(path, {path})
        if not recorded_sources.file(path, asked, notes.environ or {}, in_pieces=path not in notes.files):
            found.append(path)
    for key, value in notes.measures.items():
        rows = value if isinstance(value, list) else [value] if isinstance(value, dict) else []
        found += sorted({f"{key}.{field}" for row in rows for field in row} - recorded_sources.MEASURES.keys())
    return found


@pytest.mark.parametrize("name", [name for name in NODES if name.startswith("simulated")])
def test_every_recorded_source_says_whether_it_identifies(name: str, tmp_path: Path) -> None:
    host, options = node(name, tmp_path)
    _, files, notes = recorded(host, options)
    assert not unmarked(notes)
    assert not set(json.loads(files["bundle.json"])) - recorded_sources.ABOUT.keys()


def test_so_does_every_source_of_this_machine() -> None:
    assert not unmarked(recorded(LocalHost())[2])


def test_a_source_without_a_row_is_noticed() -> None:
    recorder = RecordingHost(FakeHost(files={"/srv/x": "y"}, commands={"newtool -a": ""}))
    recorder.read("/srv/x")
    recorder.run(["newtool", "-a"])
    recorder.notes.measures["gpu"] = [{"name": "x"}]
    assert unmarked(recorder.notes) == ["newtool -a", "/srv/x", "gpu.name"]


# What a variable or a link names

SHADOW = "root:$6$salt$s3cr3thash:19000:0:99999:7:::\nalice:!:19000:0:99999:7:::\n"
NAMING = ("RANK_TABLE_FILE", "HCCL_WHITELIST_FILE", "ASCEND_HOME_PATH", "TORCH_ACL_INIT_CONFIG_PATH", "SSL_CERT_FILE")


def kept_text(host: Host, **options: Any) -> str:
    live, files, _ = recorded(host, **options)
    contents = (content.decode("utf-8", "replace") for content in files.values())
    return "\n".join([json.dumps(live), *files, *contents])


def test_a_file_that_a_variable_or_a_link_names_is_kept_as_what_it_is_for_or_not_at_all() -> None:
    home = "/home/alice"
    links = {f"{home}/{name}": "/etc/shadow" for name in (".bashrc", ".profile", ".conda/environments.txt", "rt.json")}
    links |= {f"{home}/cann/{name}": "/etc/shadow" for name in ("version.cfg", "version.info", "set_env.sh")}
    links |= {f"{home}/cann/lib64/libascendcl.so": "/etc/shadow"}
    for rank in ("/etc/shadow", f"{home}/rt.json", f"{home}/../../etc/shadow", "/etc//shadow"):
        environ = {"HOME": home, "USER": "alice", "RANK_TABLE_FILE": rank, "HCCL_WHITELIST_FILE": "/etc/shadow"}
        environ |= {
            "HCCL_WHITELIST_DISABLE": "0",
            "ASCEND_HOME_PATH": f"{home}/cann",
            "LD_LIBRARY_PATH": f"{home}/cann/lib64",
        }
        host = FakeHost(
            files={"/etc/shadow": SHADOW, "/etc/os-release": 'ID="x"\n'},
            links=links,
            stats={"/etc/shadow": Overlay(mode=0o600, access="rw")},
            environ=environ,
            user=User(),
        )
        text = kept_text(host)
        assert "s3cr3thash" not in text
        assert "19000" not in text


@pytest.mark.parametrize(
    "text",
    [SHADOW, '{"auths": {"reg": {"auth": "s3cr3t"}}}', '{"server_list": ["s3cr3t"], "x": "s3cr3t"}', '["s3cr3t"]'],
)
def test_nothing_of_another_file_is_quoted_or_kept(text: str) -> None:
    for reader, reduce in (
        (rank_table, rank_table.reduce_rank_table),
        (hccl_whitelist, hccl_whitelist.reduce_whitelist),
    ):
        said = []
        for one in (text, reduce(text)):
            assert one is text or "s3cr3t" not in one
            with pytest.raises(ValueError) as why:
                reader.parse(one)
            said.append(str(why.value))
        assert said[0] == said[1]
        assert "s3cr3t" not in said[0]


def test_a_library_that_is_none_is_not_quoted() -> None:
    with pytest.raises(ValueError) as why:
        elf.parse(lambda offset, length: SHADOW.encode()[offset : offset + length])
    assert "root" not in str(why.value)


def test_named_paths_are_found_however_they_are_written() -> None:
    named = named_paths(
        {"A": "/x/y:/z", "B": " /etc/../srv/q ", "PWD": "/home", "C": "relative", "D": "/"}, follow=False
    )
    assert [is_named(path, named) for path in ("/x/y", "/x/y/deep", "/z/", "/srv/q", "/x//y")] == [True] * 5
    assert [is_named(path, named) for path in ("/x", "/home/a", "/relative", "/etc")] == [False] * 4


@as_root
@pytest.mark.skipif(accounts_missing() is not None, reason=accounts_missing() or "")
def test_root_records_nothing_that_the_user_whose_variables_name_it_may_not_read(open_folder: Path) -> None:
    secret = open_folder / "secret"
    secret.write_text(json.dumps({"server_list": [{"server_id": "s3cr3thash", "device": []}]}), encoding="utf-8")
    secret.chmod(0o600)
    given = {name: str(secret) for name in NAMING} | {"HCCL_WHITELIST_DISABLE": "0", "CONDA_PREFIX": "/root"}
    command = with_accounts([sys.executable, "-m", "npudoctor", "record", "--profile", "quick"], open_folder)
    home = open_folder / "home" / NAMES[ALICE]
    (home / ".profile").write_text(
        "".join(f"export {name}='{value}'\n" for name, value in given.items()), encoding="utf-8"
    )
    (home / ".conda").mkdir()
    for name in (".bashrc", ".conda/environments.txt"):
        (home / name).symlink_to("/etc/shadow")
    for path in (home, *home.rglob("*")):
        os.chown(path, ALICE, ALICE, follow_symlinks=False)
    assert run_as(ALICE, ["cat", str(secret)]).returncode
    archive = open_folder / "node.tar.gz"
    environ = {**os.environ, "SUDO_USER": NAMES[ALICE]}
    done = subprocess.run(
        [*command, str(archive)], capture_output=True, encoding="utf-8", env=environ, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    with tarfile.open(archive) as tar:
        names = tar.getnames()
        text = "\n".join(file.read().decode("utf-8", "replace") for one in tar if (file := tar.extractfile(one)))
    assert str(home) in text, "her variables were not asked"
    assert "s3cr3thash" not in text
    assert not [name for name in names if name.endswith(("shadow", "root" + str(secret)))]
    assert ":0:99999:7:" not in text


# Pseudonyms


def files_with(**more: Any) -> dict[str, bytes]:
    said: dict[str, Any] = {
        "bundle.json": {"schema": "npudoctor.bundle/1", "hostname": "gpu17.corp.example", "user": {"name": "alice"}},
        "host.json": {
            "processes": [
                {"pid": 7, "name": "x", "username": "bob.smith", "cmdline": ["/home/bob.smith/x", "--host=10.1.2.77"]}
            ]
        },
        "environ.json": {"HOME": "/data/carol", "USER": "alice", "HCCL_IF_IP": "10.1.2.3", "MASTER_ADDR": "head01"},
    }
    texts = {
        "root/etc/hosts": "127.0.0.1 localhost\n10.1.2.3 gpu17.corp.example gpu17\n10.1.2.9 head01\nfd00::5 gpu17-v6\n",
        "commands/npu-smi info -t board -i 0/stdout": "\tSerial Number : 1023C3923983\n\tSoftware Version : 10.1.2.3\n",
        "commands/journalctl -k --since -7d/stdout": "Nov 1 gpu17 kernel: alice 2c:97:b1:00:10:00 1023C3923983\n",
        "root/home/bob.smith/.bashrc": "source /home/bob.smith/x\n",
        "root/proc/net/route": "eth0\t00000000\t0902010A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n",
        "root/proc/net/tcp": "  0: 0302010A:EA60 0902010A:1F90 01\n",
    }
    return {name: json.dumps(one).encode() for name, one in (said | more).items()} | {
        name: text.encode() for name, text in texts.items()
    }


def test_names_addresses_and_serial_numbers_are_replaced_everywhere_by_the_same() -> None:
    files, names = redaction.redact(files_with())
    text = "\n".join(f"{name}\n{content.decode()}" for name, content in files.items())
    for old in (
        "gpu17",
        "corp",
        "head01",
        "alice",
        "bob",
        "smith",
        "carol",
        "2c:97",
        "1023C3923983",
        "0302010A",
        "fd00::5",
        "10.1.2.77",
    ):
        assert old not in text, old
    assert (
        json.loads(files["environ.json"])["HCCL_IF_IP"] == names._ipv4["10.1.2.3"] in files["root/etc/hosts"].decode()
    )
    assert "localhost" in text
    assert [name for name in files if name.endswith("/.bashrc")] == [f"root/home/{names.users['bob.smith']}/.bashrc"]
    moved = bytes(map(int, names._ipv4["10.1.2.9"].split(".")))[::-1].hex().upper()
    assert moved in files["root/proc/net/route"].decode()
    assert moved in files["root/proc/net/tcp"].decode()


def test_networks_stay_networks_and_special_addresses_stay() -> None:
    found = redaction._shift_addresses(
        [IPv4Address(one) for one in ("10.1.2.3", "10.1.2.9", "10.1.3.1", "10.200.0.1")],
        redaction._RANGES[0],
    )
    parts = {old: new.split(".") for old, new in found.items()}
    assert parts["10.1.2.3"][:3] == parts["10.1.2.9"][:3] != parts["10.1.3.1"][:3]
    assert parts["10.1.2.3"][:2] == parts["10.1.3.1"][:2] != parts["10.200.0.1"][:2]
    assert not set(found) & set(found.values())
    files = {
        "bundle.json": b"{}",
        "root/etc/hosts": b"127.0.0.1 a\n0.0.0.0 b\n255.255.255.0 c\n224.0.0.1 d\n::1 e\nff02::1 f\n",
    }
    text = redaction.redact(files)[0]["root/etc/hosts"].decode()
    assert re.findall(r"^\S+", text, re.M) == ["127.0.0.1", "0.0.0.0", "255.255.255.0", "224.0.0.1", "::1", "ff02::1"]


def test_a_version_of_four_numbers_is_no_address() -> None:
    files, _ = redaction.redact(files_with() | {"root/usr/local/Ascend/driver/version.info": b"Version=24.1.0.3\n"})
    assert files["root/usr/local/Ascend/driver/version.info"] == b"Version=24.1.0.3\n"


def test_record_redact_says_what_is_left_to_read(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "npudoctor",
            "record",
            "--redact",
            "--simulate",
            "in-service",
            str(tmp_path / "x.tar.gz"),
        ],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0
    assert "Review before sending" in done.stderr
    assert "commands/journalctl -k --since -7d/stdout: kernel log lines" in done.stderr
    assert "busy-node" not in done.stdout + done.stderr
