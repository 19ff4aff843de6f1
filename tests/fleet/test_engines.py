"""The engines: a real sshd for many loopback addresses and a real Slurm of 16 nodes, in a network namespace."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import npudoctor
from tests.fleet import test_install

pytestmark = pytest.mark.slow
PATIENCE_S = 120.0
NODES = 16


class Rig(NamedTuple):
    """A network namespace, and a folder for what runs in it."""

    name: str
    folder: Path

    def run(
        self, *argv: str, check: bool = True, environ: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["ip", "netns", "exec", self.name, *argv],
            capture_output=True,
            encoding="utf-8",
            check=check,
            env={**os.environ, "XDG_STATE_HOME": str(self.folder / "state"), "COLUMNS": "80", **(environ or {})},
        )

    def fleet(
        self,
        *words: str,
        environ: dict[str, str] | None = None,
        head: str = "from npudoctor.cli import console; console()",
    ) -> tuple[int, dict[str, Any]]:
        argv = [sys.executable, "-c", head, "fleet", *words, "--json"]
        done = self.run(*argv, check=False, environ=environ)
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout)


def require(*tools: str) -> None:
    for tool in ("ip", *tools):
        if shutil.which(tool, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") is None:
            pytest.skip(f"{tool} is not installed")


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    require()
    if os.geteuid() != 0:
        pytest.skip("a network namespace requires root")
    rig = Rig(f"npudoctor{os.getpid()}", tmp_path_factory.mktemp("rig"))
    made = subprocess.run(["ip", "netns", "add", rig.name], capture_output=True, encoding="utf-8", check=False)
    if made.returncode:
        pytest.skip(f"network namespaces are not available: {made.stderr.strip()}")
    try:
        for words in (["link", "set", "lo", "up"], ["addr", "add", "10.255.0.1/32", "dev", "lo"]):
            done = subprocess.run(["ip", "-n", rig.name, *words], capture_output=True, encoding="utf-8", check=False)
            if done.returncode:
                pytest.skip(f"network namespaces are not available: {done.stderr.strip()}")
        os.chmod(rig.folder, 0o755)
        yield rig
    finally:
        subprocess.run(["ip", "netns", "del", rig.name], check=False)


def name_of(number: int) -> str:
    return f"n{number:04}"


def scenario(number: int) -> str:
    addresses = ", ".join(f'"29.{device + 1}.0.{number}"' for device in range(8))
    driver = "24.1.0" if number == 3 else "24.1.rc1"
    return (
        f'product = "atlas-800t-a2-910b1"\nhostname = "{name_of(number)}"\n'
        f'driver = {{ version = "{driver}" }}\ncann = {{ version = "8.0.0" }}\n[cards]\naddress = [{addresses}]\n'
    )


@pytest.fixture(scope="module")
def node_command(rig: Rig) -> Path:
    """npudoctor of a node: which one it is follows from the address that was called, or from Slurm's name."""
    for number in range(1, NODES + 1):
        (rig.folder / f"{name_of(number)}.toml").write_text(scenario(number), encoding="utf-8")
    faults = {
        "127.1.1.1": f"exec sleep 86400.{os.getpid()}",
        "127.1.1.2": "exec cat /dev/zero",
        "127.1.1.3": "echo 'NPUDOCTOR1 abc'; exit 0",
        "127.1.1.4": "exit 127",
        "127.1.1.5": "echo \"npudoctor: unknown command 'node'; see npudoctor --help\" >&2; exit 2",
    }
    cases = "".join(f"{address}) {what};;\n" for address, what in faults.items())
    command = rig.folder / "npudoctor"
    command.write_text(
        '#!/bin/sh\nset -- "$@"\naddress=$(echo "${SSH_CONNECTION:-a b 127.1.0.1}" | cut -d\' \' -f3)\n'
        f"case $address in\n127.1.2.*) exec cat '{rig.folder}/line';;\n{cases}esac\n"
        'name=${SLURMD_NODENAME:-$(printf n%04d "${address##*.}")}\n'
        f"exec '{sys.executable}' -c 'from npudoctor.cli import console; console()' \"$@\" "
        f"--simulate '{rig.folder}'/\"$name\".toml\n",
        encoding="utf-8",
    )
    command.chmod(0o755)
    return command


def configuration(rig: Rig) -> Path:
    """Names by ssh_config: n0001 to n0004 answer, faulty ones do not, m001 to m256 answer at once."""
    lines = [
        "Host *",
        "  Port 2222",
        f'  IdentityFile "{rig.folder}/user"',
        "  IdentitiesOnly yes",
        "  StrictHostKeyChecking yes",
        f'  UserKnownHostsFile "{rig.folder}/known"',
        "  GlobalKnownHostsFile /dev/null",
    ]
    hosts = {name_of(number): f"127.1.0.{number}" for number in range(1, NODES + 1)}
    hosts |= {name: f"127.1.1.{number}" for number, name in enumerate(("hang", "flood", "half", "none", "old"), 1)}
    hosts |= {f"m{number:03}": f"127.1.2.{number - 1}" for number in range(1, 257)}
    special = ["Host closed", "  HostName 127.1.0.99", "  Port 2223", "Host changed", "  HostName 127.1.0.98"]
    special += [f'  UserKnownHostsFile "{rig.folder}/wrong"']
    special += ["Host behind", "  HostName 127.1.0.2", "  ProxyJump n0001", "Host plain", "  HostName 127.1.3.1"]
    for name, address in hosts.items():
        special += [f"Host {name}", f"  HostName {address}"]
    file = rig.folder / "ssh_config"
    file.write_text("\n".join([*special, *lines]) + "\n", encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def sshd(rig: Rig) -> Iterator[Path]:
    """An sshd that answers for all of 127/8; its ssh_config."""
    require("sshd", "ssh", "ssh-keygen")
    if importlib.util.find_spec("ClusterShell") is None:
        pytest.skip("ClusterShell is not installed")
    folder = rig.folder
    for name in ("host", "user", "other"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    key = " ".join((folder / "host.pub").read_text(encoding="utf-8").split()[:2])
    other = " ".join((folder / "other.pub").read_text(encoding="utf-8").split()[:2])
    (folder / "known").write_text(f"* {key}\n", encoding="utf-8")
    (folder / "wrong").write_text(f"* {other}\n", encoding="utf-8")
    shutil.copy(folder / "user.pub", folder / "authorized")
    (folder / "sshd_config").write_text(
        f"Port 2222\nListenAddress 0.0.0.0\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/authorized\n"
        f"UsePAM no\nStrictModes no\nMaxStartups 1000\nPermitRootLogin yes\nPidFile {folder}/sshd.pid\n"
        "Match LocalAddress 127.1.3.0/24\n  ForceCommand setpriv --reuid 65534 --regid 65534 --clear-groups "
        '/bin/sh -c "$SSH_ORIGINAL_COMMAND"\n',
        encoding="utf-8",
    )
    Path("/run/sshd").mkdir(exist_ok=True)
    program = shutil.which("sshd", path="/usr/sbin:/sbin:/usr/bin")
    argv = ["ip", "netns", "exec", rig.name, str(program), "-D", "-f", str(folder / "sshd_config")]
    server = subprocess.Popen(argv, stderr=subprocess.DEVNULL)
    try:
        config = configuration(rig)
        wait_for(lambda: rig.run("ssh", "-F", str(config), "n0001", "true", check=False).returncode == 0)
        yield config
    finally:
        server.terminate()
        server.wait()


def wait_for(condition: Any) -> None:
    until = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > until:
            pytest.skip("the service did not start on this machine")
        time.sleep(0.2)


@pytest.fixture(scope="module")
def cluster(rig: Rig) -> Iterator[dict[str, str]]:
    """A Slurm of 16 nodes; the variables that name it."""
    require("slurmctld", "slurmd", "srun", "sinfo", "munged")
    folder = rig.folder / "slurm"
    folder.mkdir()
    (folder / "key").write_bytes(os.urandom(1024))
    (folder / "key").chmod(0o400)
    nodes = "".join(
        f"NodeName={name_of(number)} NodeAddr=127.1.0.{number} NodeHostname=localhost Port={17000 + number} CPUs=2\n"
        for number in range(1, NODES + 1)
    )
    (folder / "slurm.conf").write_text(
        "ClusterName=rig\nSlurmctldHost=localhost\nSlurmctldPort=16817\nSlurmUser=root\nSlurmdUser=root\n"
        f"AuthType=auth/munge\nAuthInfo=socket={folder}/munge\nStateSaveLocation={folder}\n"
        f"SlurmdSpoolDir={folder}/%n\nSlurmctldPidFile={folder}/ctl.pid\nSlurmdPidFile={folder}/%n.pid\n"
        "ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nMpiDefault=none\nReturnToService=2\n"
        "SelectType=select/cons_tres\nSelectTypeParameters=CR_Core\n"
        f"{nodes}PartitionName=train Nodes=ALL Default=YES\n",
        encoding="utf-8",
    )
    (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n", encoding="utf-8")
    conf = str(folder / "slurm.conf")
    munged = ("munged", "-F", f"--key-file={folder}/key", f"--socket={folder}/munge", f"--seed-file={folder}/seed")
    daemons = [
        (*munged, f"--pid-file={folder}/munge.pid", f"--log-file={folder}/munge.log", "--force"),
        ("slurmctld", "-D", "-f", conf),
        *(("slurmd", "-D", "-N", name_of(number), "-f", conf) for number in range(1, NODES + 1)),
    ]
    started: list[subprocess.Popen[bytes]] = []
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    environ = {**os.environ, "SLURM_CONF": conf, "PATH": path}
    try:
        for argv in daemons:
            command = ["ip", "netns", "exec", rig.name, *argv]
            null = subprocess.DEVNULL
            started.append(subprocess.Popen(command, stdout=null, stderr=null, env=environ))
        asked = ("sinfo", "-h", "-o", "%D %t")
        wait_for(lambda: rig.run(*asked, check=False, environ={"SLURM_CONF": conf}).stdout.strip() == f"{NODES} idle")
        yield {"SLURM_CONF": conf, "PATH": path}
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def outcomes(report: dict[str, Any]) -> dict[str, str]:
    return {row["name"]: row["outcome"] for row in report["nodes"]}


def test_every_failure_over_ssh_is_an_outcome_and_leaves_no_process(rig: Rig, sshd: Path, node_command: Path) -> None:
    names = "n0001,hang,flood,half,none,old,closed,changed,nowhere"
    code, report = rig.fleet(
        *("check", "-w", names, "--ssh-config", str(sshd), "--remote-command", str(node_command)),
        *("--timeout", "40", "--run", str(rig.folder / "run")),
    )
    assert outcomes(report) == {
        "n0001": "answered",
        "hang": "timed-out",
        "flood": "too-much",
        "half": "garbled",
        "none": "no-npudoctor",
        "old": "old-version",
        "closed": "route",
        "changed": "host-key",
        "nowhere": "name",
    }
    assert code == 3
    wait_for(lambda: not running(f"86400.{os.getpid()}"))


def test_a_node_behind_a_bastion_answers(rig: Rig, sshd: Path, node_command: Path) -> None:
    words = ("-w", "behind", "--ssh-config", str(sshd), "--remote-command", str(node_command))
    _, report = rig.fleet("check", *words, "--timeout", "300")
    assert outcomes(report) == {"behind": "answered"}


def test_sudo_is_asked_on_the_node_and_its_refusal_names_the_line_to_add(
    rig: Rig, sshd: Path, node_command: Path
) -> None:
    require("sudo", "setpriv")
    words = ("-w", "n0001,plain", "--ssh-config", str(sshd), "--remote-command", str(node_command))
    _, report = rig.fleet("check", *words, "--sudo", "--timeout", "300")
    assert outcomes(report) == {"n0001": "answered", "plain": "sudo"}
    rows = {row["name"]: row for row in report["nodes"]}
    assert rows["n0001"]["user"] == "root"
    assert "sudo: a password is required" in rows["plain"]["detail"]
    assert f"ALL=(root) NOPASSWD: {node_command} node --line --timeout 295" in rows["plain"]["detail"]


def running(word: str) -> list[str]:
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and word.encode() in (folder / "cmdline").read_bytes().split(b"\0"):
                found.append(folder.name)
        except OSError:
            continue
    return found


HEAD = """
import os, resource, sys
from npudoctor.cli import main
main(sys.argv[1:])
used = resource.getrusage(resource.RUSAGE_SELF)
peak = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(used.ru_utime + used.ru_stime, peak, "pydantic" in sys.modules, file=open(os.environ["USAGE"], "w"))
"""
"""What the head itself uses, in seconds and KiB: its ssh clients are not counted, nor what ran in its place before."""


def test_256_hosts_answer_over_ssh(rig: Rig, sshd: Path, node_command: Path) -> None:
    argv = [sys.executable, "-c", "from npudoctor.cli import console; console()", "node", "--line"]
    done = subprocess.run([*argv, "--simulate", "bare-host"], capture_output=True, encoding="utf-8", check=False)
    (rig.folder / "line").write_text(done.stdout, encoding="utf-8")
    words = ("check", "-w", "m[001-256]", "--ssh-config", str(sshd), "--remote-command", str(node_command))
    usage = rig.folder / "usage"
    _, report = rig.fleet(*words, "--fanout", "8", "--timeout", "300", environ={"USAGE": str(usage)}, head=HEAD)
    assert set(outcomes(report).values()) == {"answered"}
    assert report["answered"] == 256
    cpu_s, kib, pydantic = usage.read_text(encoding="utf-8").split()
    assert (float(cpu_s) / 256 <= 0.025, int(kib) <= 40 << 10, pydantic) == (True, True, "False"), (cpu_s, kib)


def test_a_node_that_slurm_has_drained_is_not_asked(rig: Rig, cluster: dict[str, str], node_command: Path) -> None:
    rig.run("scontrol", "update", "NodeName=n0002", "State=DRAIN", "Reason=fan broken", environ=cluster)
    try:
        words = ("check", "--slurm", "-p", "train", "--remote-command", str(node_command), "--timeout", "300")
        _, report = rig.fleet(*words, environ=cluster)
    finally:
        rig.run("scontrol", "update", "NodeName=n0002", "State=RESUME", environ=cluster)
    expected = {name_of(number): "answered" for number in range(1, NODES + 1)}
    assert outcomes(report) == {**expected, "n0002": "scheduler"}
    (row,) = (row for row in report["nodes"] if row["name"] == "n0002")
    assert row["detail"].startswith("drained: fan broken (by root, since ")


OUT_OF_SERVICE = """
from npudoctor.host import Refused
from npudoctor.host.live.local import LocalHost
from npudoctor.installing import conditions
LocalHost.about = property(lambda _: type("About", (), {"hostname": "n0003", "source": "live"}))
LocalHost.process_names = lambda _: frozenset({"slurmd"})
try:
    print(conditions.out_of_service(LocalHost(), unmanaged=True))
except Refused as why:
    print("refused:", why.reason)
"""


def test_driver_and_firmware_are_installed_on_a_node_that_slurm_has_drained(
    rig: Rig, cluster: dict[str, str], tmp_path: Path
) -> None:
    def asked() -> str:
        return rig.run(sys.executable, "-c", OUT_OF_SERVICE, environ=cluster).stdout

    def update(*words: str) -> None:
        rig.run("scontrol", "update", "NodeName=n0003", *words, environ=cluster)

    def state() -> str:
        return rig.run("scontrol", "-o", "show", "node", "n0003", environ=cluster).stdout

    assert asked() == "refused: Slurm has n0003 in service (IDLE); drain it and wait for its jobs\n"
    batch = tmp_path / "job"
    batch.write_text("#!/bin/sh\nsleep 600\n", encoding="utf-8")
    job = rig.run("sbatch", "--parsable", "-D", "/", "-o", "/dev/null", "-w", "n0003", str(batch), environ=cluster)
    wait_for(lambda: re.search("State=(ALLOC|MIX)", state()))
    update("State=DRAIN", "Reason=driver")
    assert asked().startswith("refused: Slurm has n0003 in service (")
    rig.run("scancel", job.stdout.strip(), environ=cluster)
    wait_for(lambda: "State=IDLE+DRAIN " in state())
    assert asked() == "Slurm: n0003 is IDLE+DRAIN\n"
    well = tmp_path / "npudoctor"
    well.write_text("#!/bin/sh\nexit 0\n", encoding="utf-8")
    well.chmod(0o755)
    interval = {**cluster, "NPUDOCTOR": str(well), "SLURMD_NODENAME": "n0003"}
    script = str(Path(npudoctor.__file__).parent / "deploy/slurm/healthcheck.sh")
    rig.run("bash", script, environ=interval)
    assert "State=IDLE+DRAIN " in state()
    update("State=RESUME")
    wait_for(lambda: "+DRAIN" not in state())
    update("State=DRAIN", "Reason=npudoctor-health: NPU 3")
    assert "which resumes it" in asked()
    rig.run("bash", script, environ=interval)
    assert "+DRAIN" not in state()


def test_the_lists_for_slurm_are_read_by_slurm(rig: Rig, cluster: dict[str, str]) -> None:
    from npudoctor.fleet.targets import fold

    names = ["n0001", "n0002", "n0004", "login"]
    said = rig.run("scontrol", "show", "hostnames", fold(names), environ=cluster)
    assert said.stdout.split() == names


def test_an_archive_is_installed_over_ssh_and_by_srun(
    rig: Rig, sshd: Path, cluster: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("install")
    folder.chmod(0o755)
    new = test_install.archive(folder, "1.1")
    old = test_install.archive(folder, "1.0")
    over_ssh = ("-w", "n0001,closed", "--ssh-config", str(sshd))
    # All names are this machine: the second one finds what the first one has installed, or that it is under way.
    by_srun = ("-w", "n[0003-0004]", "--engine", "slurm")
    for words, environ in ((over_ssh, {}), (by_srun, cluster)):
        prefix = folder / words[-1].rpartition("/")[2]
        for path in (old, new):
            code, said = rig.fleet("install", str(path), *words, "--prefix", str(prefix), "--yes", environ=environ)
            outcomes = {row["name"]: row["outcome"] for row in said["nodes"]}
            if words == over_ssh:
                assert (code, outcomes) == (3, {"n0001": "installed", "closed": "route"})
            else:
                assert (
                    set(outcomes.values()) <= {"installed", "present", "refused"} and "installed" in outcomes.values()
                )
            assert os.readlink(prefix / "current").startswith(f"releases/{path.name.removesuffix('.tar.gz')}-")


def test_a_head_that_is_killed_leaves_nothing_on_the_node(rig: Rig, sshd: Path, node_command: Path) -> None:
    run = rig.folder / "killed"
    words = ["-w", "hang", "--ssh-config", str(sshd), "--remote-command", str(node_command)]
    code = "from npudoctor.cli import console; console()"
    argv = [sys.executable, "-c", code, "fleet", "check", *words, "--timeout", "20", "--run", str(run)]
    null = subprocess.DEVNULL
    with subprocess.Popen(["ip", "netns", "exec", rig.name, *argv], stdout=null, stderr=null) as head:
        wait_for(lambda: running(f"86400.{os.getpid()}"))
        head.kill()
    wait_for(lambda: not running(f"86400.{os.getpid()}"))
    again = rig.fleet("check", "--run", str(run), "--timeout", "5")[1]
    assert (again["engine"], outcomes(again)) == ("clustershell", {"hang": "timed-out"})


def comparable(report: dict[str, Any]) -> Any:
    """What the engines must agree on: nodes, groups, and findings."""
    findings = [
        (result["check"], finding["summary"], finding["subject"])
        for result in report["report"]["results"]
        for finding in result["findings"]
    ]
    return report["nodes"], report["groups"], sorted(findings), report["exit_code"]


def test_all_engines_agree_on_the_same_nodes(
    rig: Rig, sshd: Path, cluster: dict[str, str], node_command: Path, tmp_path: Path
) -> None:
    names = f"n[0001-{NODES:04}]"
    remote = ("--remote-command", str(node_command), "--timeout", "300")
    reports = {
        "clustershell": rig.fleet("check", "-w", names, "--ssh-config", str(sshd), *remote)[1],
        "slurm": rig.fleet("check", "-w", names, "--engine", "slurm", *remote, environ=cluster)[1],
        "local": rig.fleet("check", "-w", names, "--simulate", str(rig.folder))[1],
    }
    drop(rig, [name_of(number) for number in range(1, NODES + 1)], tmp_path)
    reports["drop"] = rig.fleet("check", "-w", names, "--drop", str(tmp_path))[1]
    reference = comparable(reports["local"])
    assert reference[0] and any("24.1.0 (newer) on 1 node" in summary for _, summary, _ in reference[2])
    for name, report in reports.items():
        assert comparable(report) == reference, name


def drop(rig: Rig, names: Sequence[str], folder: Path) -> None:
    for name in names:
        code = "from npudoctor.cli import console; console()"
        argv = [sys.executable, "-c", code, "node", "--to", str(folder), "--name", name]
        subprocess.run([*argv, "--simulate", str(rig.folder / f"{name}.toml")], check=False, capture_output=True)
