"""Packages are installed into a real environment, from wheels made here, and taken out again without an index."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from npudoctor import plugins
from npudoctor.fixer import plan, runner
from npudoctor.fixer.plan import FixPlan, Request
from npudoctor.fixer.runner import Ended, Outcome
from npudoctor.host.live.local import LocalHost
from npudoctor.plugins import Catalog
from npudoctor.sdk import Options, Refused, StepFailed
from npudoctor.steps.packages import KeepPackages, RestorePackages

CPU = "+cpu" if os.uname().machine == "x86_64" else ""


def wheel(folder: Path, name: str, version: str, files: dict[str, str], requires: tuple[str, ...] = ()) -> None:
    """A wheel with true metadata."""
    stem = f"{name}-{version}"
    lines = ["Metadata-Version: 2.1", f"Name: {name.replace('_', '-')}", f"Version: {version}"]
    lines += [f"Requires-Dist: {one}" for one in requires]
    held = {
        **files,
        f"{stem}.dist-info/METADATA": "\n".join([*lines, ""]),
        f"{stem}.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},,{len(text)}\n" for path, text in held.items()) + f"{stem}.dist-info/RECORD,,\n"
    with zipfile.ZipFile(folder / f"{stem}-py3-none-any.whl", "w") as made:
        for path, text in {**held, f"{stem}.dist-info/RECORD": record}.items():
            made.writestr(path, text)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    for version in ("2.5.1", "2.6.0"):
        torch = {"torch/__init__.py": f"__version__ = '{version}'\n", f"torch/only_{version[2]}.py": "x = 1\n"}
        wheel(folder, "torch", version + CPU, torch, ("helper",))
        npu = {"torch_npu/__init__.py": f"__version__ = '{version}'\n"}
        wheel(folder, "torch_npu", version, npu, (f"torch=={version}{CPU}",))
    wheel(folder, "helper", "1.0", {"helper.py": "one = 1\n"})
    wheel(folder, "triton", "3.2.0", {"triton/__init__.py": "who = 'upstream'\n"})
    wheel(folder, "triton_ascend", "3.2.0", {"triton/__init__.py": "who = 'ascend'\n"})
    wheel(folder, "broken", "1.0", {"broken.py": "", "../../../../../outside.py": ""})
    return folder


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory, wheels: Path) -> Path:
    """A venv with torch 2.5.1 and the torch_npu of 2.6.0, to be copied."""
    folder = tmp_path_factory.mktemp("ready") / "env"
    venv.create(folder, with_pip=True, symlinks=True)
    python = str(folder / "bin/python")
    install = [python, "-m", "pip", "install", "-q", "--no-index", "--find-links", str(wheels), "--no-deps"]
    subprocess.run([*install, f"torch==2.5.1{CPU}", "torch-npu==2.6.0", "helper"], check=True)
    return folder


@pytest.fixture
def target(tmp_path: Path, ready: Path) -> Path:
    """The interpreter of an environment of its own."""
    shutil.copytree(ready, tmp_path / "env", symlinks=True)
    return tmp_path / "env/bin/python"


def fingerprint(python: Path) -> dict[str, str]:
    """Every file of the environment but compiled ones, with its mode and content."""
    found = {}
    for path in sorted((python.parents[1]).rglob("*")):
        if path.is_file() and not path.is_symlink() and "__pycache__" not in path.parts:
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            found[str(path)] = f"{path.stat().st_mode:o} {digest}"
        elif path.is_dir() and path.name != "__pycache__":
            found[str(path)] = "folder"
    return found


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return plugins.load()


class Target:
    def __init__(self, catalog: Catalog, python: Path, state: Path) -> None:
        self.catalog = catalog
        self.options = Options(python=str(python))
        self.state = str(state)

    @property
    def host(self) -> LocalHost:
        return LocalHost()

    def plan(self, id: str, **params: Any) -> FixPlan:
        return plan.make(self.catalog, self.host, Request(id, params), self.options)

    def apply(self, made: FixPlan) -> Ended:
        *_, last = runner.apply(self.catalog, self.host, made, self.options, state=self.state)
        assert isinstance(last, Ended)
        return last

    def undo(self) -> Ended:
        *_, last = runner.undo(self.host, state=self.state)
        assert isinstance(last, Ended)
        return last


@pytest.fixture
def node(catalog: Catalog, target: Path, tmp_path: Path) -> Iterator[Target]:
    yield Target(catalog, target, tmp_path / "state")


def asked(python: Path, code: str) -> str:
    return subprocess.run([str(python), "-c", code], capture_output=True, encoding="utf-8", check=True).stdout.strip()


def test_the_pair_is_installed_from_a_folder_and_taken_back_bit_for_bit(
    node: Target, target: Path, wheels: Path
) -> None:
    before = fingerprint(target)
    made = node.plan("python.install-pair", torch="2.6.0", torch_npu="2.6.0", offline=str(wheels))
    assert made.refused is None
    assert f"torch: 2.5.1{CPU} → 2.6.0{CPU}" in made.preview
    assert "torch-npu" not in made.preview.partition("$")[0]
    assert node.apply(made).outcome is Outcome.APPLIED
    assert asked(target, "import torch, torch_npu; print(torch.__version__)") == "2.6.0"
    again = node.plan("python.install-pair", torch="2.6.0", torch_npu="2.6.0", offline=str(wheels))
    assert again.empty
    for path in wheels.iterdir():
        path.touch()
    assert node.undo().outcome is Outcome.UNDONE
    assert asked(target, "import torch; print(torch.__version__)") == "2.5.1"
    assert fingerprint(target) == before


def test_an_installer_that_fails_leaves_the_environment_as_it_was(
    node: Target, target: Path, wheels: Path, tmp_path: Path
) -> None:
    copied = tmp_path / "wheels"
    copied.mkdir()
    for path in wheels.iterdir():
        (copied / path.name).write_bytes(path.read_bytes())
    before = fingerprint(target)
    made = node.plan("python.install-pair", torch="2.6.0", torch_npu="2.6.0", offline=str(copied))
    assert not made.empty
    real = plan.make

    def spoiled(*args: Any) -> FixPlan:
        """What the runner plans again is the same; then the wheel goes bad, in the middle of the archive."""
        found: FixPlan = real(*args)
        bad = copied / f"torch-2.6.0{CPU}-py3-none-any.whl"
        bad.write_bytes(bad.read_bytes()[:-40] + b"\0" * 40)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "make", spoiled)
        ended = node.apply(made)
    assert (ended.outcome, "failed" in ended.reason) == (Outcome.ROLLED_BACK, True)
    assert fingerprint(target) == before


def test_an_installer_that_is_killed_half_way_is_made_good(node: Target, target: Path, wheels: Path) -> None:
    """The files of torch half replaced, the new ones without a RECORD, pip's moved folder beside them."""
    before = fingerprint(target)
    site = next((target.parents[1] / "lib").glob("python3*/site-packages"))
    archive = str(target.parents[1].parent / "kept.tar")
    changes = (("torch", f"2.5.1{CPU}", f"2.6.0{CPU}"),)
    spoil = (
        f"import os; os.chdir({str(site)!r}); os.rename('torch-2.5.1{CPU}.dist-info', '~orch-2.5.1{CPU}.dist-info');"
        "open('torch/__init__.py', 'w').write('half'); os.unlink('torch/only_5.py'); open('torch/only_6.py', 'w');"
        "os.kill(os.getpid(), 9)"
    )
    step = KeepPackages(python=str(target), installer=(str(target), "-c", spoil), changes=changes, archive=archive)
    host = node.host
    with pytest.raises(StepFailed):
        step.apply(host)
    assert fingerprint(target) != before
    inverse = step.inverse(host)
    assert isinstance(inverse, RestorePackages)
    for _ in range(2):
        inverse.apply(host)
        assert fingerprint(target) == before


def test_what_a_person_adds_later_stays_when_the_packages_go_back(node: Target, target: Path, wheels: Path) -> None:
    site = next((target.parents[1] / "lib").glob("python3*/site-packages"))
    before = fingerprint(target)
    assert node.apply(node.plan("python.install-packages", packages=["triton"], offline=str(wheels))).run
    (site / "mine.pth").write_text("import os\n", encoding="utf-8")
    (site / "triton/mine.py").write_text("x = 1\n", encoding="utf-8")
    assert node.undo().outcome is Outcome.UNDONE
    assert (site / "mine.pth").exists()
    assert (site / "triton/mine.py").read_text(encoding="utf-8") == "x = 1\n"
    shutil.rmtree(site / "triton")
    (site / "mine.pth").unlink()
    assert fingerprint(target) == before


def test_nobody_recovers_while_an_installer_still_runs_whose_npudoctor_was_killed(tmp_path: Path) -> None:
    flag = tmp_path / "running"
    lock = str(tmp_path / "lock")
    sleeper = f"import time, pathlib; pathlib.Path({str(flag)!r}).touch(); time.sleep(600)"
    pid = os.fork()
    if pid == 0:
        host = LocalHost()
        with host.lock(lock):
            host.run_streaming([sys.executable, "-c", sleeper], timeout=600)
        os._exit(0)
    until = time.monotonic() + 60
    while not flag.exists() and time.monotonic() < until:
        time.sleep(0.02)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    left = [one for one in psutil.process_iter(["cmdline"]) if sleeper in (one.info["cmdline"] or ())]
    try:
        said = f"process {pid} was killed, and what it has started still runs"
        with pytest.raises(Refused, match=said), LocalHost().lock(lock):
            pass
    finally:
        for one in left:
            one.kill()
    assert left
    for _ in range(3000):
        try:
            with LocalHost().lock(lock):
                return
        except Refused:
            time.sleep(0.02)
    raise AssertionError("the lock is still held")


def recovered(state: Path) -> Ended:
    """What the recovery says, once that has ended which a killed process had started."""
    until = time.monotonic() + 60
    while True:
        *_, last = runner.recover(LocalHost(), state=str(state))
        assert isinstance(last, Ended)
        if last.outcome is not Outcome.REFUSED or time.monotonic() > until:
            return last
        time.sleep(0.05)


def as_it_was(catalog: Catalog, ready: Path, wheels: Path, folder: Path) -> tuple[Target, FixPlan, dict[str, str]]:
    """A fresh environment with the old pair, the plan of the new one, and what is in its files."""
    for left in (folder / "env", folder / "state"):
        shutil.rmtree(left, ignore_errors=True)
    shutil.copytree(ready, folder / "env", symlinks=True)
    target = folder / "env/bin/python"
    node = Target(catalog, target, folder / "state")
    made = node.plan("python.install-pair", torch="2.6.0", torch_npu="2.6.0", offline=str(wheels))
    return node, made, fingerprint(target)


@pytest.mark.slow
def test_an_install_that_is_killed_at_any_moment_is_made_good(
    catalog: Catalog, ready: Path, wheels: Path, tmp_path: Path
) -> None:
    target = tmp_path / "env/bin/python"
    ends: dict[str, int] = {}
    after: dict[str, str] = {}
    for moment in range(-1, 20):
        node, made, before = as_it_was(catalog, ready, wheels, tmp_path)
        pid = os.fork()
        if pid == 0:
            node.apply(made)
            os._exit(0)
        if moment >= 0:
            time.sleep(0.25 * moment)
            os.kill(pid, 9)
        os.waitpid(pid, 0)
        if moment < 0:
            after = fingerprint(target)
            continue
        last = recovered(tmp_path / "state")
        there = fingerprint(target)
        assert there in (before, after), (moment, last, set(there.items()) ^ set(before.items()))
        which = f"{last.outcome.value}: {'old' if there == before else 'new'}"
        ends[which] = ends.get(which, 0) + 1
    print(ends)
    assert ends.get("undone: old")


@pytest.mark.slow
def test_a_pip_that_is_killed_at_its_operations_on_files_is_made_good(
    catalog: Catalog, ready: Path, wheels: Path, tmp_path: Path, striker: str
) -> None:
    target, count = tmp_path / "env/bin/python", tmp_path / "count"
    ends: dict[str, int] = {}
    number, last = 1 << 30, 0
    while number > 0:
        count.unlink(missing_ok=True)
        node, made, before = as_it_was(catalog, ready, wheels, tmp_path)
        pid = os.fork()
        if pid == 0:
            struck = {"COUNT": str(count), "AT": str(number), "HOW": "0", "FIXER": str(os.getpid())}
            os.environ.update({"LD_PRELOAD": striker, **{f"SCENE_{name}": value for name, value in struck.items()}})
            node.apply(made)
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        assert os.WIFSIGNALED(status) is bool(last)
        if not last:
            last = number = count.stat().st_size
            continue
        event = recovered(tmp_path / "state")
        assert fingerprint(target) == before, (number, event)
        ends[event.outcome.value] = ends.get(event.outcome.value, 0) + 1
        number -= max(1, last // 40)
    print(f"of {last} operations of pip: {ends}")
    assert sum(ends.values()) >= 40


UV = """#!/bin/sh
# Stands in for uv, over the pip of the test's own Python: uv prints its plan on stderr.
echo "uv $*" >>"$UV_CALLS"
shift; verb=$1; shift; python=$2; shift 2
site=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
for word in "$@"; do
  case $word in torch==*) echo " - torch==2.5.1CPU" >&2; echo " + $word" >&2;; esac
done
case " $* " in *" --dry-run "*) exit 0;; esac
rm -rf "$site"/torch "$site"/torch-*.dist-info
exec "$UV_PIP" -m pip "$verb" -q --target "$site" --upgrade "$@"
"""


def test_an_environment_that_uv_made_is_changed_by_uv(
    node: Target, target: Path, wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = next((target.parents[1] / "lib").glob("python3*/site-packages"))
    for path in site.glob("pip*"):
        shutil.rmtree(path)
    with open(target.parents[1] / "pyvenv.cfg", "a", encoding="utf-8") as file:
        file.write("uv = 0.9.11\n")
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "uv").write_text(UV.replace("CPU", CPU), encoding="utf-8")
    (tools / "uv").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    monkeypatch.setenv("UV_CALLS", str(tmp_path / "calls"))
    monkeypatch.setenv("UV_PIP", sys.executable)
    before = fingerprint(target)
    made = node.plan("python.install-pair", torch="2.6.0", torch_npu="2.6.0", offline=str(wheels))
    assert made.refused is None
    source = f"--no-index --find-links {wheels}"
    assert made.preview == (
        f"torch: 2.5.1{CPU} → 2.6.0{CPU}\n"
        f"$ {tools}/uv pip install --python {target} --no-deps {source} torch==2.6.0{CPU}\n"
    )
    assert node.apply(made).outcome is Outcome.APPLIED
    assert asked(target, "import torch; print(torch.__version__)") == "2.6.0"
    resolved = f"uv pip install --python {target} --dry-run {source} torch==2.6.0{CPU} torch-npu==2.6.0"
    calls = (tmp_path / "calls").read_text(encoding="utf-8").splitlines()
    assert (calls[0], calls[-1]) == (resolved, f"uv {made.preview.partition('/uv ')[2]}".strip())
    assert node.undo().outcome is Outcome.UNDONE
    assert fingerprint(target) == before


@pytest.mark.slow
def test_an_environment_that_the_real_uv_made_is_changed_and_comes_back(
    catalog: Catalog, wheels: Path, tmp_path: Path
) -> None:
    uv = shutil.which("uv")
    if uv is None:
        pytest.skip("uv is not installed here")
    target = tmp_path / "env/bin/python"
    subprocess.run([uv, "venv", "-q", "--python", sys.executable, str(tmp_path / "env")], check=True)
    install = [uv, "pip", "install", "-q", "--python", str(target), "--no-index", "--find-links", str(wheels)]
    subprocess.run([*install, "--no-deps", f"torch==2.5.1{CPU}", "torch-npu==2.6.0", "helper"], check=True)
    node = Target(catalog, target, tmp_path / "state")
    before = fingerprint(target)
    made = node.plan("python.install-pair", torch="2.6.0", torch_npu="2.6.0", offline=str(wheels))
    assert made.refused is None
    assert made.preview.startswith(f"torch: 2.5.1{CPU} → 2.6.0{CPU}\n$ {uv} pip install")
    assert node.apply(made).outcome is Outcome.APPLIED
    assert asked(target, "import torch, torch_npu; print(torch.__version__)") == "2.6.0"
    assert node.undo().outcome is Outcome.UNDONE
    assert asked(target, "import torch; print(torch.__version__)") == "2.5.1"
    assert fingerprint(target) == before


def test_upstream_triton_gives_way_to_the_one_for_ascend(node: Target, target: Path, wheels: Path) -> None:
    install = [str(target), "-m", "pip", "install", "-q", "--no-index", "--find-links", str(wheels)]
    for name in ("triton-ascend", "triton"):
        subprocess.run([*install, name], check=True)
    assert asked(target, "import triton; print(triton.who)") == "upstream"
    before = fingerprint(target)
    made = node.plan("python.install-packages", offline=str(wheels))
    if made.refused is not None and "numpy" in made.refused.reason:
        pytest.skip(made.refused.reason)
    assert node.apply(made).outcome is Outcome.APPLIED
    assert asked(target, "import triton; print(triton.who)") == "ascend"
    assert node.undo().outcome is Outcome.UNDONE
    assert fingerprint(target) == before


def test_what_the_folder_does_not_hold_is_refused_before_anything_is_done(node: Target, wheels: Path) -> None:
    made = node.plan("python.install-pair", torch="2.7.1", torch_npu="2.7.1", offline=str(wheels))
    assert made.refused is not None
    assert "2.7.1" in made.refused.reason
    assert node.apply(made).outcome is Outcome.REFUSED


def test_an_environment_in_use_or_of_the_system_or_of_another_user_is_left_alone(
    node: Target, target: Path, wheels: Path
) -> None:
    site = next((target.parents[1] / "lib").glob("python3*/site-packages"))
    (site / f"torch-2.5.1{CPU}.dist-info/INSTALLER").write_text("conda\n", encoding="utf-8")
    made = node.plan("python.install-pair", torch="2.6.0", torch_npu="2.6.0", offline=str(wheels))
    assert made.refused is not None
    assert "conda" in made.refused.reason
    if os.geteuid() == 0:
        os.chown(site, 12345, 12345)
        made = node.plan("python.install-pair", torch="2.6.0", torch_npu="2.6.0", offline=str(wheels))
        assert made.refused is not None
        assert "12345" in made.refused.reason


def test_nothing_but_versions_reaches_the_installer(node: Target) -> None:
    for torch in ("2.6.0 --index-url=http://x", "-r/etc/passwd", "$(id)", "2.6.0;id"):
        made = node.plan("python.install-pair", torch=torch, torch_npu="2.6.0")
        assert made.refused is not None
        assert not made.steps
    made = node.plan("python.install-packages", packages=["--pre"])
    assert made.refused is not None
