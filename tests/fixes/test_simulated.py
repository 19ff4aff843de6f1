"""Every fix on a simulated node: previewed, applied, proved, undone; undo takes all of it back, twice is once."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npudoctor import plugins
from npudoctor.fixer import plan, runner, serialise
from npudoctor.fixer.plan import FixPlan, Request
from npudoctor.fixer.runner import Ended, Outcome
from npudoctor.host.simulated.host import SimulatedHost
from npudoctor.sdk import KeepPackages, Options
from npudoctor.sim import hccn, machine, scenario
from npudoctor.steps.files import FileMetadata, WriteFile
from npudoctor.testing import run
from tests.fixes import predicted
from tests.nodes import labels

DEV = {"name": "dev", "uid": 1007, "groups": {"dev": 1007}}
ORPHAN = {"pid": 4711, "npu": 2, "memory_mb": 3000, "command": "python3 train.py --local-rank=1"}
TRITON = {"triton": "3.2.0", "triton-ascend": "3.2.0"}
DAEMON = '{\n  "log-driver": "journald",\n  "runtimes": {\n    "crun": {"path": "/usr/bin/crun"}\n  }\n}'
SYSCTL = "/etc/sysctl.d/99-npudoctor-hccl.conf"

TABLE = "host,device,address,netmask,gateway,netdetect\n" + "".join(
    f"{name},{device},10.9.{net}.{10 + device},255.255.254.0,10.9.{net}.1,10.9.{net}.1\n"
    for net, name in ((2, "n1"), (4, "n2"))
    for device in range(7)
)
CASES: dict[str, tuple[dict[str, Any], str, dict[str, Any] | None]] = {
    "reserve": ({"sysctl": {"net.ipv4.ip_local_reserved_ports": "8080,9000-9010"}}, "hccl.reserve-ports", None),
    "reserve-in-sysctl.conf": (
        {
            "sysctl": {"net.ipv4.ip_local_reserved_ports": ""},
            "files": {"/etc/sysctl.conf": "# ours\nnet.ipv4.ip_local_reserved_ports = 5\nvm.swappiness = 1"},
        },
        "hccl.reserve-ports",
        None,
    ),
    "profile": ({"cann": {"sourced": False}}, "env.profile", None),
    "profile-of-latin-1": (
        {"cann": {"sourced": False}, "files": {"/root/.bashrc": "alias l='ls'", "/root/.profile": "# mine\r\n"}},
        "env.profile",
        None,
    ),
    "profile-unset": ({"environ": {"HCCL_CONNECT_TIMEOUT": "abc"}}, "env.profile", None),
    "profile-system": ({"cann": {"sourced": False}}, "env.profile", {"scope": "system"}),
    "profile-conda": ({"cann": {"sourced": False}}, "env.profile", {"scope": "python"}),
    "profile-fish": ({}, "env.profile", {"scope": "file", "path": "/root/npu.fish", "shell": "fish"}),
    "profile-user": ({"cann": {"sourced": False}, "user": DEV}, "env.profile", None),
    "profile-without-a-line": (
        {"environ": {"RANK": "3"}, "files": {"/root/.profile": "# mine\nexport RANK=3\numask 022\n"}},
        "env.profile",
        None,
    ),
    "profile-repaired": ({"environ": {"LD_LIBRARY_PATH": "/opt/openmpi/lib"}}, "env.profile", None),
    "limits": ({"limits": {"nofile": [1024, 4096]}}, "system.limits", None),
    "shm": ({"shm_gib": 0.0625}, "system.shm", None),
    "tls": ({"card": [{"id": 3, "tls": 1}]}, "npu.tls-off", None),
    "address": ({"files": {"/root/t.csv": TABLE}}, "npu.address", {"table": "/root/t.csv", "host": "n1"}),
    "access": ({}, "driver.grant-access", {"user": "dev", "group": "HwHiAiUser"}),
    "pair": ({"python": {"torch": "2.5.1", "torch_npu": "2.6.0"}}, "python.install-pair", None),
    "packages": ({"python": {"packages": {"sympy": ""}}}, "python.install-packages", {"packages": ["sympy==1.12"]}),
    "switch": ({"cann": {"linked": "8.0.0"}}, "cann.switch", None),
    "modulefile": (
        {"cann": {"version": "8.5.0"}},
        "cann.switch",
        {"to": "/usr/local/Ascend/cann", "modulefile": "/opt/m/cann/8.5"},
    ),
    "runtime": (
        {"files": {"/usr/local/bin/ascend-docker-runtime": "#!", "/etc/docker/daemon.json": DAEMON}},
        "container.runtime",
        {"path": "/usr/local/bin/ascend-docker-runtime", "default": True},
    ),
    "triton": ({"python": {"packages": TRITON}}, "python.install-packages", None),
}
NOT_HERE = {
    "npu.release": "test_a_process_is_ended_only_on_a_word_of_its_own",
    "system.clean-logs": "tests/fixes/test_real.py: real files have an age",
    "env.visible-devices": "test_the_list_of_a_job_is_printed_and_no_file_is_changed",
    "container.run-command": "test_how_a_container_is_started_is_said_and_nothing_changed",
    "driver.user": "tests/fixes/test_driver_user.py: a simulated node has that user",
    "python.create": "tests/fixes/test_python_create.py, and on a labelled node test_every_offer_resolves.py",
    "system.packages": "tests/fixes/test_system_packages.py: a simulated node has no package manager",
    "cann.install": "tests/fixes/test_cann_install.py: from a folder of packages",
    "service.install": "tests/deploy/test_service.py",
    "service.remove": "tests/deploy/test_service.py",
}
CATALOG = plugins.load(folder="")


def node(**said: Any) -> SimulatedHost:
    return machine.build(scenario.parse({"product": "atlas-800t-a2-910b3", **said}, "test"), "test")


def inside(host: SimulatedHost) -> Any:
    return host._machine


def files(host: SimulatedHost) -> dict[str, tuple[str, int | None, bytes]]:
    """All files but the journal's: kind, mode, content."""
    found: dict[str, tuple[str, int | None, bytes]] = {}
    for path, kind in host.tree.walk():
        mine = path.startswith(("/var/lib/npudoctor", "/home/dev/.local", "/proc/"))
        if not mine and path not in ("/var/lib", "/var"):
            about = host.tree.stat(path) if kind != "link" else None
            content = host.tree.read_bytes(path) if kind == "file" and about and "r" in about.access else b""
            content = (host.tree.read_link(path) or "").encode() if kind == "link" else content
            found[path] = (kind, about.mode if about else None, content)
    return found


def values(host: SimulatedHost) -> dict[str, str]:
    """What a preview shows as old → new, by its name."""
    inner = inside(host)
    group = next(line for line in host.read("/etc/group").splitlines() if line.startswith("HwHiAiUser:"))
    return {
        **dict(inner._node.sysctl),
        "/dev/shm": f"{inner._node.shm_bytes >> 20} MiB",
        "group HwHiAiUser": ", ".join(group.split(":")[3].split(",")),
        **dict(inner._target.packages),
    }


def state(host: SimulatedHost) -> dict[str, Any]:
    """All that can be changed on a simulated node, without the journal."""
    inner = inside(host)
    owners = {path: host.tree.stat(path) for path, (kind, _, _) in files(host).items() if kind != "link"}
    return {
        "files": files(host),
        "owners": {path: (about.uid, about.gid) for path, about in owners.items()},
        "sysctl": dict(inner._node.sysctl),
        "shm": inner._node.shm_bytes,
        "tls": [chip.tls for chip in inner._node.chips],
        "ports": [
            (chip.address, chip.netmask, hccn.gateway_of(chip), hccn.detect_address(chip)) for chip in inner._node.chips
        ],
        "processes": sorted(inner._node.processes),
        "packages": dict(inner._target.packages),
    }


def planned(host: SimulatedHost, id: str, params: dict[str, Any] | None) -> FixPlan:
    return plan.make(CATALOG, host, Request(id, params), Options())


def applied(host: SimulatedHost, made: FixPlan, *, irreversible: bool = False) -> Ended:
    *_, last = runner.apply(CATALOG, host, made, Options(), irreversible=irreversible)
    assert isinstance(last, Ended)
    return last


def undone(host: SimulatedHost, *, force: bool = False) -> Ended:
    *_, last = runner.undo(host, force=force)
    assert isinstance(last, Ended)
    return last


def test_no_fix_is_left_out() -> None:
    assert CATALOG.fixes.keys() <= {id for _, id, _ in CASES.values()} | NOT_HERE.keys()


@pytest.mark.parametrize("name", CASES)
def test_what_is_applied_is_what_was_shown_and_undo_leaves_no_trace(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    said, id, params = CASES[name]
    host = node(**said)
    before = state(host)
    shown = predicted.Node(files(host), values(host))
    made = planned(host, id, params)
    assert (made.refused, made.obstacle) == (None, None)
    assert state(host) == before
    ran: list[str] = []
    act = type(inside(host)).act

    def watched(self: Any, argv: Any) -> Any:
        ran.append(" ".join(argv))
        return act(self, argv)

    monkeypatch.setattr(type(inside(host)), "act", watched)
    ended = applied(host, made)
    assert ended.outcome is Outcome.APPLIED, ended
    assert state(host) != before
    shown.apply(made.preview)
    if name == "access":
        shown.files["/etc/group"] = files(host)["/etc/group"]  # shown as a change of members, not as one of a file
    assert shown.files == files(host)
    there = {name: value for name, value in shown.values.items() if value not in ("removed", "")}
    assert there == {name: value for name, value in values(host).items() if value}
    own = re.compile(r"\S+python\S* .*npudoctor-packages.py |mount |/usr/sbin/usermod ")  # shown as what they change
    assert [one for one in ran if not own.match(one)] == shown.commands
    again = planned(host, id, made.params if params is None else params)  # type: ignore[arg-type]
    assert (again.refused, again.empty) == (None, True)
    assert undone(host).outcome is Outcome.UNDONE
    assert state(host) == before


@pytest.mark.parametrize("name", CASES)
def test_what_fails_in_its_last_step_is_undone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    said, id, params = CASES[name]
    host = node(**said)
    before = state(host)
    made = planned(host, id, params)
    last = made.steps[-1].step
    real = type(last).apply

    def failing(self: Any, host: Any) -> None:
        real(self, host)
        if self == last or isinstance(last, KeepPackages):
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(type(last), "apply", failing)
    ended = applied(host, made)
    assert (ended.outcome, ended.reason) == (Outcome.ROLLED_BACK, "[Errno 5] Input/output error")
    assert state(host) == before


@pytest.mark.parametrize("name", [name for name in CASES if name not in ("triton", "access")])
def test_what_does_not_help_is_undone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps that say that they were done, and change nothing; where no check could tell, nothing is claimed."""
    said, id, params = CASES[name]
    host = node(**said)
    made = planned(host, id, params)
    for one in made.steps:
        monkeypatch.setattr(type(one.step), "apply", lambda self, host: None)
    ended = applied(host, made)
    if made.aims and not made.unproved:
        assert (ended.outcome, ended.remaining != ()) == (Outcome.ROLLED_BACK, True)
        assert ended.reason == f"the problem is still there: {ended.remaining[0].summary}"
    else:
        assert "not verified" in ended.reason or "applied" in ended.reason


def test_a_reservation_is_united_with_what_was_reserved() -> None:
    host = node(sysctl={"net.ipv4.ip_local_reserved_ports": "8080,9000-9010"})
    assert applied(host, planned(host, "hccl.reserve-ports", None)).outcome is Outcome.APPLIED
    assert host.read("/proc/sys/net/ipv4/ip_local_reserved_ports") == "8080,9000-9010,60000-60031\n"
    assert "8080,9000-9010: reserved before" in host.read(SYSCTL)


@pytest.mark.parametrize(
    ("packages", "named"),
    [
        ({"vllm": "0.9.1", "vllm-ascend": "0.9.1"}, True),
        ({"vllm": "0.13.0", "vllm-ascend": "0.13.0"}, False),  # it does not fit the pair that is here either
        ({"verl": "0.1"}, False),
        ({}, False),
    ],
)
def test_the_framework_that_a_new_pair_does_not_suit_is_named(packages: dict[str, str], named: bool) -> None:
    host = node(cann={"version": "8.5.0"}, python={"packages": packages})
    made = planned(host, "python.install-pair", {"torch": "2.8.0", "torch_npu": "2.8.0.post2"})
    said = [note for note in made.notes if note.startswith("vLLM Ascend 0.9.1 is published with the torch")]
    assert [("--for vllm-ascend=0.9.1" in note) for note in said] == ([True] if named else [])


def test_a_node_that_changed_since_the_preview_is_left_alone() -> None:
    host = node(sysctl={"net.ipv4.ip_local_reserved_ports": ""})
    made = planned(host, "hccl.reserve-ports", None)
    host.set_sysctl("net.ipv4.ip_local_reserved_ports", "5")
    before = state(host)
    ended = applied(host, made)
    assert (ended.outcome, "changed since" in ended.reason) == (Outcome.REFUSED, True)
    assert state(host) == before


def test_a_file_that_a_person_edited_is_not_undone_without_force() -> None:
    host = node(sysctl={"net.ipv4.ip_local_reserved_ports": ""})
    before = state(host)
    applied(host, planned(host, "hccl.reserve-ports", None))
    host.write_file(SYSCTL, host.read(SYSCTL).encode() + b"# mine\n")
    ended = undone(host)
    assert (ended.outcome, "-# mine" in ended.reason) == (Outcome.REFUSED, True)
    assert ended.instead is not None
    assert ended.instead.endswith("--force")
    assert undone(host, force=True).outcome is Outcome.UNDONE
    assert state(host) == before


def test_without_the_right_it_is_refused_before_the_first_step() -> None:
    host = node(user=DEV, sysctl={"net.ipv4.ip_local_reserved_ports": ""})
    before = state(host)
    ended = applied(host, planned(host, "hccl.reserve-ports", None))
    assert (ended.outcome, ended.instead) == (Outcome.REFUSED, "sudo")
    assert state(host) == before


def test_a_process_is_ended_only_on_a_word_of_its_own() -> None:
    host = node(process=[ORPHAN])
    made = planned(host, "npu.release", {"pids": [4711]})
    assert (made.irreversible, applied(host, made).instead) == (True, "--irreversible")
    assert applied(host, made, irreversible=True).outcome is Outcome.APPLIED
    assert not any(row["pid"] == 4711 for row in host.measure("processes"))
    assert undone(host).outcome is Outcome.REFUSED


def test_a_process_of_another_user_or_a_new_one_under_its_number_is_left_alone() -> None:
    host = node(process=[{**ORPHAN, "user": "other"}])
    made = planned(host, "npu.release", {"pids": [4711]})
    ended = applied(host, made, irreversible=True)
    assert (ended.outcome, "left alone" in ended.reason) == (Outcome.REFUSED, True)
    assert any(row["pid"] == 4711 for row in host.measure("processes"))
    host = node(process=[ORPHAN])
    made = planned(host, "npu.release", {"pids": [4711]})
    inside(host)._node.processes[4711].started += 10
    assert applied(host, made, irreversible=True).outcome is Outcome.REFUSED
    assert any(row["pid"] == 4711 for row in host.measure("processes"))


def test_how_a_container_is_started_is_said_and_nothing_changed() -> None:
    host = node()
    made = planned(host, "container.run-command", {"devices": ["/dev/davinci0", "/dev/davinci_manager"]})
    assert (made.refused, made.steps) == (None, ())
    assert all(any(word in note for note in made.notes) for word in ("docker run", "services:", "kind: Pod"))
    for bad in ("/dev/../etc/shadow", "/dev/davinci0;id", "davinci0"):
        assert planned(host, "container.run-command", {"devices": [bad]}).refused is not None


def test_each_running_container_gets_the_command_of_its_own_npus() -> None:
    host = node(**labels.read(labels.FOLDER / "containers-that-lack-files.toml").said["node"])
    found = plan.offers(run(host, "containers.complete"))["container.run-command"]
    made = planned(host, "container.run-command", plan.merge_params(offer for _, one in found if (offer := one.fix)))
    told = {note.split(",")[0]: set(re.findall(r"(\w+) run|/dev/davinci(\d)", note)) for note in made.notes}
    assert told == {
        "for vllm-serve": {("docker", ""), ("", "4"), ("", "5")},
        "for c1d52e13f0c9": {("podman", ""), ("", "6")},
    }
    assert planned(host, "container.run-command", {"containers": ["gone"]}).refused is not None


@pytest.mark.parametrize(
    ("runtime", "engine"),
    [("docker", "docker"), ("podman", "podman"), ("containerd", "nerdctl"), ("isula", "isula"), ("lxc", "docker")],
)
@pytest.mark.parametrize(
    ("fix", "options"),
    [("container.run-command", "--rm"), ("driver.grant-access", "--group-add"), ("system.shm", "--shm-size")],
)
def test_the_engine_of_this_container_is_named(runtime: str, engine: str, fix: str, options: str) -> None:
    params = {"devices": ["/dev/davinci0"]} if options == "--rm" else {}
    made = planned(node(product="atlas-300i-duo", container={"runtime": runtime}, shm_gib=0.0625), fix, params)
    told = "\n".join([*made.notes, made.refused.instead or "" if made.refused else ""])
    assert set(re.findall(rf"(\w+) run {options}", told)) == {engine}


@pytest.mark.parametrize(
    ("said", "params", "network"),
    [
        ({}, {}, False),
        ({}, {"purpose": "several-nodes"}, True),
        ({}, {"purpose": "inference"}, True),
        ({}, {"image": "quay.io/ascend/vllm-ascend:v0.9.1"}, True),
        ({"python": {"packages": {"vllm": "0.9.1"}}}, {}, True),
        ({"environ": {"SLURM_NNODES": "4"}}, {}, True),
        ({"environ": {"SLURM_NNODES": "4"}}, {"purpose": "one-node"}, False),
    ],
)
def test_a_container_for_several_nodes_or_inference_gets_the_network(
    said: dict[str, Any], params: dict[str, Any], network: bool
) -> None:
    made = planned(node(**said), "container.run-command", {"devices": ["/dev/davinci0"], **params})
    commands = [note for note in made.notes if "\n" in note]
    assert len(commands) == 5
    for text in commands:
        found = [word in text for word in ("/etc/hccn.conf", "hccn_tool")]
        assert all(found) if network else not any(found)
        assert any(word in text for word in ("--network=host", "network_mode: host", "hostNetwork: true")) is network
        assert "16g" in text or "16Gi" in text


def test_the_list_of_a_job_is_printed_and_no_file_is_changed() -> None:
    said = {"ASCEND_RT_VISIBLE_DEVICES": "3,1"}
    host = node(environ=said, files={"/root/.profile": "export ASCEND_RT_VISIBLE_DEVICES=3,1\n"})
    made = planned(host, "env.visible-devices", None)
    assert (made.refused, made.steps) == (None, ())
    assert made.notes[0].endswith("\nexport ASCEND_RT_VISIBLE_DEVICES=1,3")
    assert "set by /root/.profile:1" in made.notes[1]
    assert made.notes[2].endswith("\nnpudoctor fix env.profile --set remove=/root/.profile:1")
    assert planned(host, "env.visible-devices", {"value": "1;id"}).refused is not None


OF_A_JOB = ["RANK", "NODE_RANK", "LOCAL_WORLD_SIZE", "MASTER_PORT", "HCCL_IF_IP", "TORCHELASTIC_RUN_ID", "SLURM_PROCID"]


@pytest.mark.parametrize("name", [*OF_A_JOB, "ASCEND_RT_VISIBLE_DEVICES", "RANK_TABLE_FILE", "OMPI_COMM_WORLD_RANK"])
def test_no_login_file_gets_or_loses_a_variable_of_one_job(name: str) -> None:
    for params in ({"set": {name: "1"}}, {"unset": [name]}):
        for where in ({}, {"scope": "system"}, {"scope": "python"}, {"scope": "file", "path": "/root/.zshrc"}):
            made = planned(node(), "env.profile", {**params, **where})
            assert made.refused is not None
            assert name in made.refused.reason
        assert planned(node(), "env.profile", {**params, "scope": "file", "path": "/root/job.sh"}).refused is None


def test_only_the_line_that_sets_a_variable_of_a_job_is_taken_out() -> None:
    profile = "case $- in\n*i*)\n  export WORLD_SIZE=16\n;; esac\nexport WORLD_SIZE=8; umask 022\n. ./more\n"
    host = node(environ={"WORLD_SIZE": "16"}, files={"/root/.profile": profile})
    made = planned(host, "env.profile", None)
    assert made.params == {"remove": ["/root/.profile:3"]}
    assert applied(host, made).outcome is Outcome.APPLIED
    assert host.read("/root/.profile") == profile.replace("  export W", ":  # npudoctor: export W", 1)
    for line in ("/root/.profile:5", "/root/.profile:6", "/etc/passwd:1"):
        assert planned(host, "env.profile", {"remove": [line]}).refused is not None


def test_a_file_that_npudoctor_has_not_written_is_not_replaced_by_a_profile() -> None:
    made = planned(node(files={"/root/x.sh": "mine\n"}), "env.profile", {"scope": "file", "path": "/root/x.sh"})
    assert made.refused is not None
    assert "/root/x.sh" in made.refused.reason


@pytest.mark.parametrize("name", ["A B", "A;id", "A=1\nB", "", "$(id)"])
def test_what_is_no_name_or_value_never_reaches_a_profile(name: str) -> None:
    assert planned(node(), "env.profile", {"set": {name: "1"}}).refused is not None
    assert planned(node(), "env.profile", {"set": {"A": f"x\n{name}"}}).refused is not None


def test_parameters_that_a_fix_does_not_know_are_refused() -> None:
    made = planned(node(), "hccl.reserve-ports", {"prots": "1"})
    assert made.refused is not None
    assert "expected one of ports" in made.refused.reason


def test_a_login_shell_that_reads_no_profile_is_offered_a_file_of_its_own() -> None:
    host = node(cann={"sourced": False}, files={"/etc/passwd": "root:x:0:0:root:/root:/usr/bin/fish\n"})
    refused = planned(host, "env.profile", None).refused
    assert refused is not None
    assert (refused.instead or "").endswith("path=/root/.config/fish/conf.d/npudoctor.fish shell=fish")
    told = dict(word.split("=") for word in (refused.instead or "").split()[1:])
    assert "set -gx ASCEND_HOME_PATH" in planned(host, "env.profile", told).preview


def test_a_file_of_another_encoding_keeps_its_bytes() -> None:
    host = node(cann={"sourced": False})
    old = b"# caf\xe9\nalias l=ls"
    host.write_file("/root/.bashrc", old)
    before = state(host)
    made = planned(host, "env.profile", None)
    assert " # café\n" in made.preview
    assert applied(host, made).outcome is Outcome.APPLIED
    assert host.read_bytes("/root/.bashrc").startswith(old + b"\n")
    assert undone(host).outcome is Outcome.UNDONE
    assert state(host) == before


MOVES = st.lists(st.sampled_from([*CASES, "undo", "undo"]), min_size=1, max_size=6)
PRODUCTS = st.sampled_from(["atlas-800t-a2-910b3", "atlas-800t-a3", "atlas-800-9000"])


@settings(max_examples=25)
@given(moves=MOVES, product=PRODUCTS, reserved=st.sampled_from(["", "7", "1-9,65000-65535"]), plain=st.booleans())
def test_undo_is_the_inverse_of_apply_and_apply_twice_is_apply_once(
    moves: list[str], product: str, reserved: str, plain: bool
) -> None:
    said: dict[str, Any] = {"product": product, "sysctl": {"net.ipv4.ip_local_reserved_ports": reserved}}
    for name in moves:
        said |= copy.deepcopy(CASES[name][0]) if name in CASES else {}
    said = {**said, "user": DEV} if plain else {name: one for name, one in said.items() if name != "user"}
    host = node(**said)
    history = [state(host)]
    for move in moves:
        if move == "undo":
            assert undone(host).outcome is (Outcome.UNDONE if len(history) > 1 else Outcome.REFUSED)
            del history[max(1, len(history) - 1) :]
        else:
            _, id, params = CASES[move]
            made = planned(host, id, params)
            outcome = applied(host, made).outcome
            if outcome is Outcome.APPLIED:
                history.append(state(host))
                once_more = planned(host, id, dict(made.params))
                assert applied(host, once_more).outcome is Outcome.NOTHING
            else:
                assert outcome in (Outcome.NOTHING, Outcome.REFUSED), (move, outcome)
        assert state(host) == history[-1]
    for earlier in reversed(history[:-1]):
        assert undone(host).outcome is Outcome.UNDONE
        assert state(host) == earlier


def test_a_journal_of_0_1_is_still_read() -> None:
    metadata = {"mode": 0o600, "uid": 0, "gid": 0, "attributes": []}
    written = {"kind": "WriteFile", "path": "/etc/a", "content": "b", "mode": None, "dress": metadata}
    step = serialise.read_step(written)
    assert step == WriteFile("/etc/a", "b", None, FileMetadata(mode=0o600, uid=0, gid=0))
