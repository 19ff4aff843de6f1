"""Whose variables are judged, with real processes, login shells and files."""

import os
import pwd
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from npudoctor.host.live import job_environment
from npudoctor.host.live.local import LocalHost

ME = next((one.pw_name for one in pwd.getpwall() if one.pw_uid == os.geteuid()), "")
with_account = pytest.mark.skipif(not ME, reason="requires a user with an account: it looks at a login")


def variables(spec: str | None) -> tuple[str, Mapping[str, str]]:
    whose, found, _ = job_environment.resolve(spec, LocalHost())
    assert isinstance(found, Mapping), found
    return whose, found


def test_by_default_it_is_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HCCL_IF_BASE_PORT", "50000")
    whose, found = variables("process")
    assert (whose, found["HCCL_IF_BASE_PORT"]) == ("process", "50000")


def test_under_sudo_it_is_the_person_who_called_it(monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root runs under sudo")
    monkeypatch.setenv("SUDO_USER", "nobody")
    whose, _, _ = job_environment.resolve(None, LocalHost())
    assert whose == "login:nobody"


@with_account
def test_a_login_environment_comes_from_the_login_shell_and_not_from_this_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HCCL_IF_BASE_PORT", "50000")
    whose, found = variables("login")
    assert whose == f"login:{ME}"
    assert "HCCL_IF_BASE_PORT" not in found
    assert found["USER"] == ME


def test_a_running_process_lends_its_own() -> None:
    argv = ["/bin/sh", "-c", "echo ready; read _"]
    with subprocess.Popen(argv, env={"WORLD_SIZE": "8"}, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as job_process:
        assert job_process.stdout and job_process.stdout.readline() == b"ready\n"
        assert variables(f"pid:{job_process.pid}")[1]["WORLD_SIZE"] == "8"


def test_a_file_of_assignments_is_read(tmp_path: Path) -> None:
    path = tmp_path / "job.env"
    path.write_text("# the job\nexport HCCL_BUFFSIZE=120\nMASTER_ADDR='10.0.0.7'\n\n", encoding="utf-8")
    assert variables(f"file:{path}")[1] == {"HCCL_BUFFSIZE": "120", "MASTER_ADDR": "10.0.0.7"}


WRONG = {
    "nobody": "expected process, login, login:USER, pid:N or file:PATH",
    "pid:many": "expected process",
    "pid:999999999": "there is no process 999999999",
    "login:no-such-user": "there is no user 'no-such-user'",
    "file:/no/such/file": "No such file or directory",
}


@pytest.mark.parametrize(("spec", "said"), WRONG.items())
def test_what_names_nobody_is_refused_in_one_line(spec: str, said: str) -> None:
    with pytest.raises(job_environment.BadEnvironment) as problem:
        job_environment.resolve(spec, LocalHost())
    assert said in str(problem.value)
    assert "\n" not in str(problem.value)


def test_a_file_that_is_no_list_of_assignments_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("just words\n", encoding="utf-8")
    with pytest.raises(job_environment.BadEnvironment, match="is no KEY=VALUE: 'just words'"):
        job_environment.resolve(f"file:{tmp_path}/x", LocalHost())


@pytest.mark.parametrize("ancestor", ["cron", "ansible-playbook"])
def test_cron_and_ansible_are_known_by_the_processes_above(tmp_path: Path, ancestor: str) -> None:
    parent = tmp_path / ancestor
    parent.symlink_to(sys.executable)
    script = (
        "import subprocess, sys\n"
        "print(subprocess.run([sys.argv[1], '-c', sys.argv[2]], capture_output=True, text=True, stdin=0).stdout)\n"
    )
    asked = "from npudoctor.host.live.job_environment import _started_by_a_service as by; print(by())"
    argv = [str(parent), "-c", script, sys.executable, asked]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", check=True)
    assert done.stdout.strip() == "True", done.stderr
