"""What the slow tests of containers and systemd share: a small Debian, npudoctor's wheel, and simulated cards."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from npudoctor.cli import main

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = "systemd,systemd-sysv,dbus,python3,python3-venv,ca-certificates,curl,kmod"
MANAGERS = ("davinci_manager", "devmm_svm", "hisi_hdc")


def needs(*commands: str) -> None:
    """Skip, saying so, where a command is missing or this is not root."""
    if os.geteuid() != 0:
        pytest.skip("only root can do this")
    if missing := [name for name in commands if shutil.which(name) is None]:
        pytest.skip(f"{', '.join(missing)} is not installed")


@pytest.fixture(scope="session")
def debian() -> Path:
    """The tree of a minimal Debian 12 with Python and systemd, made once and kept; nothing is written into it."""
    needs("debootstrap")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "npudoctor-tests"
    folder = cache / "debian-12"
    cache.mkdir(parents=True, exist_ok=True)
    with open(cache / "debian.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            made = ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", str(folder)]
            if subprocess.run(made, stdout=subprocess.DEVNULL, check=False).returncode:
                pytest.skip("debootstrap cannot make a Debian here")
            (folder / "complete").touch()
    return folder


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a build reads: the files of this repository that git knows, and new ones, but nothing that was built."""
    folder = tmp_path_factory.mktemp("source")
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
    )
    if listed.returncode:
        pytest.skip("this is no checkout: git does not list its files")
    for name in listed.stdout.splitlines():
        if not name.startswith("tests/") and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


@pytest.fixture(scope="session")
def wheels(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """npudoctor's wheel, and those that it needs under Debian's Python."""
    folder = tmp_path_factory.mktemp("wheels")
    pip = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "-w", str(folder), str(source)], check=True)
    [own] = folder.glob("npudoctor-*.whl")
    kinds = [f"--platform={kind}_{os.uname().machine}" for kind in ("manylinux2014", "manylinux_2_28")]
    only = ["--only-binary=:all:", "--python-version=3.11", *kinds]
    done = subprocess.run([*pip, "download", *only, "-d", str(folder), f"{own}[daemon]"], check=False)
    if done.returncode:
        pytest.skip("the wheels that npudoctor needs cannot be fetched")
    return folder


class Cards:
    """The tools, files and device nodes of a simulated container with cards 0 and 1, below a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.be_well()
        (folder / "dev").mkdir()
        for minor, name in enumerate(("davinci0", "davinci1", *MANAGERS)):
            os.mknod(folder / "dev" / name, 0o660 | stat.S_IFCHR, os.makedev(236, minor))
            os.chmod(folder / "dev" / name, 0o660)
            os.chown(folder / "dev" / name, 0, 1000)

    def be_well(self) -> None:
        """All cards are OK."""
        self._write("well", "")

    def be_ill(self) -> None:
        """Card 1 is in alarm."""
        self._write("ill", '[[card]]\nid = 1\nhealth = "Alarm"\n')

    def _write(self, name: str, more: str) -> None:
        made = self.folder / name
        if not made.exists():
            (self.folder / f"{name}.toml").write_text(
                f'about = "{name}"\nproduct = "atlas-800t-a2-910b3"\nhostname = "inside"\n'
                f"container = {{ devices = [0, 1] }}\n{more}",
                encoding="utf-8",
            )
            assert main(["sim", "tools", str(made), str(self.folder / f"{name}.toml")]) == 0
        # npu-smi looks for its answers in ../commands; it is bound into /usr/local/bin, so they lie in /usr/local.
        answers = self.folder / "commands"
        answers.mkdir(exist_ok=True)
        for answer in (made / "commands").glob("npu-smi*"):
            shutil.copytree(answer, answers / answer.name, dirs_exist_ok=True)
        calls = self.folder / "calls.log"
        calls.touch()
        calls.chmod(0o666)


@pytest.fixture
def cards(tmp_path: Path) -> Cards:
    """Two simulated cards that can fall ill."""
    (tmp_path / "cards").mkdir()
    try:
        return Cards(tmp_path / "cards")
    except PermissionError:
        pytest.skip("device nodes cannot be made here")
