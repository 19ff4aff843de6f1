"""The archives, packages and wheelhouse in a root of another system, without network: run by hand, with `-m slow`.

NPUDOCTOR_ROOT names the root, of x86_64 or of aarch64 (which requires qemu-user-static of Debian, and binfmt_misc with
the flags OPF); else debootstrap makes one of Debian 11. NPUDOCTOR_ARCHIVES names the folder of the files, else dist/;
they must be of the commit that is checked out. NPUDOCTOR_ROOT_TESTS names the tests that run on the archive's Python.
The test of NSS requires the package libnss-extrausers in the root.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from npudoctor import __version__
from tests.deploy.test_archive import FIPS, FOLDER

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT))  # at the end: npudoctor itself is the installed one

from tools.archive import elf, packages  # noqa: E402

LIMIT_S = 3600.0
DEBIAN = ("bullseye", "http://deb.debian.org/debian")

pytestmark = pytest.mark.slow

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def command(*argv: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*map(str, argv)], capture_output=True, encoding="utf-8", check=False, timeout=LIMIT_S, stdin=subprocess.DEVNULL
    )


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if os.geteuid() or command("unshare", "-mn", "true").returncode:
        pytest.skip("requires root and namespaces")
    if named := os.environ.get("NPUDOCTOR_ROOT"):
        return Path(named)
    folder = tmp_path_factory.mktemp("root")
    if shutil.which("debootstrap") is None:
        pytest.skip("requires debootstrap, or a root that NPUDOCTOR_ROOT names")
    done = command("debootstrap", "--variant=minbase", "--include=rpm", DEBIAN[0], folder, DEBIAN[1])
    if done.returncode:
        pytest.skip(f"no root could be made: {done.stdout[-300:]}")
    return folder


@pytest.fixture(scope="module")
def architecture(system: Path) -> str:
    found = elf.read((system / "usr/bin/env").resolve())
    assert found is not None
    return found.architecture


@pytest.fixture
def run(system: Path, tmp_path: Path) -> Iterator[Run]:
    """A command in the root, with the files at /files and without network; what it writes is gone after the test."""
    for name in ("upper", "work", "merged", "files"):
        (tmp_path / name).mkdir()
    layers = f"lowerdir={system},upperdir={tmp_path}/upper,workdir={tmp_path}/work"
    setup = f"""set -e
        mount -t overlay overlay -o {layers} {tmp_path}/merged
        mkdir -p {tmp_path}/merged/files {tmp_path}/merged/made
        mount --bind {FOLDER} {tmp_path}/merged/files
        mount --bind {tmp_path}/files {tmp_path}/merged/made
        mount -t proc proc {tmp_path}/merged/proc
        mount -t tmpfs -o noexec tmpfs {tmp_path}/merged/tmp
        exec chroot {tmp_path}/merged env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin sh -euc "$1" """

    def inside(script: str) -> subprocess.CompletedProcess[str]:
        return command("unshare", "-mn", "--pid", "--fork", "sh", "-c", setup, "sh", script)

    yield inside


def file(pattern: str) -> str:
    found = sorted(FOLDER.glob(pattern))
    if not found:
        pytest.skip(f"no {pattern} in {FOLDER}; python3.11 -m tools.archive --packages makes it")
    return f"/files/{found[-1].name}"


def ok(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


VERSION = f"npudoctor {__version__}"


def test_the_archive_checks_where_it_was_unpacked_moved_to_and_mounted_read_only(run: Run, architecture: str) -> None:
    archive = file(f"npudoctor-{__version__}-linux-{architecture}.tar.gz")
    said = ok(
        run(f"""cd /opt; tar -xzf {archive}; mv npudoctor-* 'moved here'
            mkdir ro; mount --bind 'moved here' ro; mount -o remount,ro,bind ro; ! touch ro/x 2>/dev/null
            ro/bin/npudoctor --version
            ro/bin/npudoctor check --simulate healthy-a3 --json >/root/simulated.json
            'moved here'/bin/npudoctor check --json >/root/live.json || [ $? = 1 ]
            cat /root/simulated.json; echo; cat /root/live.json""")
    )
    first, rest = said.split("\n", 1)
    assert first == VERSION
    simulated, end = json.JSONDecoder().raw_decode(rest)
    live = json.loads(rest[end:])
    assert simulated["exit_code"] == 0
    assert live["tool_version"] == __version__


def test_every_part_of_the_archive_is_there(run: Run, architecture: str) -> None:
    archive = file(f"npudoctor-{__version__}-linux-{architecture}.tar.gz")
    parts = "npudoctor.daemon.service, npudoctor.tui.app, textual_serve.server, ClusterShell.Task, yaml, sqlite3, ssl"
    ok(run(f"cd /opt; tar -xzf {archive}; npudoctor-*/bin/python3.11 -I -c 'import {parts}'"))


def test_the_one_file_runs_with_a_noexec_tmp(run: Run, architecture: str) -> None:
    one = file(f"npudoctor-{__version__}-linux-{architecture}.run")
    said = ok(
        run(f"""cp {one} /tmp/npudoctor.run; sh /tmp/npudoctor.run --version; sh /tmp/npudoctor.run --version
            stat -c %a /var/cache/npudoctor/*; rm -rf /var/cache/npudoctor
            setpriv --reuid 4321 --regid 4321 --clear-groups env NPUDOCTOR_HOME=/nowhere sh /tmp/npudoctor.run 2>&1 || :
            mkdir -m 700 /srv/own; chown 4321:4321 /srv/own
            setpriv --reuid 4321 --regid 4321 --clear-groups env NPUDOCTOR_HOME=/srv/own sh /tmp/npudoctor.run --version
            """)
    ).splitlines()
    assert said[:3] == [VERSION, VERSION, "700"]
    assert "cannot write /nowhere" in said[3]
    assert said[4] == VERSION


def unpacked(architecture: str) -> str:
    """Lines of a script that unpack the archive, and name its folder A."""
    return (
        f"cd /opt; tar -xzf {file(f'npudoctor-{__version__}-linux-{architecture}.tar.gz')}; A=$(echo /opt/npudoctor-*)"
    )


FIRST_FRAME = """
import os, re, select, struct, subprocess, sys, termios, time, fcntl
ours, theirs = os.openpty()
fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
variables = {**os.environ, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
began = time.monotonic()
process = subprocess.Popen(sys.argv[2:], stdin=theirs, stdout=theirs, stderr=theirs, env=variables,
                           preexec_fn=lambda: os.login_tty(theirs))
os.close(theirs)
drawn = b""
while sys.argv[1].encode() not in re.sub(rb"\x1b\\[[0-9;?]*[a-zA-Z]", b"", drawn):
    if not select.select([ours], [], [], 300)[0]:
        sys.exit(f"nothing more was drawn: {drawn[-2000:]!r}")
    drawn += os.read(ours, 65536)
print(f"{time.monotonic() - began:.1f} s", file=sys.stderr)
os.write(ours, b"q")
try:
    while os.read(ours, 65536):
        pass
except OSError:
    pass  # it has closed its side
print("ended with", process.wait())
"""


def test_the_terminal_interface_draws_its_first_frame(run: Run, architecture: str, tmp_path: Path) -> None:
    (tmp_path / "files/frame.py").write_text(FIRST_FRAME, encoding="utf-8")
    done = run(f"""{unpacked(architecture)}
        mkdir -p /dev/pts; mount -t devpts -o newinstance,ptmxmode=0666 devpts /dev/pts; ln -sf pts/ptmx /dev/ptmx
        $A/bin/python3.11 -I /made/frame.py Re-check $A/bin/npudoctor tui --simulate sick-cards""")
    assert ok(done).strip() == "ended with 0"
    print(f"first frame after {done.stderr.strip()}")


DAEMON = """
    mkdir -m 700 /root/d
    $A/bin/npudoctor daemon --socket /root/d/s --state-dir /root/d --simulate healthy-a3 >/root/d/log 2>&1 & daemon=$!
    until [ -S /root/d/s ]; do kill -0 $daemon || { cat /root/d/log; exit 1; }; sleep 0.2; done
    $A/bin/python3.11 -I -c 'if 1:
        import socket
        one = socket.socket(socket.AF_UNIX)
        one.connect("/root/d/s")
        one.sendall(b"GET /livez HTTP/1.0\\r\\n\\r\\n")
        print(one.makefile().readline().split()[1])'
    kill -TERM $daemon; wait $daemon; echo stopped with $?
"""


def test_the_daemon_of_the_archive_serves_and_stops(run: Run, architecture: str) -> None:
    assert ok(run(unpacked(architecture) + DAEMON)).splitlines() == ["200", "stopped with 0"]


def test_settings_of_a_system_in_fips_mode_do_not_stop_it(run: Run, architecture: str, tmp_path: Path) -> None:
    """The settings of this kernel cannot be changed to FIPS mode; those of OpenSSL are."""
    (tmp_path / "files/openssl.cnf").write_text(FIPS, encoding="utf-8")
    said = ok(
        run(f"""{unpacked(architecture)}
            export OPENSSL_CONF=/made/openssl.cnf OPENSSL_FORCE_FIPS_MODE=1
            $A/bin/npudoctor check --simulate healthy-a3 --json >/dev/null
            $A/bin/npudoctor record --simulate healthy-a3 --redact /root/node.tar.gz >/dev/null 2>&1
            $A/bin/npudoctor check --replay /root/node.tar.gz >/dev/null {DAEMON}""")
    )
    assert said.splitlines() == ["200", "stopped with 0"]


def test_a_user_whom_only_nss_knows_is_known(run: Run, architecture: str, system: Path) -> None:
    if not list(system.glob("usr/lib/**/libnss_extrausers.so.2")):
        pytest.skip("no libnss-extrausers in the root")
    one = file(f"npudoctor-{__version__}-linux-{architecture}.run")
    said = ok(
        run(f"""{unpacked(architecture)}
            sed -i 's/^\\(passwd\\|group\\):.*/\\1: files extrausers/' /etc/nsswitch.conf
            echo 'nora:x:4322:4323::/home/nora:/bin/sh' >/var/lib/extrausers/passwd
            echo 'ascend:x:4323:' >/var/lib/extrausers/group
            install -d -m 700 -o 4322 -g 4323 /home/nora; ! grep nora /etc/passwd
            as="setpriv --reuid 4322 --regid 4323 --clear-groups env -u HOME"
            $as $A/bin/python3.11 -I -c 'if 1:
                from npudoctor.host.live import accounts
                print(accounts.user_by_id(4322).pw_name, accounts.user_by_name("nora").pw_uid)
                print(accounts.group_by_id(4323).gr_name, accounts.groups_of("nora", 4323))'
            $as $A/bin/npudoctor check --simulate healthy-a3 >/dev/null
            $as sh {one} --version; ls -d /home/nora/.cache/npudoctor""")
    )
    assert said.splitlines() == ["nora 4322", "ascend [4323]", VERSION, "/home/nora/.cache/npudoctor"]


def test_self_uninstall_shows_first_and_removes_only_its_own(run: Run, architecture: str) -> None:
    said = ok(
        run(f"""{unpacked(architecture)}
            mkdir -p /var/lib/npudoctor /etc/npudoctor /var/lib/other; touch /var/lib/npudoctor/x /var/lib/other/x
            $A/bin/npudoctor self uninstall >/root/first 2>&1 || echo $?; ls -d /var/lib/npudoctor
            grep -c /var/lib/npudoctor /root/first
            $A/bin/npudoctor self uninstall --dry-run >/dev/null; ls -d /var/lib/npudoctor
            $A/bin/npudoctor self uninstall --yes >/root/second 2>&1 || (cat /root/second; exit 1)
            ! ls -d /var/lib/npudoctor 2>/dev/null
            ls -d /etc/npudoctor /var/lib/other/x $A/bin/npudoctor""")
    ).splitlines()
    assert said[:2] == ["7", "/var/lib/npudoctor"] and said[3] == "/var/lib/npudoctor", "first shown, not confirmed"
    assert int(said[2]) >= 1
    assert said[4] == "/etc/npudoctor" and said[5].endswith("/bin/npudoctor") and said[6:] == ["/var/lib/other/x"]


TEST_PACKAGES = ("pytest", "pluggy", "iniconfig", "hypothesis", "sortedcontainers", "httpx", "httpcore", "junitparser")


def test_the_fast_tests_pass_on_the_python_of_the_archive(run: Run, architecture: str, tmp_path: Path) -> None:
    """The tests of the last commit; some minutes, under emulation much longer."""
    chosen = os.environ.get("NPUDOCTOR_ROOT_TESTS", "tests/facts tests/checks tests/core")
    packages = tmp_path / "files" / "packages"
    pip: list[str | Path] = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-deps",
        "--no-compile",
        "--target",
        packages,
    ]
    done = command(
        *pip, "-c", ROOT / "constraints.txt", "--only-binary=:all:", "--python-version", "3.11",
        "--platform", f"manylinux2014_{architecture}", "--platform", f"manylinux_2_28_{architecture}", *TEST_PACKAGES,
    )  # fmt: skip
    if done.returncode:
        pytest.skip(f"the packages of the tests cannot be had: {done.stderr[-300:]}")
    tree = tmp_path / "files" / "checkout"
    tree.mkdir()
    ok(command("sh", "-c", f"git -C '{ROOT}' archive HEAD | tar -x -C '{tree}'"))
    said = run(f"""{unpacked(architecture)}
        cd /made/checkout; mkdir /root/tmp
        export PYTHONPATH=/made/packages PYTHONDONTWRITEBYTECODE=1 TMPDIR=/root/tmp LC_ALL=C.UTF-8
        $A/bin/python3.11 -P -c 'import npudoctor; assert npudoctor.__file__.startswith("/opt/npudoctor-")'
        $A/bin/python3.11 -P -m pytest -q -p no:cacheprovider -m 'not slow and not thorough' {chosen}""")
    print(said.stdout[-3000:])
    assert said.returncode == 0, said.stdout[-6000:] + said.stderr[-1000:]


def newer(folder: Path, architecture: str) -> None:
    """Both packages of a next version, with a shell script in the place of npudoctor."""
    if shutil.which("rpmbuild") is None or shutil.which("dpkg-deb") is None:
        pytest.skip("requires rpmbuild and dpkg-deb")
    tree = folder / "stage" / "npudoctor"
    service = tree / "lib/python3.11/site-packages/npudoctor/deploy/systemd/npudoctor.service"
    service.parent.mkdir(parents=True)
    shutil.copy2(ROOT / "npudoctor/deploy/systemd/npudoctor.service", service)
    (tree / "bin").mkdir()
    (tree / "bin/npudoctor").write_text("#!/bin/sh\necho next\n", encoding="utf-8")
    (tree / "bin/npudoctor").chmod(0o755)
    out = folder / "files"
    packages.build(tree, out, version="99.0.0", architecture=architecture, epoch=1_790_000_000)


AFTER = """
    mkdir -p /var/lib/npudoctor /etc/npudoctor; touch /var/lib/npudoctor/history.db
    npudoctor --version; npudoctor check --simulate healthy-a3 >/dev/null
    readlink /usr/bin/npudoctor; grep ExecStart= /usr/lib/systemd/system/npudoctor.service
    ! ls /etc/systemd/system/multi-user.target.wants/npudoctor.service 2>/dev/null
    mkdir -p /etc/systemd/system/multi-user.target.wants
    ln -s /usr/lib/systemd/system/npudoctor.service /etc/systemd/system/multi-user.target.wants/
    {upgrade} >/dev/null
    npudoctor; ls /opt/npudoctor/bin; [ -h /etc/systemd/system/multi-user.target.wants/npudoctor.service ]
    {remove} >/dev/null
    ls -d /opt/npudoctor /usr/bin/npudoctor /usr/lib/systemd/system/npudoctor.service 2>/dev/null || :
    ls -d /etc/systemd/system/multi-user.target.wants/npudoctor.service 2>/dev/null || :
    ls /var/lib/npudoctor /etc/npudoctor -d
"""
EXPECTED = [
    VERSION,
    "/opt/npudoctor/bin/npudoctor",
    "ExecStart=/usr/bin/npudoctor daemon",
    "next",
    "npudoctor",
    "/etc/npudoctor",
    "/var/lib/npudoctor",
]


def test_the_deb_is_installed_upgraded_and_removed(run: Run, architecture: str, tmp_path: Path) -> None:
    name = {"x86_64": "amd64", "aarch64": "arm64"}[architecture]
    package = file(f"npudoctor_{__version__}_{name}.deb")
    newer(tmp_path, architecture)
    after = AFTER.format(upgrade=f"dpkg -i /made/npudoctor_99.0.0_{name}.deb", remove="dpkg -r npudoctor")
    assert ok(run(f"dpkg -i {package} >/dev/null\n{after}")).splitlines() == EXPECTED


def test_the_rpm_is_installed_upgraded_and_removed(run: Run, architecture: str, system: Path, tmp_path: Path) -> None:
    """A system of Debian knows no packages of rpm, so that it cannot tell that glibc is there."""
    if not (system / "usr/bin/rpm").exists():
        pytest.skip("no rpm in the root")
    package = file(f"npudoctor-{__version__}-1.{architecture}.rpm")
    newer(tmp_path, architecture)
    upgrade = f"rpm -U --nodeps /made/npudoctor-99.0.0-1.{architecture}.rpm"
    after = AFTER.format(upgrade=upgrade, remove="rpm -e npudoctor")
    assert ok(run(f"rpm -U --nodeps {package} >/dev/null\n{after}")).splitlines() == EXPECTED


def test_the_wheelhouse_installs_without_network(tmp_path: Path) -> None:
    """With this Python, on this machine."""
    wheels = FOLDER / Path(file(f"npudoctor-{__version__}-wheels-linux-{platform.machine()}.tar.gz")).name
    ok(command("tar", "-xzf", wheels, "-C", tmp_path, "--strip-components=1"))
    install = f"""set -e; cd {tmp_path}; {sys.executable} -m venv venv
        venv/bin/pip install -q --no-index --find-links wheels --require-hashes -r requirements.lock
        venv/bin/pip install -q --no-index --find-links wheels --no-deps npudoctor
        cd /; {tmp_path}/venv/bin/npudoctor --version
        {tmp_path}/venv/bin/npudoctor check --simulate healthy-a3 >/dev/null"""
    alone = ["unshare", "-rn"] if command("unshare", "-rn", "true").returncode == 0 else []
    assert (
        ok(command(*alone, "env", "-u", "PYTHONPATH", "PIP_CONFIG_FILE=/dev/null", "sh", "-c", install)).strip()
        == VERSION
    )
