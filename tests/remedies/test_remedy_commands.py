"""Every remedy's command exists: program and options are known, paths are the node's, placeholders are explained.

Looked through are the findings of all labelled and simulated nodes, the tables of messages, the known issues and the
pages. `programs.toml` has the programs and their options, each with its source.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from npudoctor import knowledge, plugins, sim
from npudoctor.cli.parsing import COMMANDS
from npudoctor.host import Host, Unavailable
from npudoctor.sim import machine, scenario
from npudoctor.testing import run
from tests.nodes import labels
from tests.remedies.remedy_commands import TABLE, complaints, in_backticks, simple_commands, without_comment

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
NODES = [*labels.written(), *labels.recorded()]

MADE_LATER = {
    "/etc/security/limits.d/99-npudoctor.conf": "written by the command",
    "/etc/sysctl.d/99-npudoctor-hccl.conf": "written by the command",
    "/path/to/python": "explained by the finding: another environment's Python",
    "/dev/null": "everywhere",
    "/proc/cmdline": "of every Linux; no check reads it, so no simulated node has it",
    "/etc/sysctl.conf": "grep says so where there is none",
    "/etc/profile": "grep says so where there is none",
    "/etc/profile.d": "grep says so where there is none",
    "/etc/bash.bashrc": "grep says so where there is none",
    "/usr/local/sbin/npu-smi": "the second place where npu-smi may be, to look at",
    "/usr/local/bin/npu-smi": "the place where npu-smi should be, to look at",
}
SCRIPT_WORDS = ("case", "esac", "if", "fi", "for", "do", "done", "{", "}", "then", "else")


@cache
def catalog() -> plugins.Catalog:
    return plugins.load()


def paths_in(command: str) -> Iterator[str]:
    """The absolute paths among the words of a command; not those of the host in the options of a container."""
    text, comment = without_comment(command)
    if "on the host" in comment or re.search(r"\b(?:docker|podman|nerdctl|isula) run\b", text):
        return
    with contextlib.suppress(ValueError):
        for words in simple_commands(command):
            if words[0] in ("echo", "sed", "printf"):
                words = words[-1:]
            for word in words[1:]:
                for path in re.split(r"[=:]", word):
                    if path.startswith("/") and len(path) > 1:
                        yield path


def is_there(host: Host, path: str) -> bool:
    """Whether a path, or for a pattern its folder, is on the node; True where nobody knows."""
    while re.search(r"[*?\[$]", path):
        path = path.rpartition("/")[0] or "/"
    for one in (path, path.rpartition("/")[0] or "/"):
        try:
            if host.exists(one):
                return True
        except Unavailable:
            return True
    return False


def wrong_on(host: Host, name: str, **options: Any) -> Iterator[str]:
    groups = sorted({check.group for check in catalog().checks.values()} - {"smoke"})
    report = run(host, *groups, catalog=catalog(), **{"profile": "full", **options})
    for result in report.results:
        for finding in result.findings:
            texts = (finding.hint or "", finding.detail or "")
            quoted = [command for text in texts for command in in_backticks(text)]
            installed = False
            for command in (*finding.commands, *quoted):
                installed = installed or command.startswith("./Ascend-")
                for complaint in complaints(command):
                    yield f"{name}: {finding.code}: {command!r}: {complaint}"
                evidence = " ".join(f"{one.source} {one.expected} {one.actual}" for one in finding.evidence)
                for path in paths_in(re.sub(r"https://\S+", "", command)):
                    brought = installed and path.startswith("/usr/local/Ascend/")
                    known = brought or path in MADE_LATER or path in evidence or is_there(host, path)
                    if not known:
                        yield f"{name}: {finding.code}: {command!r}: {path} is not on this node"


@pytest.mark.parametrize("node", NODES, ids=[node.name for node in NODES])
def test_the_commands_of_a_labelled_node_exist(node: labels.Label, tmp_path: Path) -> None:
    host = node._host(tmp_path if node.needs_a_folder else None)
    wrong = list(wrong_on(host, node.name, **node.said.get("options", {})))
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", sorted(sim.scenarios()))
def test_the_commands_of_a_simulated_node_exist(name: str) -> None:
    wrong = list(wrong_on(sim.simulate(name), name))
    assert not wrong, "\n".join(wrong)


def test_the_commands_in_the_tables_of_messages_exist() -> None:
    quoted = []
    for path in sorted((ROOT / "checks" / "messages").glob("*.py")):
        joined = re.sub(r'"\s*\n\s*"', "", path.read_text(encoding="utf-8"))
        for text in re.findall(r'"((?:[^"\\]|\\.)*)"', joined):
            quoted += [(path.name, re.sub(r"\{\w+(?::[^{}]*)?\}", "1", command)) for command in in_backticks(text)]
    assert len(quoted) > 3
    wrong = [f"{name}: {command!r}: {why}" for name, command in quoted for why in complaints(command)]
    assert not wrong, "\n".join(wrong)


def test_the_commands_of_known_issues_exist_and_their_other_steps_are_sentences() -> None:
    wrong = []
    for pitfall in knowledge.pitfalls().rows:
        quoted = [
            f"{command}  # {text.replace(f'`{command}`', '')}"
            for text in (*pitfall.advice, pitfall.detect, pitfall.cause)
            for command in in_backticks(text)
        ]
        for command in (*pitfall.commands, *quoted):
            wrong += [f"{pitfall.id}: {command!r}: {why}" for why in complaints(re.sub(r"   #", "  #", command))]
        wrong += [
            f"{pitfall.id}: not a sentence: {text!r}"
            for text in (pitfall.cause, pitfall.detect, *pitfall.advice)
            if not (text[0].isupper() or text[0] in "`/" or text.split()[0] in NAMES) or not text.endswith(".")
        ]
    assert not wrong, "\n".join(wrong)


NAMES = (
    *("torch", "torch_npu", "triton-ascend", "npu-smi", "vLLM", "runc", "pids.max", "nf_conntrack_count"),
    "~/ascend/log,",
    "set_env.sh",
)
"""What begins a sentence in small letters, because it is called so."""


def commands_of(page: Path) -> Iterator[str]:
    """The commands of the pages' blocks for a shell, without what stands in here-documents and scripts."""
    for block in re.findall(r"```(?:sh|bash)\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
        block = re.sub(r"<<'?(\w+)'?\n.*?\n\1\n", "\n", block, flags=re.DOTALL).replace("\\\n", " ")
        for line in block.splitlines():
            word = (line.split() or ["#"])[0]
            if word.startswith("#") or word in SCRIPT_WORDS or line.startswith(" ") or re.match(r"[\d*]+\)", word):
                continue
            yield line


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_the_commands_of_a_page_exist(page: Path) -> None:
    wrong = [f"{line!r}: {why}" for line in commands_of(page) for why in complaints(line) if not is_own(line)]
    assert not wrong, "\n".join(wrong)


def is_own(line: str) -> bool:
    """Whether a command is a script of this repository."""
    return bool(re.match(r"(?:\.ci/|\.venv/bin/|python3? (?:-m )?tests|new-node)", line))


def test_npudoctors_own_commands_exist() -> None:
    texts = [line for page in PAGES for line in commands_of(page)]
    texts += [command for row in knowledge.pitfalls().rows for text in row.fix for command in in_backticks(text)]
    named = {words[1] for line in texts for words in parts(line) if words[0] == "npudoctor" and len(words) > 1}
    named = {name for name in named if not name.startswith("-")}
    assert len(named) > 5
    assert named <= set(COMMANDS)


def parts(line: str) -> list[list[str]]:
    try:
        return list(simple_commands(line))
    except ValueError:
        return []


def test_each_program_has_a_source_and_the_pages_are_not_empty() -> None:
    assert all(row.get("source") for row in TABLE.values())
    assert sum(len(list(commands_of(page))) for page in PAGES) > 25


# The judge itself


@pytest.mark.parametrize(
    ("command", "complaint"),
    [
        ("npu-smi info -t helth -i 0", "npu-smi -t: unknown value helth"),
        ("npu-smi set -t reset -i 0 -q 1", "npu-smi: unknown option -q"),
        ("npu-smi reset -i 0", "unknown command npu-smi reset"),
        ("hccn_tool -i 0 -lnk -g", "hccn_tool: unknown option -lnk"),
        ("hccn_tool -i N -link -g", "placeholder N without a word about it"),
        ("sudo frobnicate --all", "unknown program frobnicate"),
        ("dmesg -T | gerp -i davinci", "unknown program gerp"),
        ("docker runn --rm IMAGE  # IMAGE as before", "unknown command docker runn"),
        ("docker run --devices=/dev/davinci0 IMAGE  # IMAGE as before", "docker: unknown option --devices"),
        ("docker run --shm-size=16g IMAGE", "placeholder IMAGE without a word about it"),
        ("docker run --shm-size=16g …", "placeholder … without a word about it"),
        ("kubectl describe pod --follow", "kubectl: unknown option --follow"),
        ("systemctl reboot-now", "unknown command systemctl reboot-now"),
        ("sysctl --write vm.nr_hugepages=0", "sysctl: unknown option --write"),
        ("/opt/env/bin/python3 -m pip install --nodeps torch", "pip: unknown option --nodeps"),
        ('pip install "torch==<version>"', "placeholder <version> without a word about it"),
        ("usermod -zG HwHiAiUser train", "usermod: unknown option -zG"),
        ("./Ascend-cann-toolkit_8.2.RC1_linux-$(arhc).run --install", "unknown program arhc"),
        ("./Ascend-cann-toolkit_8.2.RC1_linux-aarch64.run --instal", "installer: unknown option --instal"),
        ("echo 'unfinished", "not a command line: No closing quotation"),
    ],
)
def test_a_command_that_does_not_exist_is_refused(command: str, complaint: str) -> None:
    assert complaint in list(complaints(command))


@pytest.mark.parametrize(
    "command",
    [
        "npu-smi info -t health -i 12 -c 1",
        "for i in 2 3; do hccn_tool -i $i -tls -s enable 0; done  # as root",
        "ps -eo pid,stat,wchan:30,args | grep '[n]pu-smi'",
        "ss -tanp '( sport >= :60000 and sport <= :60031 )'",
        "getent passwd HwHiAiUser || useradd -m -U HwHiAiUser",
        "docker run --device=/dev/davinci0 -v /etc/hccn.conf:/etc/hccn.conf:ro IMAGE  # IMAGE as before",
        "export HCCL_EVENT_TIMEOUT=$((HCCL_EXEC_TIMEOUT+30))",
    ],
)
def test_a_command_that_exists_passes(command: str) -> None:
    assert list(complaints(command)) == []


def test_a_path_that_the_node_does_not_have_is_refused() -> None:
    host = machine.build(scenario.parse({"product": "atlas-800t-a2-910b3"}, "n"), "n")
    assert list(paths_in("ls -l /usr/lokal/Ascend/driver /dev/davinci*")) == [
        "/usr/lokal/Ascend/driver",
        "/dev/davinci*",
    ]
    assert not is_there(host, "/usr/lokal/Ascend/driver")
    assert is_there(host, "/dev/davinci*")
