"""A node that a scheduler has in service is not changed, and one that cannot be asked is none that answers."""

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from npudoctor.host import Completed, Refused
from npudoctor.host.live.local import LocalHost
from npudoctor.installing import conditions
from tests.plain_user import ALICE, as_root

from .node import Tree, tree


class Asked(Tree):
    """A node with answers of scontrol and kubectl."""

    answers: dict[str, Completed]

    def which(self, name: str) -> str | None:
        return f"/usr/bin/{name}" if name in self.answers else None

    def run(self, argv: Sequence[str], *, timeout: float = 1.0) -> Completed:
        assert tuple(argv[:2]) in (("scontrol", "show"), ("kubectl", "get"), ("systemd-detect-virt", "--vm"))
        return self.answers[argv[0]]


def node(folder: Path, answers: Mapping[str, str | tuple[int, str]], names: Sequence[str] = ()) -> Asked:
    tree(folder)
    host = Asked(root=str(folder))
    given = {tool: (0, one) if isinstance(one, str) else one for tool, one in answers.items()}
    host.answers = {tool: Completed(returncode=code, stdout=text) for tool, (code, text) in given.items()}
    host.names = frozenset({"sh", *names})
    return host


NAME = os.uname().nodename.lower()


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ({"scontrol": "NodeName=a State=IDLE+DRAIN ThreadsPerCore=1"}, "Slurm: .* is IDLE.DRAIN"),
        ({"scontrol": "   State=DOWN+DRAIN+NOT_RESPONDING"}, "Slurm: "),
        ({"kubectl": f"{NAME} true"}, "Kubernetes: .* is cordoned"),
        ({"scontrol": "State=IDLE+DRAIN", "kubectl": f"{NAME} true"}, "Slurm: .*, Kubernetes: "),
    ],
)
def test_a_drained_node_is_out_of_service(tmp_path: Path, answers: dict[str, str], said: str) -> None:
    assert re.match(said, conditions.out_of_service(node(tmp_path, answers), unmanaged=False))


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ({"scontrol": "State=IDLE"}, "in service \\(IDLE\\)"),
        ({"scontrol": "State=MIXED+DRAIN"}, "in service"),
        ({"scontrol": "State=ALLOCATED+DRAIN"}, "in service"),
        ({"scontrol": "State=DRAINING"}, "in service"),
        ({"scontrol": "State=COMPLETING+DRAIN"}, "in service"),
        ({"scontrol": "State=IDLE+DRAIN+REBOOT_ISSUED"}, "in service"),
        ({"scontrol": "State=IDLE+DRAIN+POWERING_DOWN"}, "in service"),
        ({"scontrol": "State=IDLE+DRAIN\n   Reason=npudoctor-health: NPU 3 [root@now]"}, "which resumes it"),
        ({"kubectl": f"{NAME} "}, "Kubernetes has"),
        ({"scontrol": "State=IDLE+DRAIN", "kubectl": f"{NAME} false"}, "Kubernetes has"),
    ],
)
def test_a_node_in_service_is_refused_whatever_the_person_says(
    tmp_path: Path, answers: dict[str, str | tuple[int, str]], said: str
) -> None:
    with pytest.raises(Refused, match=said):
        conditions.out_of_service(node(tmp_path, answers), unmanaged=True)


def test_without_a_scheduler_the_person_says_so(tmp_path: Path) -> None:
    unknown: dict[str, str | tuple[int, str]] = {
        "scontrol": (1, f"Node {NAME} not found"),
        "kubectl": (1, "The connection to the server was refused"),
    }
    neither: dict[str, str | tuple[int, str]] = {}
    for answers in (neither, unknown):
        with pytest.raises(Refused, match="add --unmanaged"):
            conditions.out_of_service(node(tmp_path, answers), unmanaged=False)
        assert "as the person says" in conditions.out_of_service(node(tmp_path, answers), unmanaged=True)


def test_slurm_that_does_not_answer_is_no_word_for_it(tmp_path: Path) -> None:
    silent: dict[str, str | tuple[int, str]] = {
        "scontrol": (1, "slurm_load_node error: Unable to contact slurm controller")
    }
    with pytest.raises(Refused, match="does not say whether"):
        conditions.out_of_service(node(tmp_path, silent), unmanaged=False)
    with pytest.raises(Refused, match="slurmd runs here"):
        conditions.out_of_service(node(tmp_path, silent, ["slurmd"]), unmanaged=True)


@pytest.mark.parametrize("name", ["slurmd", "kubelet"])
def test_a_scheduler_that_runs_here_and_does_not_answer_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(Refused, match=f"{name} runs here"):
        conditions.out_of_service(node(tmp_path, {}, [name]), unmanaged=True)


def test_a_process_with_a_device_open_is_found(tmp_path: Path) -> None:
    path = tmp_path / "davinci0"
    host = LocalHost(root=str(tmp_path))
    with path.open("w"):
        assert host.holding(re.escape(str(path))) == ()  # no device
    with open("/dev/zero", "rb"):
        assert any(f"pid {os.getpid()}" in one for one in host.holding("/dev/zero"))
    assert not any(f"pid {os.getpid()}" in one for one in host.holding("/dev/zero"))
    assert re.fullmatch(conditions.DEVICES, "/dev/davinci_manager")
    assert re.fullmatch(conditions.DEVICES, "/dev/davinci11")
    assert not re.fullmatch(conditions.DEVICES, "/dev/dav")


@pytest.mark.parametrize(
    ("answers", "vendor"), [({"systemd-detect-virt": "kvm\n"}, ""), ({}, "QEMU"), ({}, "VMware, Inc.")]
)
def test_firmware_of_a_virtual_machine_is_refused(
    tmp_path: Path, answers: dict[str, str | tuple[int, str]], vendor: str
) -> None:
    host = node(tmp_path, answers)
    (tmp_path / "sys/class/dmi/id").mkdir(parents=True)
    (tmp_path / "sys/class/dmi/id/sys_vendor").write_text(f"{vendor}\n", encoding="utf-8")
    with pytest.raises(Refused, match="is a virtual machine"):
        conditions.must_be_physical(host)


def test_a_physical_machine_is_none(tmp_path: Path) -> None:
    host = node(tmp_path, {"systemd-detect-virt": (1, "none\n")})
    (tmp_path / "sys/class/dmi/id").mkdir(parents=True)
    (tmp_path / "sys/class/dmi/id/sys_vendor").write_text("Huawei\n", encoding="utf-8")
    conditions.must_be_physical(host)


@as_root
def test_a_user_s_process_of_the_name_or_variable_counts_for_nothing(open_folder: Path) -> None:
    program = open_folder / f"slurmd{os.getpid()}"  # a machine may run Slurm
    shutil.copy("/bin/sleep", program)
    host, mark = LocalHost(), f"TMPDIR={open_folder}/tmp"
    words, environ = [str(program), "60"], {"TMPDIR": f"{open_folder}/tmp"}
    for uid in (ALICE, 0):
        with subprocess.Popen(words, env=environ, user=uid, group=uid, extra_groups=[]) as process:
            try:
                assert (program.name in host.process_names()) is (uid == 0)
                assert host.processes_with(mark) == (() if uid else (process.pid,))
            finally:
                process.kill()


@as_root
def test_another_device_at_the_path_of_an_npu_is_none(tmp_path: Path) -> None:
    script = "mount -t tmpfs none /dev && : >/dev/davinci0 && exec 3</dev/davinci0 && echo open && sleep 60"
    words = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=tmp_path, start_new_session=True) as process:
        try:
            if process.stdout is None or process.stdout.readline() != "open\n":
                pytest.skip("no user namespace with a mount here")
            assert not any(f"pid {process.pid}" in one for one in LocalHost().holding(conditions.DEVICES))
        finally:
            os.killpg(process.pid, signal.SIGKILL)
