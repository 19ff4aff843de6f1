"""cann.switch: refused while the old version is in use; undo gives each link the target that it had."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from npudoctor import plugins
from npudoctor.fixer import plan, runner
from npudoctor.fixer.plan import FixPlan, Request
from npudoctor.fixer.runner import Ended, Event, Outcome
from npudoctor.sdk import Options
from npudoctor.sim import machine, scenario
from tests.fixes import scenes
from tests.plain_user import ALICE, as_root, give

SWITCH = scenes.SCENES["switch"]
PREFIX = "/usr/local/Ascend"
MACHINE = os.uname().machine


@pytest.fixture
def root(tmp_path: Path) -> str:
    found = str(tmp_path / "node with a blank")
    scenes.node(found, SWITCH)
    return found


def planned(root: str, **params: str) -> FixPlan:
    return plan.make(plugins.load(folder=""), scenes.host_of(SWITCH, root), Request("cann.switch", params), Options())


def links(root: str) -> tuple[str, str]:
    return os.readlink(f"{root}{PREFIX}/cann"), os.readlink(f"{root}{PREFIX}/ascend-toolkit/latest")


def last(events: Iterator[Event]) -> Ended:
    *_, ended = events
    assert isinstance(ended, Ended)
    return ended


def test_links_are_moved_each_in_its_own_form_and_back(root: str) -> None:
    before = links(root)
    made = planned(root, to="9.0.0")
    assert made.preview == (
        f"link {PREFIX}/cann: cann-8.5.0 → cann-9.0.0\n"
        f"link {PREFIX}/ascend-toolkit/latest: {PREFIX}/cann-8.5.0 → {PREFIX}/cann-9.0.0\n"
    )
    host = scenes.host_of(SWITCH, root)
    ended = last(runner.apply(plugins.load(folder=""), host, made, Options()))
    assert ended.outcome is Outcome.APPLIED, ended
    assert links(root) == ("cann-9.0.0", f"{PREFIX}/cann-9.0.0")
    assert planned(root, to="9.0.0").empty
    assert last(runner.undo(host)).outcome is Outcome.UNDONE
    assert links(root) == before


def test_while_a_process_has_the_old_version_mapped_it_is_refused() -> None:
    job = {"pid": 4711, "npu": 2, "memory_mb": 3000, "command": "python3 train.py"}
    root = f"{PREFIX}/ascend-toolkit/8.2.RC1"
    line = "7f0000000000-7f0000001000 r-xp 00000000 08:01 7  {}/lib64/libascendcl.so (deleted)\n"
    said = {"product": "atlas-800t-a2-910b3", "cann": {"linked": "8.0.0"}, "process": [job]}

    def refused(old: str, **params: str) -> str:
        node = {**said, "files": {"/proc/4711/maps": line.format(old)}}
        host = machine.build(scenario.parse(node, "test"), "test")
        made = plan.make(plugins.load(folder=""), host, Request("cann.switch", {"to": root, **params}), Options())
        return made.refused.reason if made.refused else ""

    assert refused(f"{PREFIX}/ascend-toolkit/8.0.0.1") == ""
    assert "process 4711" in refused(f"{PREFIX}/ascend-toolkit/8.0.0")
    assert "set_env.sh of its own" in refused("/opt", modulefile="/opt/modules/cann/8.2")


@pytest.mark.parametrize("to", ["", "7.0", f"{PREFIX}/cann-9", "/etc"])
def test_only_an_installed_version_can_be_named(root: str, to: str) -> None:
    refused = planned(root, to=to).refused
    assert refused is not None
    assert "8.5.0" in refused.reason


def test_a_folder_in_the_place_of_the_link_is_left_alone(root: str) -> None:
    os.unlink(f"{root}{PREFIX}/cann")
    os.mkdir(f"{root}{PREFIX}/cann")
    refused = planned(root, to="9.0.0").refused
    assert refused is not None
    assert "is a folder" in refused.reason


def test_a_modulefile_sources_the_script_of_its_version_and_moves_no_link(root: str) -> None:
    before = links(root)
    made = planned(root, to="9.0.0", modulefile="/opt/modules/cann/9.0.0")
    host = scenes.host_of(SWITCH, root)
    assert last(runner.apply(plugins.load(folder=""), host, made, Options())).outcome is Outcome.APPLIED
    text = Path(f"{root}/opt/modules/cann/9.0.0").read_text(encoding="utf-8")
    assert text.startswith("#%Module4.6\n")
    assert f"source-sh bash {{{PREFIX}/cann-9.0.0/set_env.sh}}\n" in text
    assert links(root) == before
    scenes.put(root, "/opt/modules/cann/mine", "#%Module\n")
    assert planned(root, to="9.0.0", modulefile="/opt/modules/cann/mine").refused is not None
    assert planned(root, to="9.0.0", modulefile="/opt/$HOME/x").refused is not None


@as_root
@pytest.mark.parametrize("params", [{}, {"modulefile": "/opt/modules/cann/9"}])
@pytest.mark.parametrize("owned", ["", "/set_env.sh"])
def test_root_s_links_and_modules_lead_to_no_script_that_a_user_can_change(
    root: str, owned: str, params: dict[str, str]
) -> None:
    assert planned(root, to="9.0.0", **params).refused is None
    give(Path(f"{root}{PREFIX}/cann-9.0.0{owned}"), ALICE)
    refused = planned(root, to="9.0.0", **params).refused
    assert refused is not None
    assert f"{PREFIX}/cann-9.0.0{owned} belongs to another user" in refused.reason


def put_cann(root: str, folder: str, version: str) -> str:
    """One more CANN whose files say this version; its folder."""
    said = f"package_name=Ascend-cann-toolkit\nversion={version}\ninnerversion=V1\narch={MACHINE}\npath=/x\n"
    scenes.put(root, f"{PREFIX}/{folder}/{MACHINE}-linux/ascend_toolkit_install.info", said)
    scenes.put(root, f"{PREFIX}/{folder}/set_env.sh", "export ASCEND_HOME_PATH=/x\n")
    return f"{PREFIX}/{folder}"


@pytest.mark.parametrize("version", ["9.1.0}; exec id; set a {", "[exec id]", "9.1.0$x", "9.1.0\\n", "9.1.0;id"])
def test_a_modulefile_has_no_version_that_is_more_than_a_word_to_tcl(root: str, version: str) -> None:
    made = planned(root, to=put_cann(root, "cann-9.1.0", version), modulefile="/opt/modules/cann/9")
    assert made.refused is None
    assert "\n+module-whatis {CANN cann-9.1.0}\n" in made.preview
    refused = planned(root, to=put_cann(root, "cann-9.1@1", version), modulefile="/opt/modules/cann/9").refused
    assert refused is not None
    assert "not a version" in refused.reason


@pytest.mark.parametrize("folder", ["cann-9.1}; exec id; set a {", "cann-9.1[id]", "cann-9.1 0", "cann-9.1$x"])
def test_a_modulefile_names_no_folder_that_is_more_than_a_word_to_tcl(root: str, folder: str) -> None:
    refused = planned(root, to=put_cann(root, folder, "9.1.0"), modulefile="/opt/modules/cann/9").refused
    assert refused is not None
    assert "plain letters" in refused.reason
