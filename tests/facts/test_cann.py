"""CANN on disk, in both layouts, and what belongs to it."""

from __future__ import annotations

from typing import Any

import pytest

from npudoctor.facts.cann.packages import CannOps, Nnal, cann_ops, nnal
from npudoctor.facts.cann.settings import CannSettings, cann_settings, job_paths, linker_folders, usual_exports
from npudoctor.facts.cann.toolkits import Cann, cann
from npudoctor.facts.node.environment import JobEnvironment
from npudoctor.facts.python.target_python import TargetPython
from npudoctor.host.recording.canned import FakeHost
from npudoctor.host.simulated.tree import Overlay
from npudoctor.sdk import Because, Unavailable, User

OLD = "/usr/local/Ascend/ascend-toolkit"
INFO = "aarch64-linux/ascend_toolkit_install.info"


def info(version: str, package: str = "Ascend-cann-toolkit") -> str:
    return f"package_name={package}\nversion={version}\ninnerversion=V100R001C22SPC001B231\narch=aarch64\n"


def find(host: FakeHost, python: str | None = None) -> Cann:
    target = TargetPython(path=python, why="test") if python else None
    found = cann.function(host, JobEnvironment(dict(host.environ)), target)
    assert isinstance(found, Cann)
    return found


def node(files: dict[str, str], links: dict[str, str] | None = None, **environ: str) -> FakeHost:
    return FakeHost(files=files, links=links, environ={"HOME": "/home/dev", **environ})


def test_the_old_layout_with_its_link() -> None:
    files = {
        f"{OLD}/8.2.RC1/{INFO}": info("8.2.RC1"),
        f"{OLD}/8.1.RC1/{INFO}": info("8.1.RC1"),
        f"{OLD}/set_env.sh": "",
    }
    found = find(node(files, {f"{OLD}/latest": "8.2.RC1"}))
    assert [install.root for install in found.installs] == [f"{OLD}/8.2.RC1", f"{OLD}/8.1.RC1"]
    chosen = found.chosen
    assert chosen is not None
    assert (chosen.names[0], chosen.set_env, str(chosen.version)) == (f"{OLD}/latest", f"{OLD}/set_env.sh", "8.2.RC1")
    assert found.active is None


def test_a_latest_that_is_a_folder_full_of_links_is_the_version_behind_it() -> None:
    files = {f"{OLD}/8.0.RC2/{INFO}": info("8.0.RC2"), f"{OLD}/latest/set_env.sh": ""}
    links = {f"{OLD}/latest/aarch64-linux": "../8.0.RC2/aarch64-linux", f"{OLD}/latest/compiler": "../8.0.RC2/compiler"}
    found = find(node(files, links))
    assert [(one.root, one.is_default) for one in found.installs] == [(f"{OLD}/8.0.RC2", True)]


def test_the_new_layout_with_the_old_names_beside_it() -> None:
    prefix = "/home/dev/Ascend"
    files = {f"{prefix}/cann-8.5.0/{INFO}": info("8.5.0"), f"{prefix}/cann-8.5.0/set_env.sh": ""}
    links = {f"{prefix}/cann": "cann-8.5.0", f"{prefix}/ascend-toolkit/latest": "../cann-8.5.0"}
    found = find(node(files, links, ASCEND_HOME_PATH=f"{prefix}/cann-8.5.0"))
    assert len(found.installs) == 1
    assert found.active is found.installs[0]
    assert found.installs[0].set_env == f"{prefix}/cann/set_env.sh"


@pytest.mark.parametrize(
    ("path", "environ", "python"),
    [
        ("/opt/cann-8.5.0", {"ASCEND_HOME_PATH": "/opt/cann-8.5.0"}, None),
        ("/data/Ascend/cann-8.5.0", {}, None),  # named by the record of the installer
        ("/opt/Ascend/cann-8.5.0", {}, None),
        ("/conda/envs/npu/Ascend/cann-8.5.0", {"CONDA_PREFIX": "/conda/envs/npu"}, None),
        ("/venv/lib/python3.11/site-packages/ascend/cann-8.5.0", {}, "/venv/bin/python"),
        ("/home/dev/Ascend/cann-8.5.0", {"HOME": "", "SUDO_USER": "dev"}, None),
    ],
)
def test_installs_are_found_where_they_may_lie(path: str, environ: dict[str, str], python: str | None) -> None:
    files = {
        f"{path}/{INFO}": info("8.5.0"),
        "/etc/Ascend/ascend_cann_install.info": "version=1.0\nInstall_Path=/data/Ascend\n",
        "/etc/passwd": "root:x:0:0::/root:/bin/sh\ndev:x:1005:1005::/home/dev:/bin/bash\n",
        "/venv/bin/python": "",
    }
    assert [install.root for install in find(node(files, None, **environ), python).installs] == [path]


@pytest.mark.parametrize(
    ("name", "text", "version"),
    [
        ("version.cfg", "# version: 1.0\ntoolkit_running_version=[7.3.0.1.231:8.0.RC2]\n", "8.0.RC2"),
        ("toolkit/version.info", "Version=7.8.0.1.231\nversion_dir=8.2.RC1\n", "8.2.RC1"),
        ("share/info/toolkit/version.info", "Version=9.0.0\n", "9.0.0"),
        ("opp/version.info", "", "7.0.0"),
    ],
)
def test_the_version_comes_from_the_next_best_file(name: str, text: str, version: str) -> None:
    found = find(node({f"{OLD}/7.0.0/{name}": text}))
    assert [str(install.version) for install in found.installs] == [version]


def test_a_link_to_nowhere_and_a_variable_to_nowhere_are_noted() -> None:
    found = find(node({"/etc/hosts": ""}, {f"{OLD}/latest": "8.2.RC1"}, ASCEND_HOME_PATH="/gone"))
    assert [(link.path, link.target) for link in found.dead_links] == [(f"{OLD}/latest", "8.2.RC1")]
    assert found.named_in_vain == {"ASCEND_HOME_PATH": "/gone"}
    assert found.chosen is None


def test_folders_that_are_no_cann_are_none() -> None:
    assert (
        find(
            node({f"{OLD}/8.2.RC1/readme": "", "/usr/local/Ascend/driver/version.info": "", f"{OLD}/tmp/x": ""})
        ).installs
        == ()
    )


def test_what_this_user_may_not_read_is_noted() -> None:
    host = FakeHost(
        files={f"{OLD}/8.2.RC1/{INFO}": info("8.2.RC1")},
        stats={OLD: Overlay(kind="dir", mode=0o700)},
        user=User(name="dev", uid=9, gid=9, gids=(9,), groups=("dev",)),
    )
    assert find(host).unreadable


def test_a_recording_that_did_not_look_is_unavailable() -> None:
    with pytest.raises(Unavailable) as caught:
        find(FakeHost(unrecorded="unknown"))
    assert caught.value.because is Because.NOT_RECORDED


# Packages


def ops(files: dict[str, str], version: str = "8.2.RC1") -> CannOps:
    root = f"{OLD}/{version}" if version < "8.5" else f"/usr/local/Ascend/cann-{version}"
    host = node({f"{root}/{INFO}": info(version), **{f"{root}/{name}": text for name, text in files.items()}})
    found = cann_ops.function(host, find(host))
    assert isinstance(found, CannOps)
    return found


KERNEL = "opp/built-in/op_impl/ai_core/tbe/kernel"


@pytest.mark.parametrize(
    ("files", "chip", "version", "compiled_for"),
    [
        (
            {"opp_kernel/ascend_kernels_install.info": info("8.1.RC1", "Ascend-cann-kernels-910b")},
            "910b",
            "8.1.RC1",
            (),
        ),
        ({"opp_kernel/ascend_kernels_install.info": info("8.2.RC1", "Atlas-A3-cann-kernels")}, "a3", "8.2.RC1", ()),
        ({"aarch64-linux/ascend_ops_install.info": info("8.5.0", "Ascend-cann-910b-ops")}, "910b", "8.5.0", ()),
        ({"opp_kernel/version.info": "Version=7.7.0.1.238\nversion_dir=8.1.RC1\n"}, None, "8.1.RC1", ()),
        ({f"{KERNEL}/ascend910_93/add/Add.o": "", f"{KERNEL}/config/x.json": ""}, None, "None", ("a3",)),
    ],
)
def test_operators_are_known_by_record_version_file_or_kernels(
    files: dict[str, str], chip: str | None, version: str, compiled_for: tuple[str, ...]
) -> None:
    found = ops(files)
    assert found.installed
    assert (found.chip, str(found.version), found.compiled_for) == (chip, version, compiled_for)


@pytest.mark.parametrize(
    ("version", "record"), [("8.2.RC1", "opp_kernel/version.info"), ("8.5.0", "aarch64-linux/ascend_ops_install.info")]
)
def test_missing_operators_name_the_file_that_is_missing(version: str, record: str) -> None:
    found = ops({}, version)
    assert not found.installed
    assert found.source.endswith(record)


def test_operators_serve_their_own_chip_only() -> None:
    files = {"opp_kernel/ascend_kernels_install.info": info("8.2.RC1", "Ascend-cann-kernels-910b")}
    both = ops({**files, f"{KERNEL}/ascend910b/x/x.o": ""})
    other = ops({**files, f"{KERNEL}/ascend310p/x/x.o": ""})
    assert (both.serves("910b"), both.serves("a3"), other.serves("910b")) == (True, False, False)


def test_nnal_is_found_beside_the_toolkit_or_where_the_variable_says() -> None:
    root = "/usr/local/Ascend/nnal/atb/8.2.RC1"
    files = {
        f"{OLD}/8.2.RC1/{INFO}": info("8.2.RC1"),
        f"{root}/version.info": "    Ascend-cann-atb\n    Ascend-cann-atb version : 8.2.RC1\n",
        f"{root}/atb/cxx_abi_1/lib/libatb.so": "",
        "/usr/local/Ascend/nnal/atb/set_env.sh": "",
    }
    host = node(files, {"/usr/local/Ascend/nnal/atb/latest": "8.2.RC1"})
    found = nnal.function(host, find(host), None)
    assert isinstance(found, Nnal)
    assert (found.root, str(found.version), found.abis, found.in_force) == (root, "8.2.RC1", (1,), False)
    assert found.set_env == "/usr/local/Ascend/nnal/atb/set_env.sh"
    named = nnal.function(host, find(host), JobEnvironment({"ATB_HOME_PATH": f"{root}/atb/cxx_abi_1"}))
    assert (named.root, named.in_force) == (root, True)
    with pytest.raises(Unavailable, match="NNAL not installed"):
        nnal.function(FakeHost(), Cann(named_in_vain={}), None)


# Settings


def settings(script: str | None, **more: Any) -> CannSettings:
    files = {f"{OLD}/8.2.RC1/{INFO}": info("8.2.RC1"), f"{OLD}/8.2.RC1/lib64/libhccl.so": "", **more}
    if script is not None:
        files[f"{OLD}/set_env.sh"] = script
    host = node(files, {f"{OLD}/latest": "8.2.RC1"})
    found = cann_settings.function(host, find(host))
    assert isinstance(found, CannSettings)
    return found


COMPLETE = f"""export ASCEND_HOME_PATH={OLD}/latest
export LD_LIBRARY_PATH={OLD}/latest/lib64:/drv/lib64:$LD_LIBRARY_PATH
export PYTHONPATH={OLD}/latest/python/site-packages:$PYTHONPATH
export PATH={OLD}/latest/bin:$PATH
"""


def test_a_script_that_is_understood_is_what_counts() -> None:
    found = settings(COMPLETE)
    assert found.as_read
    assert [entry.text for entry in found.lists["LD_LIBRARY_PATH"]] == [f"{OLD}/latest/lib64", "/drv/lib64"]
    assert [entry.there for entry in found.lists["LD_LIBRARY_PATH"]] == [True, False]
    assert found.lists["LD_LIBRARY_PATH"][0].real == f"{OLD}/8.2.RC1/lib64"
    assert "ASCEND_OPP_PATH" not in found.single


@pytest.mark.parametrize("script", [None, "", 'eval "$(x)"\n', f"{COMPLETE}if true; then export MORE=1; fi\n"])
def test_what_is_not_understood_is_filled_up_from_the_usual_set(script: str | None) -> None:
    found = settings(script)
    assert not found.as_read
    assert {"ASCEND_HOME_PATH", "ASCEND_OPP_PATH"} <= set(found.single)
    assert f"{OLD}/latest/lib64" in [entry.text for entry in found.lists["LD_LIBRARY_PATH"]]


def test_the_usual_set_knows_where_the_compiler_moved() -> None:
    for version, compiler in (("8.3.RC1", "compiler/ccec_compiler/bin"), ("8.5.0", "tools/ccec_compiler/bin")):
        root = f"{OLD}/{version}"
        install = find(node({f"{root}/{INFO}": info(version)})).installs[0]
        assert usual_exports(install, "aarch64").variables["PATH"].endswith(compiler)


def test_without_cann_the_settings_wait_for_it() -> None:
    with pytest.raises(Unavailable) as caught:
        cann_settings.function(FakeHost(), Cann(named_in_vain={}))
    assert caught.value.blocked_by == "cann.installed"


def test_paths_of_a_job_are_followed_and_relative_ones_left_out() -> None:
    host = node({f"{OLD}/8.2.RC1/lib64/x": ""}, {f"{OLD}/latest": "8.2.RC1"})
    environment = JobEnvironment({"LD_LIBRARY_PATH": f":{OLD}/latest/lib64/:rel", "ASCEND_GLOBAL_LOG_LEVEL": "3"})
    found = job_paths.function(host, environment)
    assert found.real("LD_LIBRARY_PATH") == {f"{OLD}/8.2.RC1/lib64"}
    assert set(found.entries) == {"LD_LIBRARY_PATH"}


def test_the_linker_s_folders_come_from_all_its_files() -> None:
    files = {
        "/etc/ld.so.conf": "include ld.so.conf.d/*.conf\n",
        "/etc/ld.so.conf.d/a.conf": "/one/lib # comment\n\n/two/lib/\n",
        "/etc/ld.so.conf.d/b.txt": "/three\n",
    }
    assert linker_folders.function(FakeHost(files=files)).folders == ("/one/lib", "/two/lib")
