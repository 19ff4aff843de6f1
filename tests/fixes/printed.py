"""What npudoctor prints for a person to type, carried out on a simulated node as a shell would carry it out.

`PROGRAMS` has a row for each program of a printed command: how it is simulated, or why it cannot be. A command that has
no row fails the test that asks for it.
"""

from __future__ import annotations

import itertools
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from npudoctor import plugins
from npudoctor.fixer import plan, runner
from npudoctor.fixer.plan import Request
from npudoctor.fixer.runner import Ended, Outcome
from npudoctor.host import User
from npudoctor.host.simulated.host import SimulatedHost
from npudoctor.records import replace
from npudoctor.sdk import Options
from npudoctor.sim import login, machine
from npudoctor.sim.commands import Commands
from npudoctor.sim.machine import Machine
from npudoctor.sim.target import Target
from tests.fixes import states

LOOKS = "it only shows something"
MANAGERS = ("/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc")


class CannotBeSimulated(Exception):
    """A command that the table simulates cannot be carried out on this node; the text says why."""


@dataclass
class Shell:
    """A shell on a simulated node: its variables, and what is true only after the next login."""

    host: SimulatedHost
    sets: list[tuple[str, str | None]] = field(default_factory=list)
    sourced: list[str] = field(default_factory=list)
    at_login: bool = False
    ran: bool = False

    @property
    def node(self) -> Any:
        return states.inside(self.host)._node

    def result(self) -> SimulatedHost:
        """The node as a job started by this shell, or by one of a new login where that is needed, has it."""
        host = self.host.after_login() if self.at_login else self.host
        environ = dict(host.environ)
        for script in self.sourced:
            login._source(script, environ, self.node, host, 0)
        for name, value in self.sets:
            environ.pop(name, None)
            if value is not None:
                environ[name] = value
        return _with_environ(host, environ)


def _with_environ(host: SimulatedHost, environ: dict[str, str]) -> SimulatedHost:
    inner = states.inside(host)
    if not isinstance(inner, Machine):
        host._environ = environ
        return host
    target = Target(inner._node, environ)
    target.packages = inner._target.packages
    return SimulatedHost(
        inner,
        about=host.about,
        tree=host.tree,
        commands=Commands(inner._node, host.tree, target),
        environ=environ,
        measures=host._measures,
        user=host.user,
    )


def commands_in(note: str) -> Iterator[str]:
    """The commands of a note: the lines after its first one, with the lines that a backslash joins as one."""
    yield from (line.strip() for line in note.partition("\n")[2].replace("\\\n", " ").splitlines() if line.strip())


def carry_out(host: SimulatedHost, commands: Sequence[str]) -> tuple[SimulatedHost, bool]:
    """The node after these commands, and whether any of them could be carried out."""
    shell = Shell(host)
    for command in commands:
        _carry_out(shell, command)
    return shell.result(), shell.ran


def _carry_out(shell: Shell, command: str) -> None:
    row = row_of(command)
    if row is not None and not isinstance(row, str):
        row(shell, _plain(command))
        shell.ran = True


def _plain(command: str) -> str:
    """A command without `sudo` and without the remark behind it."""
    return re.sub(r"\s+# .*$", "", re.sub(r"\bsudo ", "", command)).strip()


def row_of(command: str) -> Callable[[Shell, str], None] | str | None:
    """How a command is simulated, or why it is not; None where the table has no row for its program."""
    return next((how for pattern, how in PROGRAMS.items() if re.match(pattern, _plain(command))), None)


def _export(shell: Shell, command: str) -> None:
    shell.sets += [(word.partition("=")[0], word.partition("=")[2]) for word in shlex.split(command)[1:]]


def _unset(shell: Shell, command: str) -> None:
    shell.sets += [(name, None) for name in shlex.split(command)[1:]]


def _source(shell: Shell, command: str) -> None:
    shell.sourced.append(shlex.split(command)[1])


def _echo(shell: Shell, command: str) -> None:
    """`echo TEXT >> FILE`, `echo TEXT | tee [-a] FILE`."""
    found = re.fullmatch(r"echo ('[^']*') (?:>>|\| tee( -a)?) (\S+)(?: >/dev/null)?", command)
    assert found, command
    path = found[3].replace("~", shell.node.home, 1) if found[3].startswith("~") else found[3]
    more = " >> " in command or found[2]
    old = shell.host.read(path) if more and shell.host.exists(path) else ""
    _as_root(shell, path, old + shlex.split(found[1])[0] + "\n")
    shell.at_login = shell.at_login or not path.startswith("/etc/sysctl")


def _sed(shell: Shell, command: str) -> None:
    words = shlex.split(command)
    text = shell.host.read(words[3])
    done = subprocess.run(["sed", words[2]], input=text, capture_output=True, encoding="utf-8", check=True)
    assert done.stdout != text, command
    _as_root(shell, words[3], done.stdout)


def _as_root(shell: Shell, path: str, text: str) -> None:
    plain = isinstance(states.inside(shell.host), Machine) and shell.host.user.uid != 0
    if not plain or path.startswith(shell.node.home):
        shell.host.write_file(path, text.encode())
    else:
        with states.as_user(shell.host, User(), {}) as root:
            root.write_file(path, text.encode())


def _link(shell: Shell, command: str) -> None:
    target, path = shlex.split(command)[2:]
    shell.host.write_link(path, target)


def _act(shell: Shell, command: str) -> None:
    """A tool that changes the node, run by root."""
    argv = shlex.split(command)
    if isinstance(states.inside(shell.host), Machine) and shell.host.user.uid != 0:
        with states.as_user(shell.host, User(), {}) as root:
            done = root.run_streaming(argv, timeout=60)
    elif argv[0] == "sysctl" and not isinstance(states.inside(shell.host), Machine):
        key, _, value = argv[2].partition("=")
        shell.host.set_sysctl(key, value)
        return
    else:
        done = shell.host.run_streaming(argv, timeout=60)
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    shell.at_login = shell.at_login or argv[0] == "usermod"


def _kill(shell: Shell, command: str) -> None:
    for pid in shlex.split(command)[1:]:
        shell.host.signal(int(pid), 15)


def _for(shell: Shell, command: str) -> None:
    found = re.fullmatch(r"for (\w+) in ([\w ]+); do (.*); done", command)
    assert found, command
    for value in found[2].split():
        _carry_out(shell, found[3].replace(f"${found[1]}", value))


def _fix(shell: Shell, command: str) -> None:
    """Another fix of npudoctor's."""
    id, *rest = shlex.split(command)[2:]
    params = {name: [value] for name, _, value in (word.partition("=") for word in rest[1:])} if rest else None
    catalog = plugins.load(folder="")
    made = plan.make(catalog, shell.host, Request(id, params), Options())
    if made.empty and made.notes:
        for line in (line for note in made.notes for line in commands_in(note)):
            _carry_out(shell, line)
        return
    *_, last = runner.apply(catalog, shell.host, made, Options())
    assert isinstance(last, Ended)
    assert last.outcome is Outcome.APPLIED, (command, last)
    shell.at_login = True


def _docker(shell: Shell, command: str) -> None:
    """The container is started anew, with what this command passes in."""
    words = shlex.split(command.replace("\\\n", " ").replace("$(command -v npu-smi)", "/usr/local/sbin/npu-smi"))
    said = shell.node.scenario
    if said.container is None:
        raise CannotBeSimulated("the containers of a simulated host are texts")
    by_runtime = next((word.partition("=")[2] for word in words if word.startswith("ASCEND_VISIBLE_DEVICES=")), None)
    devices = [re.sub(r"^(--device=)", "", word) for word in words if word.startswith("--device=")]
    volumes = [word.removeprefix("-v=") for word in words if word.startswith("-v=")]
    volumes += [after for word, after in itertools.pairwise(words) if word == "-v"]
    inside = {volume.split(":")[1] for volume in volumes}
    if by_runtime is not None:
        devices = [f"/dev/davinci{number}" for number in by_runtime.split(",")] + list(MANAGERS)
        inside |= {"/usr/local/Ascend/driver/lib64", "/usr/local/bin/npu-smi"}
    numbers = tuple(int(number[1]) for path in devices if (number := re.fullmatch(r"\S*/dev/davinci(\d+)", path)))
    box = replace(
        said.container,
        devices=numbers,
        managers=all(path in devices for path in MANAGERS if shell.node.product.family != "950" or "svm" not in path),
        driver_files="/usr/local/Ascend/driver/lib64" in inside,
        sources={},
    )
    shm = next((word.partition("=")[2] for word in words if word.startswith("--shm-size=")), None)
    kept = {name: done for name, done in said.commands.items() if not name.startswith("npu-smi")}
    scenario = replace(
        said,
        container=box,
        remove=tuple(
            path
            for path in said.remove
            if not path.startswith("/usr/local/Ascend/driver") and path not in (*inside, *devices)
        ),
        commands=kept,
        shm_gib=float(shm.rstrip("g")) if shm else said.shm_gib,
    )
    shell.host = machine.build(scenario, shell.node.name)


ENGINES = "(docker|podman|nerdctl|isula)"

PROGRAMS: dict[str, Callable[[Shell, str], None] | str] = {
    r"export \w+=<": "the person has to put a value in",
    r"export ": _export,
    r"unset ": _unset,
    r"source \S*/nnal/": "NNAL's script is not simulated",
    r"source ": _source,
    r"echo '": _echo,
    r"echo \$": LOOKS,
    r"sed -i ": _sed,
    r"ln -sfn /": _link,
    r"sysctl -w ": _act,
    r"sysctl [\w.]+$": LOOKS,
    r"mount -o remount": _act,
    r"usermod -aG ": _act,
    r"hccn_tool -i \d+ -tls -s enable \d": _act,
    r"hccn_tool .* -s .*<": "the person has to put a value in",
    r"hccn_tool .* -s address [\d.]+ ": "nobody simulates that hccn_tool writes /etc/hccn.conf",
    r".*hccn_tool .* -cfg recovery": "nobody simulates what the driver reads from /etc/hccn.conf",
    r"hccn_tool ": LOOKS,
    r"kill \d": _kill,
    r"for \w+ in": _for,
    r"npudoctor (setup|fix cann\.install) --packages FOLDER": "the person has to name the folder of the packages",
    r"npudoctor fix ": _fix,
    r"npudoctor (check|explain|knowledge)\b": LOOKS,
    rf"{ENGINES} run .*…": "only a part of a command: the person has to complete it",
    rf"{ENGINES} run ": _docker,
    rf"{ENGINES} (ps|inspect)": LOOKS,
    r"services:|image:|kind:|apiVersion:|supplementalGroups:": "compose and Kubernetes are other ways to say what "
    "docker run says; tests/facts/test_container_stanzas.py reads them",
    r"\S+/python\S* -m pip install ": _act,
    r"\S+/python\S* -m pip uninstall ": _act,
    r"python -m pip install ": "the person has to move the job into the new environment",
    r"\S+/python\S* ": LOOKS,
    r"(ba)?sh \S+\.run|\./(Ascend|Atlas)-": "installers of the vendor are not simulated",
    r"(cat|df|dmesg|du|find|fuser|getent|grep|ip|journalctl|ls|lsmod|lspci|modinfo|ps|ss|uname|npu-smi) ": LOOKS,
    r"npu-smi$|command -v |findmnt ": LOOKS,
    r"timedatectl status": LOOKS,
    r"timedatectl ": "a simulated node has no service that keeps the time",
    r"conda (create|activate) ": "the person has to move the job into the new environment",
    r"cpupower ": "the tool of the governor is not simulated",
    r"grubby |reboot|yum |apt ": "a simulated node does not boot",
    r"iptables |nft insert ": "the firewall of a simulated node is a text",
}
"""Patterns of commands, tried in this order: what carries them out on a simulated node, or why nothing does."""
