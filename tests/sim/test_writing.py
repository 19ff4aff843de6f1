"""A simulated node on disk gives the answers that it gives in memory: as a bundle, and through real executables."""

import json
import os
import shutil
import subprocess
import tarfile
import time
from pathlib import Path

import pytest

from npudoctor import sim
from npudoctor.host import Completed, Unavailable
from npudoctor.host.recording.canned import RecordedHost
from npudoctor.host.recording.recorded_node import open_bundle
from npudoctor.sim.target import PROBES, script_of

ALL = tuple(sim.scenarios())


def seen(host: RecordedHost) -> dict[str, object]:
    """Everything that a host tells."""
    files: dict[str, object] = {}
    for path, kind in host.tree.walk():
        files[path] = host.read_link(path) if kind == "link" else (host.stat(path).kind, host.stat(path).access)
        if kind == "file":
            files[path] = (files[path], host.read(path))
    measures = {}
    for key in ("cpu", "memory", "disks", "mounts", "interfaces", "sockets", "processes", "limits", "pci", "container"):
        try:
            measures[key] = host.measure(key)
        except Unavailable as why:
            measures[key] = why.because
    return {
        "files": files,
        "commands": {key: host.run(key.split(" "), timeout=60) for key in host.commands},
        "measures": measures,
        "environ": dict(host.environ),
        "user": host.user,
        "machine": host.about.machine,
        "tools": [host.which(tool) for tool in ("npu-smi", "hccn_tool", "python3", "lsmod", "ibstat")],
    }


@pytest.mark.parametrize("name", ALL)
def test_a_written_bundle_answers_like_the_node(name: str, tmp_path: Path) -> None:
    host = sim.simulate(name)
    sim.write_bundle(host, str(tmp_path / "node"))
    assert seen(open_bundle(str(tmp_path / "node"))) == seen(host)


def test_a_written_bundle_can_be_packed_and_read(tmp_path: Path) -> None:
    host = sim.simulate("healthy-a3")
    sim.write_bundle(host, str(tmp_path / "node"))
    with tarfile.open(tmp_path / "node.tar.gz", "w:gz") as tar:
        tar.add(tmp_path / "node", "node")
    assert seen(open_bundle(str(tmp_path / "node.tar.gz"))) == seen(host)


def test_the_same_node_is_written_byte_for_byte_the_same(tmp_path: Path) -> None:
    for place in ("a", "b"):
        sim.write_bundle(sim.simulate("in-service"), str(tmp_path / place))
    files = [path.relative_to(tmp_path / "a") for path in sorted((tmp_path / "a").rglob("*")) if path.is_file()]
    assert len(files) > 500
    assert all((tmp_path / "a" / path).read_bytes() == (tmp_path / "b" / path).read_bytes() for path in files)


def test_what_has_changed_is_written_as_it_is_now(tmp_path: Path) -> None:
    host = sim.simulate("new-node")
    host.set_sysctl("net.ipv4.ip_local_reserved_ports", "60000-60031")
    host.write_file("/etc/sysctl.d/99-x.conf", b"x\n")
    sim.write_bundle(host, str(tmp_path / "node"))
    again = open_bundle(str(tmp_path / "node"))
    assert again.read("/proc/sys/net/ipv4/ip_local_reserved_ports") == "60000-60031\n"
    assert again.read("/etc/sysctl.d/99-x.conf") == "x\n"


def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious", encoding="utf-8")
    for write in (sim.write_bundle, sim.write_tools):
        with pytest.raises(FileExistsError, match="is not empty; give a folder that does not exist yet"):
            write(sim.simulate("bare-host"), str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def call(folder: Path, *argv: str, **environ: str) -> Completed:
    """Run an executable of the folder as a person would."""
    done = subprocess.run(
        [folder / "bin" / argv[0], *argv[1:]],
        capture_output=True,
        env={**os.environ, **environ},
        timeout=30,
        check=False,
    )
    return Completed(returncode=done.returncode, stdout=done.stdout.decode(), stderr=done.stderr.decode())


@pytest.mark.parametrize("name", ["seed-910b1", "healthy-a3", "container-broken", "bare-host"])
def test_the_executables_print_what_the_node_prints(name: str, tmp_path: Path) -> None:
    host = sim.simulate(name)
    sim.write_tools(host, str(tmp_path / "node"))
    keys = [key for key in host.commands if not key.startswith("python ")]
    chosen = [key for key in keys if " -i " not in key or " -i 1" in key]
    for key in chosen:
        expected = host.run(key.split(" "), timeout=60)
        done = call(tmp_path / "node", *key.split(" "))
        assert (done.stdout, done.stderr, done.returncode) == (expected.stdout, expected.stderr, expected.returncode), (
            key
        )
    assert (tmp_path / "node/calls.log").read_text(encoding="utf-8").splitlines() == chosen


def test_the_fake_python_answers_by_the_name_of_the_script(tmp_path: Path) -> None:
    host = sim.simulate("seed-910b1")
    sim.write_tools(host, str(tmp_path / "node"))
    for probe in PROBES:
        done = call(tmp_path / "node", "python3", "-B", f"/some/path/in_target/{script_of(probe)}")
        assert done.stdout == host.run_in_target(probe, "python3", timeout=60).stdout
    assert (tmp_path / "node/calls.log").read_text(encoding="utf-8").splitlines() == [
        f"python {probe}" for probe in PROBES
    ]


@pytest.mark.parametrize(
    "argv",
    [
        ("npu-smi", "info", "-t", "sensors", "-i", "0"),
        ("npu-smi", "set", "-t", "nothing"),
        ("npu-smi", "it's $HOME; `id`"),
        ("hccn_tool", "-i", "0", "-optical", "-g"),
        ("hccn_tool", "nonsense"),
    ],
)
def test_a_question_that_was_not_foreseen_gets_the_tool_s_own_answer(tmp_path: Path, argv: tuple[str, ...]) -> None:
    host = sim.simulate("seed-910b1")
    sim.write_tools(host, str(tmp_path / "node"))
    done, expected = call(tmp_path / "node", *argv), host.run(argv)
    assert (done.stdout, done.returncode) == (expected.stdout, expected.returncode)
    assert "cat:" not in done.stderr


def test_the_executables_can_be_slow(tmp_path: Path) -> None:
    sim.write_tools(sim.simulate("bare-host"), str(tmp_path / "node"))
    started = time.monotonic()
    call(tmp_path / "node", "lsmod", NPUDOCTOR_FAKE_DELAY_S="0.4")
    assert time.monotonic() - started >= 0.4


def test_one_executable_can_be_slower_than_the_others(tmp_path: Path) -> None:
    sim.write_tools(sim.simulate("bare-host"), str(tmp_path / "node"))
    started = time.monotonic()
    call(tmp_path / "node", "lsmod", NPUDOCTOR_FAKE_DELAY_S="600", NPUDOCTOR_FAKE_DELAY_S_lsmod="0.4")
    assert time.monotonic() - started >= 0.4


def test_a_tool_that_crashes_or_hangs_does_so_as_an_executable(tmp_path: Path) -> None:
    for fault in ("crash", "hang"):
        (tmp_path / f"{fault}.toml").write_text(
            f'product = "atlas-800t-a3"\ndriver = {{ fault = "{fault}" }}\n', encoding="utf-8"
        )
        sim.write_tools(sim.simulate(str(tmp_path / f"{fault}.toml")), str(tmp_path / fault))
    assert call(tmp_path / "crash", "npu-smi", "info").returncode == -11
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run([tmp_path / "hang/bin/npu-smi", "info"], timeout=0.5, check=False)
    result = json.loads((tmp_path / "hang/commands/npu-smi info/result.json").read_text(encoding="utf-8"))
    assert result == {"returncode": None, "seconds": 20.0, "timed_out": True}


def test_the_executables_are_plain_posix_shell(tmp_path: Path) -> None:
    dash = shutil.which("dash")
    if dash is None:
        pytest.skip("there is no strict POSIX shell here to read the scripts")
    sim.write_tools(sim.simulate("in-service"), str(tmp_path / "node"))
    scripts = sorted((tmp_path / "node/bin").iterdir())
    assert {"npu-smi", "hccn_tool", "lsmod", "modinfo", "python3"} <= {path.name for path in scripts}
    for path in scripts:
        subprocess.run([dash, "-n", path], check=True)
        assert os.access(path, os.X_OK)
