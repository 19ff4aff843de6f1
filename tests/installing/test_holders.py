"""Holders of the driver: stopped by name with consent, started again after the proof, and older containers listed."""

import os
from pathlib import Path

import pytest

from npudoctor.facts.node.running_containers import RunningContainer
from npudoctor.fixer.journal import Journal, RunRecord, now
from npudoctor.host import Completed, Refused
from npudoctor.installing import conditions, holders, opening, run, state
from npudoctor.installing.state import Holder
from npudoctor.records import replace

from .node import Tree, installation, node_of, package, step, tree

EXPORTER = Holder(
    name="npu-exporter.service",
    stop=("systemctl", "stop", "npu-exporter.service"),
    start=("systemctl", "start", "npu-exporter.service"),
)


class Node(Tree):
    """A node whose unit npu-exporter.service holds an NPU until it is stopped."""

    ran: list[str]
    refuses = ""

    def run_streaming(self, argv, **how):  # type: ignore[no-untyped-def]
        if argv[0] not in ("systemctl", "docker"):
            return super().run_streaming(argv, **how)
        self.ran.append(" ".join(argv))
        if self.refuses and self.refuses in argv:
            return Completed(returncode=1, stderr=f"Failed to {argv[1]} {argv[2]}: Unit is masked.")
        if argv[1] == "stop":
            self.holders = ()
        return Completed(returncode=0)


@pytest.fixture(autouse=True)
def _brisk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "POLL_S", 0.02)
    monkeypatch.setattr(run, "LET_GO_S", 0.0)


def held(folder: Path, cgroup: str = "0::/system.slice/npu-exporter.service") -> Node:
    tree(folder)
    host = Node(root=str(folder))
    host.ran = []
    host.holders = ("npu-exporter pid 4711",)
    (folder / "proc/4711").mkdir(parents=True)
    (folder / "proc/4711/cgroup").write_text(f"{cgroup}\n", encoding="utf-8")
    return host


def begun(host: Node, folder: Path, does: str = "installs", **containers: str) -> tuple[Journal, str]:
    journal = Journal(host, "/var/lib/npudoctor")
    journal.prepare()
    record = RunRecord(
        id=journal.new_name("setup.packages"),
        fix="driver.install",
        title="NPU driver",
        params="{}",
        by="root (uid 0)",
        started_at=now(),
        effect="reboot",
        preview=(),
        host=host.about.hostname,
        machine_id=journal.machine_id,
    )
    steps = [step(host, package(folder, "driver", "25.5.2", does))]
    opening.open_run(journal, record, node_of(host), steps, [EXPORTER], containers)
    return journal, record.id


def test_it_is_stopped_before_and_started_after_the_proof(tmp_path: Path) -> None:
    host, said = held(tmp_path), list[str]()
    journal, id = begun(host, tmp_path)
    assert host.ran == []
    assert installation(host, journal, id, said).go_on() == run.READY
    assert host.ran == ["systemctl stop npu-exporter.service", "systemctl start npu-exporter.service"]
    assert said.index("stopping npu-exporter.service, as consented: systemctl stop npu-exporter.service") == 0


def test_after_a_reboot_it_is_started_once_the_proof_is_there(tmp_path: Path) -> None:
    host = held(tmp_path)
    journal, id = begun(host, tmp_path, "reboots")
    assert installation(host, journal, id, []).go_on().startswith("NOT READY: reboot")
    assert host.ran == ["systemctl stop npu-exporter.service"]
    host.boot = "22222222-2222-2222-2222-222222222222"
    assert installation(host, journal, id, []).resume(node_of(host)) == run.READY
    assert host.ran[1:] == ["systemctl start npu-exporter.service"]


def test_without_the_proof_it_stays_stopped_and_that_is_said(tmp_path: Path) -> None:
    host, said = held(tmp_path), list[str]()
    journal, id = begun(host, tmp_path, "fails")
    assert installation(host, journal, id, said).go_on().startswith("INTERRUPTED at step 1")
    assert host.ran == ["systemctl stop npu-exporter.service"]
    assert "  stopped, and started again only after the proof: systemctl start npu-exporter.service" in said


def test_what_does_not_stop_or_start_is_said(tmp_path: Path) -> None:
    host = held(tmp_path / "stop")
    host.refuses = "stop"
    journal, id = begun(host, tmp_path / "stop")
    line = installation(host, journal, id, []).go_on()
    assert line.startswith("INTERRUPTED at step 1: npu-exporter.service was not stopped: Failed to stop")
    assert not (tmp_path / "stop/ran-driver").exists()
    host = held(tmp_path / "start")
    host.refuses = "start"
    journal, id = begun(host, tmp_path / "start")
    assert "does not start: Failed to start" in installation(host, journal, id, []).go_on()
    status = journal.status(id)
    assert status is not None and status.status == "stopped"


def test_what_was_stopped_before_a_step_that_was_not_begun_is_said(tmp_path: Path) -> None:
    host, said = held(tmp_path), list[str]()
    journal, id = begun(host, tmp_path)
    going_on = installation(host, journal, id, said)
    going_on.caller = replace(going_on.caller, free=lambda: conditions.refuse_holders(["python3 pid 9"]))
    assert going_on.go_on().endswith("; it was not begun")
    assert host.ran == ["systemctl stop npu-exporter.service"]
    assert "  stopped, and started again only after the proof: systemctl start npu-exporter.service" in said
    assert "  nothing was changed" not in said


def test_containers_of_before_are_to_be_recreated(tmp_path: Path) -> None:
    host, said = held(tmp_path), list[str]()
    journal, id = begun(host, tmp_path, a="train/job-0 (worker)", b="gone")
    host.containers = {"a": "train/job-0 (worker)", "c": "new"}
    installation(host, journal, id, said).go_on()
    assert "older than this driver, and to be recreated: train/job-0 (worker)" in said


ID = "0123456789ab" + "0" * 52


def container(runtime: str = "docker", pod: str | None = None) -> RunningContainer:
    return RunningContainer(id=ID, runtime=runtime, pid=9, name="vllm", pod=pod, devices=("/dev/davinci0",), mounts={})


def test_only_what_is_named_and_holds_an_npu_may_be_stopped(tmp_path: Path) -> None:
    host = held(tmp_path)
    assert holders.confirmed_holders(host, ["npu-exporter.service"], []) == (EXPORTER,)
    assert holders.others(host, (EXPORTER,)) == []
    assert holders.others(host, ()) == ["npu-exporter pid 4711 (unit npu-exporter.service)"]
    (one,) = holders.confirmed_holders(host, ["vllm"], [container()])
    assert (one.stop, one.start) == (("docker", "stop", ID), ("docker", "start", ID))
    for name, of, why in (
        ("cron.service", container(), "holds no NPU"),
        ("docker.service", container(), "others depend on it"),
        ("kubelet.service", container(), "others depend on it"),
        ("vllm", container("containerd", "train/job-0"), "stops no pod"),
        ("--now", container(), "holds no NPU"),
    ):
        with pytest.raises(Refused, match=why):
            holders.confirmed_holders(host, [name], [of])


def test_a_process_in_a_stopped_container_is_no_other(tmp_path: Path) -> None:
    host = held(tmp_path, f"0::/system.slice/docker-{ID}.scope")
    (one,) = holders.confirmed_holders(host, ["vllm"], [container()])
    assert holders.others(host, (one,)) == []


def test_a_journal_that_names_no_holders_is_read(tmp_path: Path) -> None:
    host = held(tmp_path)
    journal, id = begun(host, tmp_path)
    os.remove(host.outside(journal.archive(id, state.HOLDERS)))
    assert state.holders(journal, id) == ((), {})
