"""Recording a node: what it answered is noted so that a replay answers the same, and nothing else is noted."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from npudoctor.findings import Because
from npudoctor.host import Completed, Host, Unavailable, User, real_path
from npudoctor.host.live.local import LocalHost
from npudoctor.host.recording import bundle_writer
from npudoctor.host.recording.canned import FakeHost
from npudoctor.host.recording.recorded_node import BundleError, BundleHost, open_bundle
from npudoctor.host.recording.recorder import RecordingHost
from npudoctor.host.simulated.tree import Overlay
from npudoctor.privacy import recording_policy

Question = Callable[[Host], object]


def answer(host: Host, question: Question) -> object:
    """What a host answers, or the reason that it gives and what kept it from knowing."""
    try:
        return question(host)
    except Unavailable as why:
        return why.reason, why.because


def replayed(recorder: RecordingHost, folder: Path) -> BundleHost:
    bundle_writer.write_folder(bundle_writer.files_of(recorder.notes), str(folder))
    return open_bundle(str(folder))


def node(**more: Any) -> FakeHost:
    return FakeHost(
        files={
            "/etc/hosts": "127.0.0.1 localhost\n",
            "/etc/empty": "",
            "/opt/cann-8.5.0/version": "8.5.0\n",
            "/opt/cann-8.5.0/lib/libx.so": b"\x7fELF" + bytes(100),
            "/secret": "nobody asked",
            "/proc/odd": b"\xff\xfe odd",
        },
        links={
            "/opt/cann": "cann-8.5.0",
            "/opt/latest": "/opt/cann",
            "/opt/gone": "/nowhere/8.0",
            "/a": "/b",
            "/b": "/a",
        },
        stats={
            "/dev/davinci0": Overlay(kind="char", mode=0o660, gid=1000, rdev="236:0"),
            "/dev/closed": Overlay(kind="char", mode=0o600),
            "/root": Overlay(kind="dir", mode=0o700),
            "/etc/shadow": Overlay(mode=0o600),
            "/opt/log": Overlay(kind="dir", mtime=1792000000.5),
        },
        commands={
            "npu-smi info": Completed(returncode=0, stdout="table\n", seconds=0.7),
            "npu-smi info -l": Completed(returncode=1, stdout="half", stderr="dcmi failed\n"),
            "npu-smi info -m": Completed(returncode=None, seconds=10.0, timed_out=True),
            "lsmod": Completed(returncode=-11),
            "dmesg": Completed(returncode=0, stdout="x", truncated=True),
            "cat /etc/hosts": "a key with a slash in it\n",
            "python environment": '{"version": "3.11.2"}\n',
        },
        environ={"HCCL_IF_IP": "10.0.0.7"},
        measures={"memory": {"total": 1 << 40, "available": 1 << 39}, "container": None},
        user=User(name="ma-user", uid=1000, gid=1000, gids=(1000,), groups=("ma",)),
        **more,
    )


QUESTIONS: dict[str, Question] = {
    "read": lambda host: host.read("/etc/hosts"),
    "read an empty file": lambda host: host.read("/etc/empty"),
    "read through links": lambda host: host.read("/opt/latest/version"),
    "read odd bytes": lambda host: host.read_bytes("/proc/odd"),
    "read a beginning": lambda host: host.read_bytes("/opt/cann/lib/libx.so", limit=20),
    "read what is not there": lambda host: host.read("/etc/nothing"),
    "read a folder": lambda host: host.read("/opt"),
    "read a device": lambda host: host.read("/dev/davinci0"),
    "read what is closed": lambda host: host.read("/etc/shadow"),
    "read below what is closed": lambda host: host.read("/root/.bashrc"),
    "read a circle": lambda host: host.read("/a"),
    "exists": lambda host: host.exists("/etc/hosts"),
    "a folder exists": lambda host: host.exists("/opt/cann-8.5.0/lib"),
    "exists through links": lambda host: host.exists("/opt/latest/lib"),
    "exists not": lambda host: host.exists("/etc/nothing"),
    "a dead link exists not": lambda host: host.exists("/opt/gone"),
    "a circle exists not": lambda host: host.exists("/a/x"),
    "exists below what is closed": lambda host: host.exists("/root/.bashrc"),
    "list": lambda host: host.list_dir("/opt"),
    "list through links": lambda host: host.list_dir("/opt/latest"),
    "list devices": lambda host: host.list_dir("/dev"),
    "list what is closed": lambda host: host.list_dir("/root"),
    "list what is not there": lambda host: host.list_dir("/nowhere"),
    "list a file": lambda host: host.list_dir("/etc/hosts"),
    "stat a file": lambda host: host.stat("/etc/hosts"),
    "stat a folder": lambda host: host.stat("/opt/log"),
    "stat through links": lambda host: host.stat("/opt/latest/lib/libx.so"),
    "stat a device": lambda host: host.stat("/dev/davinci0"),
    "stat a closed device": lambda host: host.stat("/dev/closed"),
    "stat what is not there": lambda host: host.stat("/dev/davinci9"),
    "read a link": lambda host: host.read_link("/opt/cann"),
    "read a link below a link": lambda host: host.read_link("/opt/latest/../gone"),
    "read a file as a link": lambda host: host.read_link("/etc/hosts"),
    "follow links": lambda host: real_path(host, "/opt/latest/lib/../version"),
    "follow a dead link": lambda host: real_path(host, "/opt/gone/x"),
    "run": lambda host: host.run(["npu-smi", "info"]).stdout,
    "run in vain": lambda host: host.run(["/usr/bin/npu-smi", "info", "-l"]),
    "run for too long": lambda host: host.run(["npu-smi", "info", "-m"]),
    "run and crash": lambda host: host.run(["lsmod"]),
    "run and be cut": lambda host: host.run(["dmesg"]),
    "run a path": lambda host: host.run(["cat", "/etc/hosts"]),
    "run what is not there": lambda host: host.run(["ibstat", "-l"]),
    "run in the target": lambda host: host.run_in_target("environment", "/usr/bin/python3", timeout=9).stdout,
    "which": lambda host: host.which("npu-smi"),
    "which is not there": lambda host: host.which("ibstat"),
    "variables": lambda host: dict(host.environ),
    "measure": lambda host: host.measure("memory"),
    "measure none": lambda host: host.measure("container"),
    "user": lambda host: host.user,
    "machine": lambda host: (host.about.machine, host.about.hostname, host.about.environment),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_question_is_answered_by_the_recording_as_by_the_node(name: str, tmp_path: Path) -> None:
    recorder = RecordingHost(node())
    asked = answer(recorder, QUESTIONS[name])
    assert asked == answer(node(), QUESTIONS[name])
    assert answer(replayed(recorder, tmp_path / "node"), QUESTIONS[name]) == asked


def test_all_questions_together_are_answered_as_by_the_node(tmp_path: Path) -> None:
    recorder = RecordingHost(node())
    asked = {name: answer(recorder, question) for name, question in QUESTIONS.items()}
    again = replayed(recorder, tmp_path / "node")
    assert {name: answer(again, question) for name, question in QUESTIONS.items()} == asked


def test_what_nobody_asked_for_is_not_in_the_recording(tmp_path: Path) -> None:
    recorder = RecordingHost(node())
    recorder.list_dir("/")
    recorder.exists("/etc/hosts")
    recorder.exists("/opt/cann/lib")
    recorder.run(["lsmod"])
    host = replayed(recorder, tmp_path / "node")
    assert not list((tmp_path / "node").rglob("secret"))
    unknown: list[Question] = [
        lambda host: host.read("/secret"),
        lambda host: host.stat("/secret"),
        lambda host: host.exists("/secret"),
        lambda host: host.read("/etc/hosts"),
        lambda host: host.list_dir("/opt/cann/lib"),
        lambda host: host.exists("/opt/cann/other"),
        lambda host: host.run(["npu-smi", "info"]),
        lambda host: host.run(["lsmod", "-x"]),
        lambda host: host.which("ibstat"),
        lambda host: host.measure("cpu"),
    ]
    for question in unknown:
        with pytest.raises(Unavailable) as caught:
            question(host)
        assert caught.value.because is Because.NOT_RECORDED, caught.value.reason


def test_what_a_listing_does_not_name_is_known_to_be_absent(tmp_path: Path) -> None:
    recorder = RecordingHost(node())
    recorder.list_dir("/opt")
    host = replayed(recorder, tmp_path / "node")
    assert host.exists("/opt/cann-9") is False
    assert answer(host, lambda host: host.read("/opt/x/y/z")) == ("/opt/x/y/z does not exist", Because.ABSENT)


def test_more_of_a_file_than_was_read_is_not_invented(tmp_path: Path) -> None:
    recorder = RecordingHost(node())
    recorder.read_bytes("/opt/cann/lib/libx.so", limit=20)
    host = replayed(recorder, tmp_path / "node")
    assert len(host.read_bytes("/opt/cann/lib/libx.so", limit=8)) == 8
    assert host.stat("/opt/cann/lib/libx.so").size == 104
    with pytest.raises(Unavailable, match="is not in this recording"):
        host.read("/opt/cann/lib/libx.so")
    recorder.read_bytes("/opt/cann-8.5.0/lib/libx.so")
    assert len(replayed(recorder, tmp_path / "whole").read_bytes("/opt/cann/lib/libx.so")) == 104


def test_a_node_without_variables_says_why_in_the_recording_too(tmp_path: Path) -> None:
    host = FakeHost(environ=Unavailable("no job environment: only root can see it", because=Because.NO_RIGHT))
    recorder = RecordingHost(host)
    asked = answer(recorder, lambda host: host.environ)
    assert asked == ("no job environment: only root can see it", Because.NO_RIGHT)
    assert answer(replayed(recorder, tmp_path / "node"), lambda host: host.environ) == asked


def test_the_tools_of_a_live_machine_fail_in_the_recording_as_they_did(tmp_path: Path) -> None:
    (tmp_path / "dead").symlink_to("/nowhere/npu-smi")
    (tmp_path / "text").write_text("no program", encoding="utf-8")
    (tmp_path / "text").chmod(0o755)
    (tmp_path / "hung").write_text("#!/bin/sh\nexec sleep 60\n", encoding="utf-8")
    (tmp_path / "hung").chmod(0o755)
    questions: list[Question] = [
        lambda host: host.which(str(tmp_path / "dead")),
        lambda host: host.run([str(tmp_path / "dead")]),
        lambda host: host.run([str(tmp_path / "text")]),
        lambda host: host.run([str(tmp_path / "hung")], timeout=0.3).timed_out,
        lambda host: host.run_in_target("environment", str(tmp_path / "no-python"), timeout=9),
        lambda host: host.read("/proc/self/mem"),
        lambda host: host.read_bytes("/proc/self/stat", limit=1) != b"",
        lambda host: host.measure("limits"),
    ]
    recorder = RecordingHost(LocalHost())
    asked = [answer(recorder, question) for question in questions]
    again = replayed(recorder, tmp_path / "node")
    assert [answer(again, question) for question in questions] == asked
    assert asked[3] is True


def test_npudoctor_and_what_it_has_started_are_not_among_the_processes() -> None:
    class Live(FakeHost):
        about = LocalHost().about

    own = os.getpid()
    rows = [{"pid": pid, "ppid": ppid} for pid, ppid in ((1, 0), (7, 1), (90, own), (91, 90), (92, 91), (93, 7))]
    recorder = RecordingHost(Live(measures={"processes": rows}))
    assert [row["pid"] for row in recorder.measure("processes")] == [1, 7, 93]


def test_times_are_kept_where_they_tell_of_the_node() -> None:
    times = {"a": 0.02, "b": 1.9, "c": 5.04, "d": 6.26}
    host = FakeHost(commands={key: Completed(returncode=0, seconds=seconds) for key, seconds in times.items()})
    recorder = RecordingHost(host)
    for key in times:
        recorder.run([key])
    assert {key: done.seconds for key, done in recorder.notes.commands.items()} == {"a": 0, "b": 0, "c": 5.01, "d": 6.3}


# What may be kept


def kept(host: Host, *questions: Question) -> tuple[str, recording_policy.LeftOut]:
    """Everything that would be written down, as one text."""
    recorder = RecordingHost(host)
    for question in questions:
        answer(recorder, question)
    notes, left_out = recording_policy.reduce_notes(recorder.notes)
    return b"\n".join(bundle_writer.files_of(notes).values()).decode("utf-8", "replace"), left_out


def test_only_variables_of_the_catalogue_are_kept_and_misspelt_ones() -> None:
    environ = {
        "HCCL_IF_IP": "10.0.0.7",
        "HCCL_SOCKET_IFNAM": "eth0",
        "AWS_SECRET_ACCESS_KEY": "s3cr3t-a",
        "MY_PASSWORD": "s3cr3t-b",
        "http_proxy": "http://me:s3cr3t-c@proxy",
        "MASTER_ADDR": "tcp://me:s3cr3t-d@10.0.0.1",
    }
    text, left_out = kept(FakeHost(environ=environ), lambda host: host.environ)
    assert "s3cr3t" not in text
    assert json.loads(text.split("\n}\n")[1] + "}") == {
        "HCCL_IF_IP": "10.0.0.7",
        "HCCL_SOCKET_IFNAM": "eth0",
        "MASTER_ADDR": "tcp://***@10.0.0.1",
    }
    assert left_out.variables == 3


def test_command_lines_are_kept_without_credentials_and_those_of_others_only_where_needed() -> None:
    def row(pid: int, who: str, *words: str) -> dict[str, Any]:
        return {"pid": pid, "ppid": 1, "name": words[0], "username": who, "cmdline": list(words)}

    rows = [
        row(10, "ma-user", "python3", "train.py", "--hf-token", "s3cr3t-1", "--lr=1"),
        row(11, "bob", "vim", "private-plan.txt"),
        row(12, "bob", "server", "--password=s3cr3t-2", "--port=60001"),
        row(13, "root", "agent", "https://u:s3cr3t-3@example.org"),
    ]
    sockets = [{"family": "inet", "type": "tcp", "laddr": "0.0.0.0:60001", "status": "LISTEN", "pid": 12}]
    host = FakeHost(measures={"processes": rows, "sockets": sockets}, user=User(name="ma-user", uid=1000, gid=1000))
    text, left_out = kept(host, lambda host: host.measure("processes"), lambda host: host.measure("sockets"))
    assert "s3cr3t" not in text
    assert "private-plan" not in text
    assert [word in text for word in ("train.py", "--port=60001", "server", "(+3 arguments #")] == [True] * 4
    assert left_out.command_lines == 1


def test_of_other_people_the_files_of_users_tell_nothing() -> None:
    files = {
        "/etc/passwd": "root:x:0:0::/root:/bin/sh\nma-user:x:1000:1000::/home/ma:/bin/sh\nbob:x:7:7::/home/bob:\n",
        "/etc/group": "root:x:0:\nHwHiAiUser:x:1001:bob,ma-user\n",
    }
    host = FakeHost(files=files, user=User(name="ma-user", uid=1000, gid=1000))
    text, _ = kept(host, lambda host: host.read("/etc/passwd"), lambda host: host.read("/etc/group"))
    assert "bob" not in text
    assert "ma-user:x:1000:1000::/home/ma:/bin/sh\n" in text
    assert "HwHiAiUser:x:1001:ma-user\n" in text


def test_credentials_in_scripts_and_in_what_tools_print_are_not_kept() -> None:
    host = FakeHost(
        files={"/opt/set_env.sh": "export ASCEND_HOME_PATH=/opt\nexport HF_TOKEN='s3cr3t-1'\n"},
        commands={
            "python environment": '{"requires": ["x @ git+https://oauth2:s3cr3t-2@example.org/x"]}',
            "mysql -ps3cr3t-3": "rows",
        },
    )
    text, left_out = kept(
        host,
        lambda host: host.read("/opt/set_env.sh"),
        lambda host: host.run_in_target("environment", "python3", timeout=1),
        lambda host: host.run(["mysql", "-ps3cr3t-3"]),
    )
    assert "s3cr3t" not in text
    assert "ASCEND_HOME_PATH=/opt" in text
    assert left_out.commands == ("mysql -ps3cr3t-3",)


@pytest.mark.parametrize(
    ("had", "told"),
    [
        ({"mount": "/", "total": 1 << 44, "free": (1 << 43) + 12345}, 1 << 43),
        ({"mount": "/", "total": 1 << 44, "free": 70_000_000_001}, 70_000_000_001),
        ({"mount": "/", "total": 1 << 40, "free": 5_000_000_001}, 5_000_000_001),
    ],
)
def test_free_room_of_a_live_node_is_coarse_where_there_is_plenty(had: dict[str, Any], told: int) -> None:
    class Live(FakeHost):
        about = LocalHost().about

    recorder = RecordingHost(Live(measures={"disks": [had]}))
    recorder.measure("disks")
    assert recording_policy.reduce_notes(recorder.notes)[0].measures["disks"][0]["free"] == told


# Writing it down


@pytest.mark.usefixtures("noon")
def test_the_same_notes_are_the_same_archive_and_hold_no_time_and_no_owner(tmp_path: Path) -> None:
    for name in ("a", "b"):
        recorder = RecordingHost(node())
        for question in QUESTIONS.values() if name == "a" else reversed(QUESTIONS.values()):
            answer(recorder, question)
        bundle_writer.write_archive(bundle_writer.files_of(recorder.notes), str(tmp_path / f"{name}.tar.gz"))
    assert (tmp_path / "a.tar.gz").read_bytes() == (tmp_path / "b.tar.gz").read_bytes()
    assert (tmp_path / "a.tar.gz").read_bytes()[4:8] == bytes(4)
    assert (tmp_path / "a.tar.gz").stat().st_mode & 0o777 == 0o600
    assert open_bundle(str(tmp_path / "a.tar.gz")).run(["lsmod"]).returncode == -11


def test_an_archive_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "node.tar.gz"
    target.write_text("before", encoding="utf-8")
    with pytest.raises(FileExistsError):
        bundle_writer.write_archive({"x": b""}, str(target))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tarfile.TarFile.addfile", full)
    with pytest.raises(OSError, match="No space"):
        bundle_writer.write_archive({"x": b""}, str(target), replace=True)
    monkeypatch.undo()
    assert target.read_text(encoding="utf-8") == "before"
    assert os.listdir(tmp_path) == ["node.tar.gz"]


def test_a_folder_that_holds_something_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "node").mkdir()
    (tmp_path / "node/mine").write_text("precious", encoding="utf-8")
    with pytest.raises(OSError, match="not empty"):
        bundle_writer.write_folder({"bundle.json": b"{}"}, str(tmp_path / "node"))
    assert os.listdir(tmp_path) == ["node"]
    assert os.listdir(tmp_path / "node") == ["mine"]


def test_a_failure_for_no_known_reason_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bundle.json").write_text('{"schema": "npudoctor.bundle/1"}', encoding="utf-8")
    (tmp_path / "failed.json").write_text('{"read /x": {"because": "whim", "reason": "so"}}', encoding="utf-8")
    with pytest.raises(BundleError, match='because is "whim"; expected one of not-applicable'):
        open_bundle(str(tmp_path))
