"""What a process of a user is given, and what root refuses to run: by the kernel's own account of it."""

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from npudoctor.host import Because, Completed, Unavailable, User
from npudoctor.host.live import identity, job_environment, local, scripts
from npudoctor.host.live.identity import Start, user_of
from npudoctor.host.live.local import LocalHost
from npudoctor.host.live.python_owner import handed_on, python_user
from npudoctor.smoke import plan, runner
from npudoctor.smoke.events import RankFailed
from tests.plain_user import ALICE, BOB, as_root, give, run_as

pytestmark = as_root

PYTHON = "/usr/bin/python3"
needs_python = pytest.mark.skipif(not os.path.exists(PYTHON), reason=f"{PYTHON} is not installed")
CLEAN = {"PATH": "/usr/bin:/bin", "HOME": "/"}
"""Variables of root that name nothing of another user."""


def owned_by(user: User, variables: Mapping[str, str] = CLEAN) -> LocalHost:
    """This machine, judged in an environment that this user wrote."""
    return LocalHost(environ=variables, environment="login:alice", owner=user)


@pytest.fixture
def shown(open_folder: Path) -> Path:
    """A Python of alice that prints what the kernel says of it."""
    path = open_folder / "python3"
    path.write_text("#!/bin/sh\ncat /proc/self/status; ls -l /proc/self/fd; pwd; ulimit -c; env\n", encoding="utf-8")
    path.chmod(0o755)
    return give(path, ALICE)


def status(done: Completed) -> dict[str, list[str]]:
    """The lines of /proc/self/status by name."""
    pairs = (line.partition(":") for line in done.stdout.splitlines() if ":\t" in line)
    return {name: value.split() for name, _, value in pairs}


@pytest.mark.parametrize("has_call", [True, False])
def test_a_python_of_an_old_glibc_starts_a_process_of_a_user(
    has_call: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """That of the archive has no os.memfd_create; Linux 3.10 does not have the call."""
    monkeypatch.delattr(os, "memfd_create")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    if not has_call:
        monkeypatch.setattr(identity, "_MEMFD_CREATE", {})
    handle = identity.unnamed_file()
    try:
        assert ("memfd:npudoctor" in os.readlink(f"/proc/self/fd/{handle}")) is has_call
        assert not os.get_inheritable(handle) and os.fstat(handle).st_nlink == 0
    finally:
        os.close(handle)
    start = Start(user_of(ALICE), ["/usr/bin/id", "-u"], {"PATH": "/usr/bin:/bin"})
    done = subprocess.run(
        start.argv, env=start.environ, cwd=start.cwd, pass_fds=start.descriptors, capture_output=True, check=False
    )
    start.must_have_started()
    assert done.stdout == f"{ALICE}\n".encode()
    assert list(tmp_path.iterdir()) == []


def test_a_process_of_a_user_has_his_ids_and_groups_and_no_way_back(shown: Path) -> None:
    alice = User(name="alice", uid=ALICE, gid=ALICE, gids=(ALICE, BOB), groups=())
    done = owned_by(alice).run_in_target("environment", str(shown), timeout=60)
    said = status(done)
    assert said["Uid"] == said["Gid"] == [str(ALICE)] * 4
    assert set(said["Groups"]) == {str(ALICE), str(BOB)}
    assert said["NoNewPrivs"] == ["1"]
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(said[name][0], 16) == 0, name
    assert said["SigIgn"] == ["0000000000000000"]


def test_a_process_of_a_user_inherits_no_descriptor_and_no_core_limit(shown: Path, open_folder: Path) -> None:
    secret = open_folder / "secret"
    secret.write_text("secret", encoding="utf-8")
    with open(secret, encoding="utf-8") as file:
        os.set_inheritable(file.fileno(), True)
        host = owned_by(user_of(ALICE))
        with host.lock(str(open_folder / "lock")):
            done = host.run_in_target("environment", str(shown), timeout=60)
    numbers = {line.split()[8] for line in done.stdout.splitlines() if " -> " in line}
    assert numbers - {"3"} == {"0", "1", "2"}  # 3 is that of `ls` itself
    assert "memfd" not in done.stdout
    assert "secret" not in done.stdout
    assert "\n0\n" in done.stdout


@pytest.mark.parametrize("mode", [0o1777, 0o755])
def test_it_works_in_a_folder_where_others_cannot_add_a_module(shown: Path, open_folder: Path, mode: int) -> None:
    folder = open_folder / "work"
    folder.mkdir()
    folder.chmod(mode)
    before = os.getcwd()
    os.chdir(folder)
    try:
        done = owned_by(user_of(ALICE)).run_in_target("environment", str(shown), timeout=60)
    finally:
        os.chdir(before)
    assert ("\n/\n" if mode == 0o1777 else f"\n{folder}\n") in done.stdout


@pytest.fixture
def logger() -> Iterator[Path]:
    """A library that notes as whom it is loaded; its folder has no space, which separates names in LD_PRELOAD."""
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    folder = Path(tempfile.mkdtemp(prefix="npudoctor-test-"))
    folder.chmod(0o755)
    source, library, seen = folder / "log.c", folder / "log.so", folder / "seen"
    seen.write_text("", encoding="utf-8")
    seen.chmod(0o666)
    source.write_text(
        "#include <stdio.h>\n#include <unistd.h>\n"
        "__attribute__((constructor)) static void note(void) {\n"
        f'    FILE *file = fopen("{seen}", "a");\n'
        '    if (file) { fprintf(file, "%d\\n", getuid()); fclose(file); }\n}\n',
        encoding="utf-8",
    )
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    yield give(library, ALICE)
    shutil.rmtree(folder)


def test_a_preloaded_library_of_a_user_is_never_loaded_with_roots_rights(logger: Path, shown: Path) -> None:
    host = owned_by(user_of(ALICE), {"LD_PRELOAD": str(logger), "PATH": "/usr/bin:/bin"})
    done = host.run_in_target("environment", str(shown), timeout=60)
    assert f"LD_PRELOAD={logger}" in done.stdout
    assert set((logger.parent / "seen").read_text(encoding="utf-8").split()) == {str(ALICE)}


def test_the_program_that_drops_the_rights_has_no_variable_of_the_user() -> None:
    start = Start(user_of(ALICE), ["/bin/true"], {"LD_PRELOAD": "/home/x.so", "SECRET": "s", "NPUDOCTOR_CALL": "1.2"})
    assert set(start.environ) <= {"LD_LIBRARY_PATH", "NPUDOCTOR_CALL"}
    assert start.environ.get("LD_LIBRARY_PATH") == os.environ.get("LD_LIBRARY_PATH")
    assert not any("SECRET" in word or "x.so" in word for word in start.argv)


@needs_python
def test_the_scripts_are_found_where_npudoctor_lies_below_a_private_folder(
    open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    private = open_folder / "private"
    shutil.copytree(local.SCRIPTS, private / "in_target")
    private.chmod(0o700)
    monkeypatch.setattr(local, "SCRIPTS", str(private / "in_target"))
    host = owned_by(user_of(ALICE))
    done = host.run_in_target("environment", PYTHON, timeout=60)
    assert '"version"' in done.stdout, done.stderr
    done = host.run_in_target("import torch", PYTHON, timeout=60)
    assert "ok" in done.stdout, done.stderr
    copy = Path(host._scripts.readable_by(user_of(ALICE), "environment.py")).parent
    assert run_as(ALICE, ["sh", "-c", f"echo x >>'{copy}/environment.py' || touch '{copy}/json.py'"]).returncode
    host.close()
    assert not copy.exists()


def test_whether_a_user_can_read_a_script_is_told_by_modes(open_folder: Path) -> None:
    path = open_folder / "folder" / "script"
    path.parent.mkdir()
    path.write_text("", encoding="utf-8")
    for folder_mode, file_mode, expected in ((0o755, 0o644, True), (0o700, 0o644, False), (0o755, 0o600, False)):
        path.parent.chmod(folder_mode)
        path.chmod(file_mode)
        assert scripts.can_read(user_of(ALICE), str(path)) is expected


# What root does not run at all


def _owned(folder: Path, name: str, owner: int, mode: int = 0o755) -> Path:
    path = folder / name / "bin" / "python3"
    path.parent.mkdir(parents=True)
    path.write_text("#!/bin/sh\nid -u\n", encoding="utf-8")
    path.chmod(mode)
    if owner:
        give(folder / name, owner)
    return path


def test_a_python_that_everybody_can_write_is_not_run(open_folder: Path) -> None:
    path = _owned(open_folder, "e", 0, 0o777)
    host = LocalHost(environ=CLEAN)
    with pytest.raises(Unavailable, match=r"other users can write .*; name another Python with --python") as caught:
        host.run_in_target("environment", str(path), timeout=60)
    assert caught.value.because is Because.NO_RIGHT


def test_a_python_that_two_users_can_change_is_not_run(open_folder: Path) -> None:
    path = _owned(open_folder, "e", ALICE)
    os.chown(path, BOB, BOB)
    with pytest.raises(Unavailable, match="belongs to another user"):
        LocalHost(environ=CLEAN).run_in_target("environment", str(path), timeout=60)
    named = {**CLEAN, "PYTHONPATH": str(give(open_folder / "e" / "bin", BOB))}
    with pytest.raises(Unavailable, match="belongs to another user"):
        LocalHost(environ=named).run_in_target("environment", str(_owned(open_folder, "f", ALICE)), timeout=60)


@pytest.mark.parametrize(
    "name", ["PYTHONPATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "ASCEND_OPP_PATH", "GCONV_PATH", "HOME"]
)
def test_a_variable_of_root_that_names_a_folder_of_everybody_is_refused(open_folder: Path, name: str) -> None:
    with pytest.raises(Unavailable, match="other users can add files to /tmp"):
        LocalHost(environ={**CLEAN, name: "/tmp/not-there"}).target_user(str(_owned(open_folder, "e", 0)))


def test_an_environment_of_root_below_a_sticky_folder_runs_as_root(open_folder: Path) -> None:
    (open_folder / "sticky").mkdir()
    (open_folder / "sticky").chmod(0o1777)
    path = _owned(open_folder / "sticky", "e", 0)
    host = LocalHost(environ=CLEAN)
    assert host.run_in_target("environment", str(path), timeout=60).stdout == "0\n"
    path = _owned(open_folder / "sticky", "f", ALICE)
    assert host.run_in_target("environment", str(path), timeout=60).stdout == f"{ALICE}\n"


def test_a_python_of_root_that_root_runs_cannot_gain_rights_either_and_loses_no_capability(open_folder: Path) -> None:
    path = _owned(open_folder, "e", 0)
    path.write_text("#!/bin/sh\ncat /proc/self/status\n", encoding="utf-8")
    said = status(LocalHost(environ=CLEAN).run_in_target("environment", str(path), timeout=60))
    with open("/proc/self/status", encoding="utf-8") as file:
        own = next(line.split()[1] for line in file if line.startswith("CapEff"))
    assert (said["NoNewPrivs"], said["CapEff"]) == (["1"], [own])


def test_of_roots_variables_a_python_of_another_user_gets_no_secret(open_folder: Path) -> None:
    variables = {**CLEAN, "AWS_SECRET_ACCESS_KEY": "s", "HOME": "/root", "ASCEND_HOME_PATH": "/usr", "USER": "root"}
    path = _owned(open_folder, "e", ALICE)
    path.write_text("#!/bin/sh\nenv\n", encoding="utf-8")
    done = LocalHost(environ=variables).run_in_target("environment", str(path), timeout=60)
    assert "AWS_SECRET" not in done.stdout
    assert "ASCEND_HOME_PATH=/usr" in done.stdout
    assert "HOME=/\n" in done.stdout
    assert handed_on(variables, user_of(ALICE))["USER"] == str(ALICE)


@pytest.mark.parametrize("name", ["TMPDIR", "TEMP", "TMP"])
def test_root_makes_no_temporary_file_in_a_folder_of_a_user(
    open_folder: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _owned(open_folder, "e", 0)
    path.write_text("#!/bin/sh\nenv\n", encoding="utf-8")
    for folder, is_kept in (
        (give(_tool(open_folder / "hers"), ALICE), False),
        (Path("/tmp"), True),
        (Path("."), False),
    ):
        done = LocalHost(environ={**CLEAN, name: str(folder)}).run_in_target("environment", str(path), timeout=60)
        assert (f"{name}={folder}\n" in done.stdout) is is_kept
        monkeypatch.setenv(name, str(folder))
        assert (f"{name}={folder}\n" in LocalHost().run(["env"]).stdout) is is_kept
        assert (f"{name}={folder}\n" in LocalHost().run_streaming(["env"], timeout=60).stdout) is is_kept


def test_where_the_identity_cannot_be_taken_on_nothing_runs(open_folder: Path, tmp_path: Path) -> None:
    path = _owned(open_folder, "e", ALICE)
    path.write_text(f"#!/bin/sh\ntouch {open_folder}/ran\n", encoding="utf-8")
    script = (
        "import sys\n"
        "from npudoctor.host import Unavailable\n"
        "from npudoctor.host.live.local import LocalHost\n"
        "from npudoctor.host.live.identity import user_of\n"
        f"host = LocalHost(environ={{}}, owner=user_of({ALICE}))\n"
        f"try: host.run_in_target('environment', {str(path)!r}, timeout=60)\n"
        "except Unavailable as why: print(why.because.value, why)\n"
    )
    for command in (
        ["unshare", "--user", "--map-root-user"],
        ["setpriv", "--bounding-set", "-setuid,-setgid", "--inh-caps", "-setuid,-setgid"],
    ):
        if shutil.which(command[0]) is None or subprocess.run([*command, "true"], check=False).returncode:
            pytest.skip(f"{command[0]} cannot do this here")
        done = subprocess.run(
            [*command, sys.executable, "-c", script], capture_output=True, encoding="utf-8", check=False
        )
        assert done.stdout.startswith(f"no-right {path} cannot be started as {ALICE}"), done.stderr
    assert not (open_folder / "ran").exists()


def test_a_python_that_its_user_cannot_start_says_why_it_is_that_user(open_folder: Path) -> None:
    """As where the driver's libraries belong to HwHiAiUser, and root's Python lies below /root."""
    private = _owned(open_folder, "private", 0)
    (open_folder / "private").chmod(0o700)
    libraries = open_folder / "driver"
    libraries.mkdir()
    give(libraries, ALICE)
    with pytest.raises(Unavailable) as caught:
        LocalHost(environ={**CLEAN, "LD_LIBRARY_PATH": str(libraries)}).run_in_target(
            "environment", str(private), timeout=60
        )
    assert caught.value.because is Because.NO_RIGHT
    whose = f"{libraries} belongs to another user ({ALICE})"
    refused = f"{private} cannot be started as {ALICE}: Permission denied"
    assert caught.value.reason == f"{refused}, and {whose}; name another Python with --python"


def test_what_does_not_start_says_so_as_for_every_other_command(open_folder: Path) -> None:
    host = owned_by(user_of(ALICE))
    with pytest.raises(Unavailable, match=rf"cannot be started as {ALICE}: No such file or directory"):
        host.run_in_target("environment", str(open_folder / "none"), timeout=60)
    with pytest.raises(Unavailable, match="Permission denied") as caught:
        host.run_in_target("environment", str(_owned(open_folder, "e", BOB, 0o700)), timeout=60)
    assert caught.value.because is Because.NO_RIGHT


# Whose environment it is


def test_the_variables_of_a_process_belong_to_its_user(open_folder: Path) -> None:
    argv = ["/bin/sh", "-c", "echo ready; read _"]
    options = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "env": {"PYTHONPATH": "/home/x"}}
    with subprocess.Popen(argv, user=ALICE, group=ALICE, extra_groups=[], **options) as process:  # type: ignore[call-overload]
        assert process.stdout.readline() == b"ready\n"
        _, variables, owner = job_environment.resolve(f"pid:{process.pid}", LocalHost())
        process.communicate(b"\n")
    assert isinstance(variables, Mapping)
    assert variables["PYTHONPATH"] == "/home/x"
    assert isinstance(owner, User)
    assert owner.uid == ALICE


def test_a_file_belongs_to_whoever_could_have_written_it(open_folder: Path) -> None:
    path = open_folder / "job.env"
    path.write_text("A=1\n", encoding="utf-8")
    assert job_environment.resolve(f"file:{path}", LocalHost())[2].uid == 0  # type: ignore[union-attr]
    give(path, ALICE)
    assert job_environment.resolve(f"file:{path}", LocalHost())[2].uid == ALICE  # type: ignore[union-attr]
    path.chmod(0o666)
    whose, variables, owner = job_environment.resolve(f"file:{path}", LocalHost())
    assert isinstance(owner, Unavailable)
    with pytest.raises(Unavailable, match="other users can write"):
        LocalHost(environ=variables, environment=whose, owner=owner).run_in_target("environment", PYTHON, timeout=60)


def test_a_pipe_or_an_endless_file_of_variables_is_refused(open_folder: Path) -> None:
    os.mkfifo(open_folder / "pipe")
    for path in (str(open_folder / "pipe"), "/dev/zero"):
        with pytest.raises(job_environment.BadEnvironment, match="must be a regular file"):
            job_environment.resolve(f"file:{path}", LocalHost())
    (open_folder / "large").write_text("A=1\n" * (1 << 19), encoding="utf-8")
    with pytest.raises(job_environment.BadEnvironment, match="at most 1 MiB"):
        job_environment.resolve(f"file:{open_folder}/large", LocalHost())


def test_a_login_shell_has_no_descriptor_of_npudoctor_and_cannot_gain_rights(
    open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (open_folder / ".profile").write_text(
        'export STATUS="$(cat /proc/self/status)" FDS="$(ls /proc/self/fd)"\n', encoding="utf-8"
    )
    fields = [*pwd.getpwuid(0)]
    fields[5], fields[6] = str(open_folder), "/bin/sh"
    monkeypatch.setattr(pwd, "getpwnam", lambda _: pwd.struct_passwd(fields))
    with open("/etc/passwd", encoding="utf-8") as file:
        os.set_inheritable(file.fileno(), True)
        variables = job_environment._login("root", LocalHost())
    assert "NoNewPrivs:\t1" in variables["STATUS"]
    assert set(variables["FDS"].split()) <= {"0", "1", "2", "3", "4"}
    assert not any("=" in name or "%" in name for name in variables)


# Files and tools


def test_a_file_in_a_users_folder_is_read_with_his_rights(open_folder: Path) -> None:
    home = open_folder / "home"
    home.mkdir()
    (home / "environments.txt").symlink_to("/etc/shadow")
    (home / "own").write_text("own", encoding="utf-8")
    (home / "folder").symlink_to("/root")
    give(home, ALICE)
    host = LocalHost()
    assert host.read(f"{home}/own") == "own"
    for ask in (host.read, lambda path: host.read_part(path, 0, 9)):
        with pytest.raises(Unavailable) as caught:
            ask(f"{home}/environments.txt")
        assert caught.value.because is Because.NO_RIGHT
    if not os.stat("/root").st_mode & 0o004:
        with pytest.raises(Unavailable):
            host.list_dir(f"{home}/folder")


def _tool(folder: Path, name: str = "npu-smi") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("#!/bin/sh\nid -u\n", encoding="utf-8")
    (folder / name).chmod(0o755)
    return folder


@pytest.mark.parametrize("entry", ["", ".", "relative", "{folder}/hers", "{folder}/open"])
def test_root_passes_over_a_tool_that_others_can_plant_and_says_so(
    open_folder: Path, monkeypatch: pytest.MonkeyPatch, entry: str
) -> None:
    give(_tool(open_folder / "hers"), ALICE)
    _tool(open_folder / "open").chmod(0o777)
    _tool(open_folder / "relative")
    _tool(open_folder)
    monkeypatch.chdir(open_folder)
    monkeypatch.setenv("PATH", f"{entry.format(folder=open_folder)}:/usr/bin:/bin")
    host = LocalHost()
    assert host.which("npu-smi") is None
    with pytest.raises(Unavailable, match="npu-smi is not run by root: ") as caught:
        host.run(["npu-smi", "info"])
    assert caught.value.because is Because.NO_RIGHT
    _tool(open_folder / "roots")
    monkeypatch.setenv("PATH", f"{entry.format(folder=open_folder)}:{open_folder}/roots:/usr/bin:/bin")
    assert LocalHost().run(["npu-smi", "info"]).stdout == "0\n"


def test_a_tool_of_a_user_that_is_named_by_its_path_is_not_run_by_root(open_folder: Path) -> None:
    path = give(_tool(open_folder / "hers"), ALICE) / "npu-smi"
    for ask in (LocalHost().run, lambda argv: LocalHost().run_streaming(argv, timeout=60)):
        with pytest.raises(Unavailable, match=r"is not run by root: .* belongs to another user"):
            ask([str(path)])


def test_root_runs_no_pip_of_an_environment_of_another_user(open_folder: Path) -> None:
    path = _owned(open_folder, "e", ALICE)
    with pytest.raises(Unavailable, match="is not run by root"):
        LocalHost(environ=CLEAN).run([str(path), "-m", "pip", "--version"])


@needs_python
def test_root_runs_no_pip_where_its_own_home_belongs_to_another_user(
    open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(give(open_folder, ALICE)))
    with pytest.raises(Unavailable, match=rf"or what a variable names, belongs to {ALICE}"):
        LocalHost(environ=CLEAN).run([PYTHON, "-m", "pip", "--version"])
    os.chown(open_folder, 0, 0)


# Smoke ranks


@needs_python
def test_ranks_run_as_the_user_and_a_link_in_his_logs_leads_nowhere(open_folder: Path) -> None:
    python = open_folder / "e" / "python3"
    python.parent.mkdir()
    python.write_text(
        f'#!/bin/sh\ncat /proc/$$/status >>"{open_folder}/seen"\n'
        f'logs=$(dirname "$NPUDOCTOR_SMOKE")/logs; rm -f "$logs/rank-0.log"; ln -s /etc/shadow "$logs/rank-0.log"\n'
        f'exec {PYTHON} "$@"\n',
        encoding="utf-8",
    )
    python.chmod(0o755)
    give(python.parent, ALICE)
    (open_folder / "seen").write_text("", encoding="utf-8")
    (open_folder / "seen").chmod(0o666)
    request = plan.Request(device="cpu", ranks=1, keep_logs=str(open_folder / "kept"), timeout_s=60.0)
    known = plan.Known(python=str(python), environ=dict(CLEAN), user=user_of(ALICE))
    events = list(runner.run(plan.make(request, known)))
    seen = (open_folder / "seen").read_text(encoding="utf-8")
    assert "NoNewPrivs:\t1" in seen
    assert {line for line in seen.splitlines() if line.startswith("Uid:")} == {"Uid:" + f"\t{ALICE}" * 4}
    failed = next(event for event in events if isinstance(event, RankFailed))
    assert "root:" not in (failed.last_line or "")
    kept = (open_folder / "kept").rglob("*")
    assert not any("root:" in path.read_text(errors="replace") for path in kept if path.is_file())


def test_root_keeps_no_logs_where_others_can_write(open_folder: Path) -> None:
    folder = give(_tool(open_folder / "hers"), ALICE)
    request = plan.Request(device="cpu", ranks=1, keep_logs=str(folder))
    with pytest.raises(plan.Misused, match="must not be writable by other users when run as root"):
        list(runner.run(plan.make(request, plan.Known(python="/bin/true", environ=dict(CLEAN)))))


def test_no_process_but_the_users_is_signalled_by_a_smoke_run() -> None:
    from npudoctor.smoke import launch

    with subprocess.Popen(["sleep", "600"]) as roots, subprocess.Popen(["sleep", "600"], user=ALICE) as hers:
        launch.Launched(processes={}, mark="none", uid=ALICE).end((roots.pid, hers.pid))
        assert hers.wait(60) != 0
        assert roots.poll() is None
        roots.kill()


def test_an_owner_who_is_no_user_of_this_namespace_counts_as_root(open_folder: Path) -> None:
    path = _owned(open_folder, "e", BOB)
    script = f"from npudoctor.host.live.python_owner import python_user; print(python_user({str(path)!r}, {{}}))"
    command = ["unshare", "--user", "--map-root-user"]
    if subprocess.run([*command, "true"], check=False, capture_output=True).returncode:
        pytest.skip("no user namespace can be made here")
    done = subprocess.run([*command, sys.executable, "-c", script], capture_output=True, encoding="utf-8", check=False)
    assert done.stdout == "None\n", done.stderr
    found = python_user(str(path), CLEAN)
    assert found is not None
    assert found.uid == BOB


def test_env_starts_no_program_that_a_user_can_change(open_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = open_folder / "ran"
    tool = open_folder / "bin/nptool"
    tool.parent.mkdir()
    tool.write_text(f"#!/bin/sh\necho ran >>'{ran}'\n", encoding="utf-8")
    tool.chmod(0o755)
    give(tool.parent, ALICE)
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
    host = LocalHost()
    for program in ("nptool", str(tool)):
        for words in (["env", "A=b", program], ["/usr/bin/env", "-i", program], ["env", "A=b", "env", program]):
            with pytest.raises(Unavailable, match="is not run by root"):
                host.run(words)
            with pytest.raises(Unavailable, match="is not run by root"):
                host.run_streaming(words, timeout=60)
    host.run(["sh", "-c", "nptool"])  # as apt-get starts dpkg
    assert not ran.exists()


def test_root_searches_no_folder_of_a_user_for_libraries(open_folder: Path) -> None:
    folder = open_folder / "lib64"
    folder.mkdir()
    done = LocalHost().run(["env", f"LD_LIBRARY_PATH={folder}:/usr/lib", "sh", "-c", "echo $LD_LIBRARY_PATH"])
    assert done.stdout == f"{folder}:/usr/lib\n"
    give(folder, ALICE)
    for value in (f"/usr/lib:{folder}", "", "lib64"):
        with pytest.raises(Unavailable, match="root searches nothing in"):
            LocalHost().run(["env", f"LD_LIBRARY_PATH={value}", "sh", "-c", "true"])
