"""A name service that does not answer (a dead LDAP) holds nothing up: names are "could not determine" after seconds."""

import os
import pwd
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from npudoctor.cli import main
from npudoctor.host import Because, Unavailable
from npudoctor.host.live import accounts, job_environment
from npudoctor.host.live.local import LocalHost
from tests.plain_user import ALICE, as_root, identity

SILENT = 40_404
"""A user whom no local file names."""

SLOW = """
#include <grp.h>
#include <pwd.h>
#include <unistd.h>
#define HANGS(name, told) int name told { sleep(100000); return 5; }
HANGS(getpwnam_r, (const char *a, struct passwd *b, char *c, size_t d, struct passwd **e))
HANGS(getpwuid_r, (uid_t a, struct passwd *b, char *c, size_t d, struct passwd **e))
HANGS(getgrnam_r, (const char *a, struct group *b, char *c, size_t d, struct group **e))
HANGS(getgrgid_r, (gid_t a, struct group *b, char *c, size_t d, struct group **e))
HANGS(getgrouplist, (const char *a, gid_t b, gid_t *c, int *d))
struct passwd *getpwnam(const char *name) { sleep(100000); return NULL; }
struct passwd *getpwuid(uid_t uid) { sleep(100000); return NULL; }
struct passwd *getpwent(void) { sleep(100000); return NULL; }
"""


@pytest.fixture(scope="module")
def dead_service(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The variables under which no user and no group can be looked up."""
    if not (compiler := shutil.which("gcc") or shutil.which("cc")):
        pytest.skip("no C compiler is installed")
    folder = tmp_path_factory.mktemp("nss")
    (folder / "slow.c").write_text(SLOW, encoding="utf-8")
    argv = [compiler, "-shared", "-fPIC", "-w", "-o", str(folder / "slow.so"), str(folder / "slow.c")]
    subprocess.run(argv, check=True, capture_output=True)
    return {**os.environ, "LD_PRELOAD": str(folder / "slow.so")}


def npudoctor(environ: dict[str, str], *words: str) -> "subprocess.CompletedProcess[str]":
    argv = [sys.executable, "-m", "npudoctor", *words]
    done = subprocess.run(argv, env=environ, capture_output=True, encoding="utf-8", check=False, timeout=200)
    assert "Traceback" not in done.stderr
    return done


def test_a_check_ends_and_says_what_could_not_be_looked_up(dead_service: dict[str, str]) -> None:
    checks = ("system.user", "npu.present", "hccl.ports-free", "system.limits")
    known = npudoctor(dict(os.environ), "list", "--json").stdout
    words = [one for one in checks if f'"{one}"' in known]
    done = npudoctor(dead_service, "check", *words, "--environment", "process")
    assert done.returncode in (0, 1, 3)
    assert "user and group names could not be looked up within 5 s (name service)" in done.stderr


@pytest.mark.parametrize(
    "words",
    [("--version",), ("list",), ("check", "--simulate", "seed-910b1"), ("healthcheck", "--simulate", "seed-910b1")],
)
def test_what_needs_no_names_asks_for_none(dead_service: dict[str, str], words: tuple[str, ...]) -> None:
    done = npudoctor(dead_service, *words)
    assert (done.returncode in (0, 1), "name service" in done.stderr) == (True, False)


def test_a_login_that_cannot_be_looked_up_could_not_be_determined(dead_service: dict[str, str]) -> None:
    words = ("facts", "node.job_environment", "--environment", "login:nobody-has-this-name")
    done = npudoctor(dead_service, *words)
    assert "could not be looked up within 5 s" in done.stdout


def test_a_daemon_that_cannot_look_up_its_group_says_so(dead_service: dict[str, str], tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text('[daemon]\ngroup = "nobody-has-this-group"\n', encoding="utf-8")
    where = ("--socket", str(tmp_path / "s"), "--state-dir", str(tmp_path), "--config", str(config))
    done = npudoctor(dead_service, "daemon", *where, "--simulate", "seed-910b1")
    assert (done.returncode, "could not be looked up within 5 s" in done.stderr) == (2, True)


# By itself, without a C compiler


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """A name service that never answers for a user; which were asked for."""
    asked: list[int] = []
    over = threading.Event()

    def waiting(uid: Any) -> pwd.struct_passwd:
        asked.append(uid)
        over.wait(120)
        raise KeyError(uid)

    for name in ("getpwuid", "getpwnam"):
        monkeypatch.setattr(pwd, name, waiting)
    monkeypatch.setattr(accounts, "DEADLINE_S", 0.05)
    monkeypatch.setattr(accounts, "_pause_ends_s", [])
    yield asked
    over.set()


def test_after_one_that_was_late_only_the_local_files_are_asked(silent: list[int]) -> None:
    assert accounts.problem() is None
    assert accounts.user_name(0) == "root", "/etc/passwd knows it"
    assert accounts.user_name(SILENT) == str(SILENT)
    asks: list[Callable[[], object]] = [
        lambda: accounts.user_by_id(SILENT),
        lambda: accounts.user_by_name("nobody-has-this-name"),
    ]
    for ask in asks:
        with pytest.raises(Unavailable, match="could not be looked up") as why:
            ask()
        assert why.value.because is Because.TIMED_OUT
    assert len(silent) == 1
    assert "name service" in (accounts.problem() or "")


def test_the_service_is_asked_again_after_a_while(silent: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    accounts.user_name(SILENT)
    monkeypatch.setattr(accounts, "_pause_ends_s", [0.0])
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: pwd.struct_passwd(("late", "x", uid, uid, "", "/", "/bin/sh")))
    monkeypatch.setattr(accounts, "DEADLINE_S", 60.0)
    assert accounts.user_name(SILENT) == "late"
    assert accounts.problem() is None


def test_who_asks_and_whose_processes_run_is_known_by_number(silent: list[int]) -> None:
    assert LocalHost().user.uid == os.geteuid()
    rows: Any = LocalHost().measure("processes")
    assert rows
    assert all(row["username"] for row in rows)
    assert len(silent) == 1


@as_root
def test_a_process_of_a_user_without_a_name_has_a_number(silent: list[int]) -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, **identity(ALICE)) as process:
        measured: Any = LocalHost().measure("processes")
        rows = {row["pid"]: row for row in measured}
        assert process.stdin is not None
        process.stdin.close()
    assert rows[process.pid]["username"] == str(ALICE)


def test_without_a_home_and_a_name_it_runs_on(
    silent: list[int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert main(["check", "npu.present", "--simulate", "seed-910b1"]) == 0
    assert accounts.home() is not None or os.geteuid() != 0
    capsys.readouterr()


def test_the_environment_of_an_unknown_login_is_unavailable(silent: list[int]) -> None:
    whose, variables, _ = job_environment.resolve("login:nobody-has-this-name", LocalHost())
    assert whose == "login:nobody-has-this-name"
    assert isinstance(variables, Unavailable)
    assert variables.because is Because.TIMED_OUT


def test_a_login_that_fails_is_no_internal_error_of_a_fix(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: Any) -> None:
        raise Unavailable("no job environment: the login shell of dora failed", because=Because.FAILED)

    monkeypatch.setattr(job_environment, "_login", fails)
    login = f"login:{accounts.user_name(os.geteuid())}"
    assert main(["fix", "hccl.reserve-ports", "--dry-run", "--environment", login, "--state", str(tmp_path)]) != 4
    assert "internal error" not in capsys.readouterr().err


def test_threads_that_are_refused_are_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    assert accounts.user_name(0) == "root"
    with pytest.raises(Unavailable, match="can't start new thread"):
        accounts.user_by_name("nobody-has-this-name")


LOOKUPS = re.compile(r"import (pwd|grp)\b|\b(pwd|grp)\.get|expanduser\(|\.username\(\)")


def test_nobody_else_looks_up_users_and_groups() -> None:
    package = Path(accounts.__file__).parents[1]
    found = [
        f"{path.relative_to(package)}: {line.strip()}"
        for path in sorted(package.rglob("*.py"))
        if path.name not in ("accounts.py", "worker.py") and "in_target" not in path.parts
        for line in path.read_text(encoding="utf-8").splitlines()
        if LOOKUPS.search(line)
    ]
    assert found == []
