"""container.runtime with containerd: tables are added to the file that counts, and all else stays byte for byte."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fixes import _containerd
from npudoctor import plugins
from npudoctor.fixer import plan, runner
from npudoctor.fixer.plan import FixPlan, Request
from npudoctor.fixer.runner import Ended, Outcome
from npudoctor.host import Refused
from npudoctor.host.live.local import LocalHost
from npudoctor.host.simulated.host import SimulatedHost
from npudoctor.sdk import Options
from npudoctor.sim import machine, scenario
from tests.plain_user import ALICE, as_root, give

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PROGRAM = "/usr/local/bin/ascend-docker-runtime"
SETTINGS = "/etc/containerd/config.toml"
DROPPED = "/etc/containerd/conf.d/10-site.toml"
CATALOG = plugins.load(folder="")
TWO = """# of the site: keep this comment
version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "registry.site/pause:3.9"   # and this one
  [plugins."io.containerd.grpc.v1.cri".containerd]
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = true
"""
THREE = TWO.replace("version = 2", "version = 3").replace("io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime")
IMPORTS = 'version = 2\nimports = ["conf.d/*.toml"]\n[grpc]\n  address = "/run/containerd/containerd.sock"\n'
WITHOUT_RUNTIMES = 'version = 2\n[plugins."io.containerd.grpc.v1.cri".cni]\n  bin_dir = "/opt/cni/bin"'


def node(files: dict[str, str], program: str | None = "#!") -> SimulatedHost:
    there = {**files, **({PROGRAM: program} if program else {})}
    said = {"product": "atlas-800t-a2-910b3", "files": there}
    return machine.build(scenario.parse(said, "test"), "test")


def planned(host: SimulatedHost, **params: Any) -> FixPlan:
    return plan.make(CATALOG, host, Request("container.runtime", {"path": PROGRAM, **params}), Options())


def applied(files: dict[str, str], **params: Any) -> SimulatedHost:
    host = node(files)
    made = planned(host, **params)
    assert made.refused is None
    *_, ended = runner.apply(CATALOG, host, made, Options())
    assert isinstance(ended, Ended) and ended.outcome is Outcome.APPLIED
    return host


def runtimes(text: str) -> dict[str, Any]:
    plugins_of = tomllib.loads(text)["plugins"]
    name = next(one for one in ("io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime") if one in plugins_of)
    found: dict[str, Any] = plugins_of[name]["containerd"]
    return found


@pytest.mark.parametrize("text", [TWO, THREE, TWO.replace("\n", "\r\n"), TWO.rstrip("\n")])
def test_the_runtime_is_added_as_runc_is_and_undo_is_exact(text: str) -> None:
    host = applied({SETTINGS: text})
    after = host.read(SETTINGS)
    assert after.startswith(text.rstrip("\n"))
    added = runtimes(after)["runtimes"]["ascend"]
    options = {"SystemdCgroup": True, "BinaryName": PROGRAM}
    assert added == {"runtime_type": "io.containerd.runc.v2", "options": options}
    assert planned(host).empty
    *_, ended = runner.undo(host)
    assert isinstance(ended, Ended) and ended.outcome is Outcome.UNDONE
    assert host.read(SETTINGS) == text


def test_runc_stays_where_the_file_named_no_runtimes() -> None:
    found = runtimes(applied({SETTINGS: WITHOUT_RUNTIMES}).read(SETTINGS))["runtimes"]
    assert found["runc"] == {"runtime_type": "io.containerd.runc.v2"}
    assert found["ascend"]["options"] == {"BinaryName": PROGRAM}


def test_the_last_file_that_has_the_section_gets_it() -> None:
    host = applied({SETTINGS: IMPORTS, DROPPED: TWO})
    assert host.read(SETTINGS) == IMPORTS
    assert "ascend" in runtimes(host.read(DROPPED))["runtimes"]
    other = '[plugins."io.containerd.internal.v1.opt"]\n  path = "/opt/containerd"\n'
    host = applied({SETTINGS: IMPORTS + TWO.partition("version = 2\n")[2], DROPPED: other})
    assert host.read(DROPPED) == other
    assert "ascend" in runtimes(host.read(SETTINGS))["runtimes"]


@pytest.mark.parametrize(
    "text",
    [
        TWO,
        THREE,
        TWO.replace('    default_runtime_name = "runc"\n', ""),
        WITHOUT_RUNTIMES,
        "version = 3\n",
    ],
)
def test_it_is_the_default_only_where_that_is_asked_for(text: str) -> None:
    assert runtimes(applied({SETTINGS: text}).read(SETTINGS)).get("default_runtime_name") != "ascend"
    host = applied({SETTINGS: text}, default=True)
    assert runtimes(host.read(SETTINGS))["default_runtime_name"] == "ascend"
    assert planned(host, default=True).empty


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({SETTINGS: 'disabled_plugins = ["cri"]\nversion = 2\n'}, "disables the plugin cri"),
        ({SETTINGS: "[plugins.cri]\n"}, "of version 1"),
        ({SETTINGS: "version = 4\n"}, "of version 4"),
        ({SETTINGS: "version = \n"}, "not what containerd reads"),
        ({SETTINGS: 'version = 2\nimports = ["/etc/*/x.toml"]\n'}, "is not known"),
        ({SETTINGS: IMPORTS, DROPPED: 'imports = ["/etc/more.toml"]\n'}, "is not known"),
        ({SETTINGS: TWO + TWO.partition("[plug")[1] + "x"}, "not what containerd reads"),
        (
            {SETTINGS: 'version = 2\nplugins = {"io.containerd.grpc.v1.cri" = {containerd = {runtimes = {}}}}\n'},
            "without changing other settings",
        ),
        (
            {
                SETTINGS: 'version = 2\n[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.ascend.options]\n'
                'BinaryName = "/opt/other"\n'
            },
            "another path",
        ),
    ],
)
def test_what_is_not_understood_is_left_alone(files: dict[str, str], why: str) -> None:
    refused = planned(node(files)).refused
    assert refused is not None and why in refused.reason


@as_root
def test_root_takes_no_settings_that_another_user_can_write(open_folder: Path) -> None:
    path = open_folder / "config.toml"
    path.write_text(TWO, encoding="utf-8")
    assert _containerd._read(LocalHost(), str(path), None).version == 2
    give(path, ALICE)
    with pytest.raises(Refused, match=str(ALICE)):
        _containerd._read(LocalHost(), str(path), None)


@pytest.mark.parametrize(
    ("old", "new"), [("pause:3.9", "pause:3.10"), ("Cgroup = true", "Cgroup = false"), (PROGRAM, "/opt/other")]
)
def test_a_text_that_changes_more_than_the_runtime_is_refused(old: str, new: str) -> None:
    host = node({SETTINGS: TWO})
    file = _containerd._read(host, SETTINGS, None)
    changed = _containerd.changed_file(host, PROGRAM, default=False)
    assert changed is not None
    _containerd._must_only_add(file, changed[1], PROGRAM, default=False)
    with pytest.raises(Refused, match="without changing other settings"):
        _containerd._must_only_add(file, changed[1].replace(old, new, 1), PROGRAM, default=False)


def test_docker_is_meant_where_both_are_there_and_containerd_is_named() -> None:
    files = {SETTINGS: TWO, "/etc/docker/daemon.json": "{}"}
    assert "/etc/docker/daemon.json" in planned(node(files)).preview
    assert SETTINGS in planned(node(files), engine="containerd").preview
    for engine, why in (("cri-o", "not 'cri-o'"), ("docker", "no Docker here")):
        refused = planned(node({SETTINGS: TWO}), engine=engine).refused
        assert refused is not None and why in refused.reason
    refused = planned(node({"/etc/docker/daemon.json": "{}"}), engine="containerd").refused
    assert refused is not None and refused.instead == f"containerd config default >{SETTINGS}"


def test_what_restarts_is_said_before() -> None:
    told = planned(node({SETTINGS: TWO})).notes
    assert any("systemctl restart containerd" in text for text in told)
    assert any("runtimeClassName: ascend" in text for text in told)


@pytest.mark.parametrize("text", [TWO, WITHOUT_RUNTIMES, IMPORTS])
@pytest.mark.parametrize("default", [False, True])
def test_the_real_containerd_reads_it(tmp_path: Path, text: str, *, default: bool) -> None:
    program = shutil.which("containerd")
    if program is None:
        pytest.skip("containerd is not installed")
    files = {SETTINGS: text, **({DROPPED: WITHOUT_RUNTIMES} if text == IMPORTS else {})}
    host = applied(files, default=default)
    for path in files:
        target = tmp_path / path.removeprefix("/etc/containerd/")
        target.parent.mkdir(exist_ok=True)
        target.write_text(host.read(path).replace('"conf.d/', f'"{tmp_path}/conf.d/'), encoding="utf-8")
    words = [program, "--config", str(tmp_path / "config.toml"), "config", "dump"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"containerd does not run here: {done.stderr[-200:]}")
    found = runtimes(done.stdout)
    assert found["runtimes"]["ascend"]["options"]["BinaryName"] == PROGRAM
    assert found["runtimes"]["runc"]["runtime_type"] == "io.containerd.runc.v2"
    assert found["default_runtime_name"] == ("ascend" if default else "runc")
