"""`npudoctor setup` that installs: what it asks for, what it refuses in one line, and the way to READY."""

import argparse
import contextlib
import errno
import hashlib
import io
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from npudoctor import engine, plugins
from npudoctor.change_control import ChangeControl
from npudoctor.cli import main, packages, setup, setup_install, setup_node
from npudoctor.explain.causes import causes_in
from npudoctor.facts.node.running_containers import RunningContainer, RunningContainers
from npudoctor.facts.system.pci import PciCard, PciCards
from npudoctor.findings import Because, Finding, HostSummary, Report, Result, Severity, Status, Verdict
from npudoctor.fixer.journal import Journal
from npudoctor.host import Completed, Refused, Unavailable, User
from npudoctor.host.live.local import LocalHost
from npudoctor.installing import opening, proof, run
from npudoctor.installing.state import Node
from npudoctor.packages.plan import NO_WAY_BACK, Plan, PlanStep
from npudoctor.records import replace
from npudoctor.sdk import Options
from tests.packages import build

from .node import Tree, caller, node_of, package, times_run, tree

ALL = ("--only", "driver,firmware", "--expect", "driver=1,firmware=2", "--allow", "driver.install")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--simulate", "new-node", *ALL), "installed on the node itself only"),
        ((), "add --only driver,firmware"),
        (("--yes", "--only", "cann"), "add --only driver,firmware"),
        (("--yes", "--only", "driver"), "add --expect driver=VERSION"),
        (("--yes", "--only", "driver", "--expect", "driver=1"), "add --allow driver.install"),
        (("--yes", *ALL, "--irreversible"), "add --allow firmware.install"),
    ],
)
def test_what_is_not_named_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str
) -> None:
    assert main(["setup", "--packages", str(tmp_path), *words]) == 7
    told = capsys.readouterr()
    assert told.out == ""
    assert len(told.err.splitlines()) == 1 and told.err.startswith("npudoctor: refused: ")
    assert said in told.err


@pytest.mark.parametrize("option", ["--attach", "--resume"])
def test_where_nothing_is_installed_nothing_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    assert main(["setup", option, "--state", str(tmp_path)]) == 7
    assert len(capsys.readouterr().err.splitlines()) <= 2
    assert list(tmp_path.iterdir()) == []


def a_report(*results: Result) -> Report:
    return Report(
        tool_version="0",
        started_at="",
        duration_s=0.0,
        host=HostSummary(),
        profile="full",
        verdict=Verdict.OK,
        exit_code=0,
        role="full",
        in_service=None,
        environment="host",
        summary={},
        results=results,
    )


class Given:
    """A node below a folder, a plan for it, and what its checks find afterwards."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, does: str = "installs") -> None:
        self.options = Options()
        self.host, self.folder, self.wrong = tree(folder), folder, list[str]()
        files = {"driver": package(folder, "driver", "25.5.2", does)}
        files["firmware"] = package(folder, "firmware", "7.8.0.7.220")
        self.plan = Plan(steps=tuple(self._step(kind, path) for kind, path in files.items()))
        self.sums = {f"/repo/{path.name}": hashlib.sha256(path.read_bytes()).hexdigest() for path in files.values()}
        patch.setattr(setup_install, "open_this_machine", self._opened)
        patch.setattr(setup_node, "describe_node", self._described)
        patch.setattr(setup_node, "caller_of", lambda *_: self._caller())

    def _step(self, kind: str, path: Path) -> PlanStep:
        file = f"/repo/{path.name}"
        return PlanStep(
            id=f"{kind}.install",
            component=kind,
            title=f"NPU {kind}",
            now=None,
            then=path.stem.partition("-")[2],
            root=True,
            reboot="",
            way_back="uninstall.sh" if kind == "driver" else NO_WAY_BACK,
            command=f"bash {file} --nox11 --full --quiet --install-for-all",
            paths=(file,),
        )

    @contextlib.contextmanager
    def _opened(self, _: argparse.Namespace) -> Iterator[tuple[Tree, plugins.Catalog, Options]]:
        yield self.host, plugins.load(folder=""), self.options

    def _described(self, *_: object, unmanaged: bool) -> Node:
        return replace(node_of(self.host), unmanaged=unmanaged)

    def _caller(self) -> run.Caller:
        told = caller(self.host, [], self.wrong)
        return replace(told, say=setup_node.tell)

    def install(self, *findings: Finding, **changed: object) -> int:
        name = self.host.about.hostname
        given = {
            "irreversible": True,
            "unmanaged": True,
            "expect_host": name,
            "signed_by": None,
            "stop": [],
            "state": "/var/lib/npudoctor",
            **changed,
        }
        result = Result(
            check="install.su", title="su", status=Status.WARNING if findings else Status.OK, findings=tuple(findings)
        )
        report = a_report(result)
        return setup_install.install(argparse.Namespace(**given), self.plan, self.sums, report)

    def go_on(self, **how: bool) -> int:
        given = {"attach": False, "resume": False, "state": "/var/lib/npudoctor", **how}
        return setup_install.go_on(argparse.Namespace(**given))

    def statuses(self) -> list[str]:
        journal = Journal(self.host, "/var/lib/npudoctor")
        return [found.status for run in journal.runs() if (found := journal.status(run)) is not None]


def test_from_the_plan_over_the_reboot_to_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = Given(tmp_path, monkeypatch)
    assert given.install() == 1
    told = capsys.readouterr().out
    assert "out of service: no scheduler manages this node, as the person says\nplan: SHA-256 " in told
    assert told.endswith("NOT READY: reboot the node, then npudoctor setup --resume\n")
    with pytest.raises(Refused, match="waits for a reboot"):
        given.install()
    with pytest.raises(Refused, match="was not rebooted"):
        given.go_on(resume=True)
    given.host.boot = "33333333-3333-3333-3333-333333333333"
    assert given.go_on(resume=True) == 0
    assert capsys.readouterr().out.endswith("READY\n")
    assert given.statuses() == ["done"]
    assert (times_run(tmp_path, "driver"), times_run(tmp_path, "firmware")) == (1, 1)


def test_a_host_that_is_renamed_is_the_same_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = Given(tmp_path, monkeypatch)
    monkeypatch.setattr(setup_install, "_follow_log", lambda *_: 6)
    assert given.install() == 6
    monkeypatch.undo()
    renamed = replace(given.host.about, hostname="renamed")
    monkeypatch.setattr(Tree, "about", property(lambda _: renamed))
    given = Given(tmp_path, monkeypatch)
    with pytest.raises(Refused, match="runs, or was interrupted"):
        Journal(given.host).refuse_during_installation()
    with pytest.raises(Refused, match="has begun"):
        given.install()
    assert given.go_on(attach=True) == 1
    given.host.boot = "33333333-3333-3333-3333-333333333333"
    assert given.go_on(resume=True) == 0
    assert capsys.readouterr().out.endswith("READY\n")
    (tmp_path / "etc/machine-id").write_text("0" * 31 + "1\n", encoding="utf-8")
    assert Journal(given.host).elsewhere(Journal(given.host).runs()[0]) == os.uname().nodename


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"irreversible": False}, "has no way back: add --irreversible"),
        ({"expect_host": "another"}, "not another"),
        ({"expect_host": None}, "not a terminal: add --expect-host"),
        ({"unmanaged": False}, "neither Slurm nor Kubernetes|runs here"),
    ],
)
def test_without_one_of_the_words_nothing_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: dict[str, object], said: str
) -> None:
    given = Given(tmp_path, monkeypatch)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    with pytest.raises(Refused, match=said):
        given.install(**changed)
    assert given.statuses() == []
    assert times_run(tmp_path, "driver") == 0


def test_a_finding_before_the_installation_stands_against_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = Given(tmp_path, monkeypatch)
    with pytest.raises(Refused, match="su asks root"):
        given.install(Finding(summary="su asks root for a password", severity=Severity.WARNING))
    given.host.holders = ("python3 pid 9",)
    with pytest.raises(Refused, match="NPUs are held by python3 pid 9"):
        given.install()
    assert given.statuses() == []


def test_a_stopped_installation_gives_way_to_one_that_is_confirmed_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = Given(tmp_path, monkeypatch, "fails")
    assert given.install() == 6
    assert "INTERRUPTED at step 1: its installer ended with exit code 1\n" in capsys.readouterr().out
    for how in ("resume", "attach"):
        with pytest.raises(Refused, match="nothing goes on with it"):
            given.go_on(**{how: True})
    again = Given(tmp_path, monkeypatch)
    assert again.install() == 1
    assert again.statuses() == ["replaced", "waiting-for-reboot"]
    again.host.boot = "33333333-3333-3333-3333-333333333333"
    again.wrong = ["npu-smi does not answer"]
    assert again.go_on(resume=True) == 1
    assert capsys.readouterr().out.endswith("NOT READY: npu-smi does not answer\n")
    assert again.statuses() == ["replaced", "stopped"]
    again.wrong = []
    assert again.go_on(resume=True) == 0  # the same steps are verified once more, and none is repeated
    assert again.statuses() == ["replaced", "done"]
    assert (times_run(tmp_path, "driver"), times_run(tmp_path, "firmware")) == (2, 1)


def test_one_that_cannot_be_opened_leaves_the_one_before_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = Given(tmp_path, monkeypatch)
    given.wrong.append("NPU 1 is missing (npu.count)")
    assert given.install() == 1
    given.host.boot = "33333333-3333-3333-3333-333333333333"
    assert given.go_on(resume=True) == 1
    again = Given(tmp_path, monkeypatch)
    again.host.boot = given.host.boot
    path = next(iter(again.sums))
    (tmp_path / path.lstrip("/")).write_bytes(b"another")
    with pytest.raises(Refused, match="has changed"):
        again.install()
    assert again.statuses() == ["stopped", "stopped"]
    assert again.go_on(resume=True) == 0
    assert again.statuses() == ["done", "stopped"]
    assert capsys.readouterr().out.endswith("READY\n")


def test_after_a_reboot_an_interrupted_installation_is_resumed_not_attached_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = Given(tmp_path, monkeypatch)
    monkeypatch.setattr(setup_install, "_follow_log", lambda *_: 6)
    assert given.install() == 6
    with pytest.raises(Refused, match="has begun") as why:
        given.install()
    assert why.value.instead == "npudoctor setup --attach"
    monkeypatch.undo()
    given = Given(tmp_path, monkeypatch)
    given.host.boot = "33333333-3333-3333-3333-333333333333"
    with pytest.raises(Refused, match="was interrupted by a reboot: npudoctor setup --resume"):
        given.go_on(attach=True)
    with pytest.raises(Refused, match="has begun") as why:
        given.install()
    assert why.value.instead == "npudoctor setup --resume"
    assert given.statuses() == ["running"]


def outcome(capsys: pytest.CaptureFixture[str], act: Callable[[], int]) -> tuple[int, str]:
    """The exit code and the last line of a command."""
    try:
        code = act()
    except Refused as why:
        return 7, why.reason
    return code, capsys.readouterr().out.splitlines()[-1]


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_a_full_disk_is_said_in_the_last_line_and_with_space_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], every: int
) -> None:
    monkeypatch.setattr(run, "POLL_S", 0.02)
    given = Given(tmp_path / "whole", monkeypatch)
    given.install()
    endings = set()
    for number in range(1, given.host.operations, every):
        given = Given(tmp_path / str(number), monkeypatch)
        full_after(given, number)
        code, last = outcome(capsys, given.install)
        full_after(given, None)
        begun = last.startswith("INTERRUPTED at step ")
        endings.add(last.partition(":")[0].rstrip("12"))
        assert code == (6 if begun else 7) and (begun or "No space left on device" in last)
        if begun and given.statuses() == ["running"]:
            code, last = outcome(capsys, partial(given.go_on, attach=True))
        else:
            code, last = outcome(capsys, given.install)
        reboot = last == "NOT READY: reboot the node, then npudoctor setup --resume"
        assert code == (1 if reboot else 6) and (reboot or last.startswith("INTERRUPTED at step "))
        assert times_run(given.folder, "firmware") <= 1
    assert endings == {"the journal is not writable", "INTERRUPTED at step "}


def full_after(given: Given, operations: int | None) -> None:
    """The disk is full after so many changes; None: it has space again."""

    def count() -> None:
        given.host.operations += 1
        if operations is not None and given.host.operations >= operations:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    given.host.operations = 0
    given.host._count = count  # type: ignore[method-assign]


def test_a_disk_that_is_full_at_the_resume_is_no_reason_against_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = Given(tmp_path, monkeypatch)
    assert given.install() == 1
    given.host.boot = "33333333-3333-3333-3333-333333333333"
    full_after(given, 1)
    code, last = outcome(capsys, lambda: given.go_on(resume=True))
    assert (code, last.startswith("NOT READY: [Errno 28] No space left on device")) == (1, True)
    full_after(given, None)
    assert outcome(capsys, lambda: given.go_on(resume=True)) == (0, "READY")


def test_a_site_that_asks_for_a_reason_gets_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = Given(tmp_path, monkeypatch)
    given.options = Options(changes=ChangeControl(require_reason=True))
    with pytest.raises(Refused):
        given.install()
    assert given.statuses() == []


def test_in_a_container_nothing_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    build.a2_release(tmp_path)
    examined = packages.examine_node

    def inside(*given: Any) -> Any:
        node, report = examined(*given)
        return replace(node, in_container=True), report

    monkeypatch.setattr(packages, "examine_node", inside)
    monkeypatch.setattr(setup_install, "refuse_early", lambda *_: None)
    monkeypatch.setattr(setup_install, "install", lambda *_: pytest.fail("it began"))
    words = ("--only", "driver,firmware", "--expect", "driver=25.5.2,firmware=7.8.0.7.220")
    assert main(["setup", "--packages", str(tmp_path), "--simulate", "new-node", *words]) == 7
    assert "are installed on the host, not in a container" in capsys.readouterr().err


def test_no_other_option_is_passed_to_an_installer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = Given(tmp_path, monkeypatch)
    driver, firmware = given.plan.steps
    given.plan = replace(given.plan, steps=(replace(driver, command=f"{driver.command} --force"), firmware))
    with pytest.raises(Refused, match="npudoctor passes no --force"):
        given.install()
    assert given.statuses() == []


def test_a_container_or_a_virtual_machine_with_an_npu_stands_against_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = tree(tmp_path)
    card = PciCard(slot="0000:81:00.0", device="0xd802", family="910b")
    known: dict[type, object] = {PciCards: PciCards((card,)), RunningContainers: RunningContainers(())}
    monkeypatch.setattr(setup_node, "_gather_facts", lambda *_: known)

    def refused() -> str:
        with pytest.raises(Refused) as why:
            setup_node.free(plugins.load(folder=""), host, Options())
        return why.value.reason

    setup_node.free(plugins.load(folder=""), host, Options())
    folder = tmp_path / "sys/bus/pci/devices/0000:81:00.0"
    folder.mkdir(parents=True)
    (folder / "driver").symlink_to("../../../../bus/pci/drivers/vfio-pci")
    assert refused() == "NPUs are given to virtual machines (vfio-pci): 0000:81:00.0"
    (folder / "driver").unlink()
    one = RunningContainer(id="a" * 64, runtime="docker", pid=9, name="train", devices=("/dev/davinci0",), mounts={})
    known[RunningContainers] = RunningContainers((one,))
    assert refused().startswith("NPUs are given to running containers: train of docker")
    known[RunningContainers] = RunningContainers((replace(one, devices=None),))
    assert refused() == "the devices of container train of docker cannot be listed"
    known[RunningContainers] = RunningContainers((), unseen=2)
    assert refused() == "the devices of 2 containers are not known"
    known[RunningContainers] = Unavailable("no control groups")
    assert refused() == "the containers of this node are not known: no control groups"


def test_firmware_in_a_virtual_machine_and_a_bad_signature_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = Given(tmp_path, monkeypatch)
    dmi = tmp_path / "sys/class/dmi/id"
    dmi.mkdir(parents=True)
    (dmi / "sys_vendor").write_text("QEMU\n", encoding="utf-8")
    with pytest.raises(Refused, match="virtual machine"):
        given.install()
    (dmi / "sys_vendor").unlink()
    with pytest.raises(Refused, match="has no signature beside it"):
        given.install(signed_by="/etc/vendor.pem")
    assert given.statuses() == []


def test_an_installation_that_was_cut_off_before_its_first_step_is_ended_by_attach(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = Given(tmp_path, monkeypatch)
    monkeypatch.setattr(opening, "_copy", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        given.install()
    assert given.statuses() == ["running"]
    with pytest.raises(Refused, match="before its first step; nothing was changed"):
        given.go_on(attach=True)
    assert given.statuses() == ["stopped"]


def test_an_interrupt_while_the_log_is_followed_says_that_the_installer_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = Given(tmp_path, monkeypatch, "waits")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "follow", interrupt)
    assert given.install() == 130
    assert "an installer that has begun goes on" in capsys.readouterr().out
    assert given.go_on(attach=True) == 130
    assert "an installer that has begun goes on" in capsys.readouterr().out
    (tmp_path / "go").touch()
    monkeypatch.undo()
    assert Given(tmp_path, monkeypatch).go_on(attach=True) == 1


def test_a_terminal_that_is_gone_is_no_reason_against_a_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = Given(tmp_path, monkeypatch)

    def gone(_: str) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(setup_node, "write", gone)
    assert given.install() == 1
    assert given.statuses() == ["waiting-for-reboot"]


def test_where_another_changes_the_driver_nothing_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = Given(tmp_path, monkeypatch)
    off = tmp_path / "run/npudoctor/hands-off"
    off.parent.mkdir()
    off.write_text("firmware by hand\n", encoding="utf-8")
    with pytest.raises(Refused, match="maintenance: firmware by hand"):
        given.install()
    assert given.statuses() == []
    guard, asked = run.refuse_maintenance, iter((False, True))
    monkeypatch.setattr(run, "refuse_maintenance", lambda *them: guard(*them) if next(asked) else None)
    assert given.install() == 6  # written after the plan was confirmed
    assert "INTERRUPTED at step 1: maintenance: firmware by hand" in capsys.readouterr().out
    assert off.read_text(encoding="utf-8") == "firmware by hand\n"
    assert times_run(tmp_path, "driver") == 0


def test_a_check_whose_tool_does_not_answer_stands_against_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = Result(
        check="npu.ecc", title="ecc", status=Status.SKIPPED, because=Because.TIMED_OUT, reason="npu-smi did not answer"
    )
    done = engine.Done(report=a_report(result))
    monkeypatch.setattr(engine, "run", lambda *_, **__: [done])
    monkeypatch.setattr(setup_node, "_gather_facts", lambda *_: {})
    assert "npu-smi did not answer (npu.ecc)" in setup_node._find_problems(
        plugins.load(folder=""), tree(tmp_path), Options(), ()
    )


def test_the_causes_in_the_log_of_an_installer_are_said() -> None:
    said = causes_in("[Driver] [ERROR]Drv_dkms_env_check failed, details in : /var/log/x.log\n")
    assert said and "P069" in said[0]
    assert causes_in("all is well\n") == []


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("fix", "driver.install"), 7, "driver.install is only applied by setup, after its plan"),
        (("fix", "firmware.install", "--yes"), 7, "setup --packages FOLDER --only driver,firmware --dry-run"),
        (("setup", "--yes", "--allow", "driver.install"), 2, "--allow driver.install requires --packages FOLDER"),
        (("setup", "--irreversible"), 2, "--irreversible requires --packages FOLDER"),
        (("setup", "--attach", "--resume"), 2, "--attach stands alone"),
        (("setup", "--resume", "--packages", "/"), 2, "--resume stands alone"),
        (("setup", "--yes", "--resume", "--dry-run"), 2, "--resume has no preview and no JSON: omit --dry-run"),
        (("setup", "--attach", "--json"), 2, "--attach has no preview and no JSON: omit --json"),
    ],
)
def test_without_its_plan_it_is_refused_with_what_to_do(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], code: int, said: str
) -> None:
    assert main([*words]) == code
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("boot", "state_of", "wrong"),
    [
        ("boot status:16\nboot status:16\n", "idle\nidle\n", []),
        ("boot status:16\nboot status:2\n", "idle\n", ["boot status of 1 devices: 2, not 16"]),
        (
            "boot status:16\n",
            "{device 0: waitting_restart}\n{device 1: waitting_restart}\n",
            ["state of 2 devices: waitting_restart, not idle"],
        ),
        ("not supported\n", "\n", []),
    ],
)
def test_what_the_upgrade_tool_says_is_part_of_the_proof(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, boot: str, state_of: str, wrong: list[str]
) -> None:
    host = tree(tmp_path)
    answers = {"--boot_status": boot, "--status": state_of}
    monkeypatch.setattr(host, "run", lambda argv, **_: Completed(returncode=0, stdout=answers[argv[-1]]))
    assert proof.unfinished_upgrades(host) == wrong


@pytest.mark.parametrize("option", ["--attach", "--resume"])
def test_a_tree_below_root_is_not_gone_on_with(tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str) -> None:
    assert main(["setup", option, "--root", str(tmp_path)]) == 7
    assert "an installation is of the node itself only" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_another_user_than_root_installs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = User(name="plain", uid=1000, gid=1000, groups=())
    monkeypatch.setattr(LocalHost, "user", property(lambda _: plain))
    with pytest.raises(Refused, match="only root installs driver and firmware") as why, setup_install._Node(parsed()):
        pass
    assert why.value.instead == "sudo"


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    setup.configure(parser)
    return parser.parse_args(["--attach"])
