"""`npudoctor fleet install`: the archive is judged here and on each node, the release is switched as a whole."""

import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from npudoctor.cli import main
from npudoctor.fleet import install

LAUNCHER = "#!/bin/sh\necho npudoctor {}\n"


def written(path: Path, members: dict[str, bytes], **odd: str) -> Path:
    """A tar.gz with its checksum beside it; `odd` are links by name."""
    with tarfile.open(path, "w:gz") as tar:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o755
            tar.addfile(member, io.BytesIO(content))
        for name, target in odd.items():
            member = tarfile.TarInfo(name)
            member.type, member.linkname = tarfile.SYMTYPE, target
            tar.addfile(member)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    path.with_name(f"{path.name}.sha256").write_text(f"{digest}  {path.name}\n", encoding="utf-8")
    path.chmod(0o644)
    return path


def archive(folder: Path, version: str, script: str = LAUNCHER) -> Path:
    content = script.format(version).encode()
    return written(folder / f"npudoctor-{version}.tar.gz", {f"npudoctor-{version}/bin/npudoctor": content})


@pytest.fixture
def safe(tmp_path: Path) -> Path:
    tmp_path.chmod(0o755)
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    code = main(["fleet", "install", *map(str, words)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_a_release_is_switched_and_the_old_one_stays(safe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prefix = safe / "a prefix"
    first, second = archive(safe, "1.0"), archive(safe, "1.1")
    words = ("-w", "n[1-2]", "--engine", "local", "--prefix", prefix)
    code, page, _ = said(capsys, first, *words, "--dry-run")
    assert code == 0 and "2 nodes to be installed" in page and not prefix.exists()
    code, page, err = said(capsys, first, *words)
    assert code == 7 and "--yes" in err and "2 nodes to be installed" in page and not prefix.exists()
    code, page, _ = said(capsys, first, *words, "--yes")
    assert code == 0 and "2 nodes installed" in page and "/current/bin/npudoctor" in page
    code, page, _ = said(capsys, second, *words, "--yes")
    assert "instead of npudoctor-1.0-" in page
    for name in ("n1", "n2"):
        current = prefix / name / "current"
        assert os.readlink(current).startswith("releases/npudoctor-1.1-")
        releases = [one for one in (prefix / name / "releases").iterdir() if one.is_dir()]
        assert len(releases) == 2 and not [one for one in releases if one.stat().st_mode & 0o777 != 0o755]
        assert not list((prefix / name / "releases").glob(".archive*"))
    assert "2 nodes there already and current" in said(capsys, second, *words, "--yes")[1]
    code, page, _ = said(capsys, first, *words, "--dry-run", "--json")
    assert {row["outcome"] for row in json.loads(page)["nodes"]} == {"switch"}
    said(capsys, first, *words, "--yes")
    assert os.readlink(prefix / "n1" / "current").startswith("releases/npudoctor-1.0-")


def other(path: Path) -> None:
    path.mkdir()
    (path / "file").touch()


def everybodys(path: Path) -> None:
    path.mkdir()
    path.chmod(0o777)


def nothing(path: Path) -> None:
    assert not path.exists()


@pytest.mark.parametrize(
    ("prepare", "script", "reason"),
    [
        (other, LAUNCHER, "has other files"),
        (everybodys, LAUNCHER, "every user can write"),
        (Path.touch, LAUNCHER, "is no folder"),
        (nothing, "#!/bin/sh\necho no such library >&2; exit 1\n", "does not run here: no such library"),
    ],
)
def test_a_node_refuses_in_one_line(
    safe: Path,
    capsys: pytest.CaptureFixture[str],
    prepare: Callable[[Path], object],
    script: str,
    reason: str,
) -> None:
    (safe / "p").mkdir(mode=0o755)
    prepare(safe / "p" / "n1")
    words = ("-w", "n[1-2]", "--engine", "local", "--prefix", safe / "p", "--yes")
    code, page, _ = said(capsys, archive(safe, "1.0", script), *words)
    assert code == 1 and "refused: " in page and reason in page
    assert not (safe / "p" / "n1" / "current").exists()
    assert not list((safe / "p" / "n1").rglob("bin/npudoctor"))


def test_another_architecture_and_a_missing_python_are_refused(
    safe: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    elf = b"\x7fELF" + bytes(14) + (183 if os.uname().machine == "x86_64" else 62).to_bytes(2, "little")
    odd = written(safe / "odd.tar.gz", {"odd/bin/npudoctor": b"#!/bin/sh\n", "odd/bin/python3.11": elf})
    words = ("-w", "n1", "--engine", "local", "--prefix", safe / "p", "--dry-run")
    code, page, _ = said(capsys, odd, *words)
    assert code == 1 and "the archive is for " in page
    wheels = written(safe / "wheels.tar.gz", {"w/requirements.lock": b"", "w/wheels/npudoctor-1-py3-none-any.whl": b""})
    tools = safe / "tools"
    tools.mkdir()
    for name in ("sh", "timeout", "flock", "mktemp", "readlink", "sha256sum", "stat", "tar", "id", "uname"):
        (tools / name).symlink_to(shutil.which(name) or "/none")
    monkeypatch.setenv("PATH", str(tools))
    code, page, _ = said(capsys, wheels, *words)
    assert code == 1 and "no Python 3.10 to 3.13 with venv; use the archive with its own Python" in page


def test_what_arrives_damaged_is_not_unpacked(safe: Path) -> None:
    from npudoctor.fleet.engines import Plan, local
    from npudoctor.records import replace

    good = install.read_archive(str(archive(safe, "1.0")))
    bad = replace(good, sha256="0" * 64)
    plan = Plan(names=("n1",), timeout_s=300)
    (row,) = install.install_rows("install", bad, str(safe / "p"), plan, local.ask)
    assert (row.outcome, "arrived damaged" in row.detail) == ("refused", True)
    assert not [one for one in (safe / "p").rglob("*") if one.name == "npudoctor" or ".archive" in one.name]


@pytest.mark.slow
def test_a_wheelhouse_becomes_an_environment_of_its_own(safe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    about = "Metadata-Version: 2.1\nName: npudoctor\nVersion: 1.2\n"
    with zipfile.ZipFile(wheel := io.BytesIO(), "w") as zipped:
        zipped.writestr("npudoctor_told.py", "def console():\n    print('npudoctor 1.2')\n")
        zipped.writestr("npudoctor-1.2.dist-info/METADATA", about)
        zipped.writestr("npudoctor-1.2.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        zipped.writestr("npudoctor-1.2.dist-info/RECORD", "")
        entry = "[console_scripts]\nnpudoctor = npudoctor_told:console\n"
        zipped.writestr("npudoctor-1.2.dist-info/entry_points.txt", entry)
    members = {"w/requirements.lock": b"", "w/wheels/npudoctor-1.2-py3-none-any.whl": wheel.getvalue()}
    path = written(safe / "w.tar.gz", members)
    code, page, _ = said(capsys, path, "-w", "n1", "--engine", "local", "--prefix", safe / "p", "--yes")
    if "no Python 3.10 to 3.13 with venv" in page:
        pytest.skip("no Python with venv")
    assert code == 0, page
    told = subprocess.run([safe / "p/n1/current/bin/npudoctor"], capture_output=True, encoding="utf-8", check=True)
    assert told.stdout == "npudoctor 1.2\n"


@pytest.mark.parametrize(
    ("name", "link", "reason"),
    [
        ("../x/bin/npudoctor", {}, "leads out of its folder"),
        ("/x/bin/npudoctor", {}, "leads out of its folder"),
        ("x/bin/npudoctor", {"x/a": "/etc"}, "is a link that leads out"),
        ("x/bin/npudoctor", {"x/a": "../../etc"}, "is a link that leads out"),
        ("x/bin/npudoctor", {"x/a": "b/../../x"}, "is a link that leads out"),
        ("x/bin/npudoctor", {"y": "x"}, "is a link that leads out"),
        ("x/bin/other", {}, "expected one folder"),
        ("x y/bin/npudoctor", {}, "its folder is called"),
    ],
)
def test_an_archive_that_leads_elsewhere_goes_to_no_node(
    safe: Path, capsys: pytest.CaptureFixture[str], name: str, link: dict[str, str], reason: str
) -> None:
    path = written(safe / "x.tar.gz", {name: b"#!/bin/sh\n"}, **link)
    code, out, err = said(capsys, path, "-w", "n1", "--engine", "local", "--prefix", safe / "p", "--yes")
    assert (code, out) == (2, "") and reason in err and err.count("\n") == 1
    assert not (safe / "p").exists()


def test_an_archive_without_its_checksum_goes_to_no_node(safe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = archive(safe, "1.0")
    words = (path, "-w", "n1", "--engine", "local", "--prefix", safe / "p", "--dry-run")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    beside = path.with_name(f"{path.name}.sha256")
    beside.unlink()
    assert "its checksum is missing" in said(capsys, *words)[2]
    (safe / "SHA256SUMS").write_text(f"{'1' * 64}  other.tar.gz\n{digest}  {path.name}\n", encoding="utf-8")
    assert said(capsys, *words)[0] == 0
    beside.write_text("1" * 64, encoding="utf-8")
    assert f"expected {'1' * 64}" in said(capsys, *words)[2]
    path.write_bytes(b"no archive")
    beside.write_text(hashlib.sha256(b"no archive").hexdigest(), encoding="utf-8")
    assert "no tar.gz" in said(capsys, *words)[2]
