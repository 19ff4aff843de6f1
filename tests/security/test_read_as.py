"""Root opens what a user's variable names with that user's rights."""

import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from npudoctor.host import Unavailable, User
from npudoctor.host.live.identity import call_as, read_as, user_of
from npudoctor.host.live.local import LocalHost
from tests.plain_user import ALICE, BOB, as_root, give, run_as

pytestmark = as_root


def _file(folder: Path, *, mode: int, gid: int = 0) -> Path:
    path = folder / "file"
    path.write_text("content", encoding="utf-8")
    os.chown(path, 0, gid)
    path.chmod(mode)
    return path


def test_a_user_reads_what_he_may_read_and_no_more_than_asked(open_folder: Path) -> None:
    assert read_as(user_of(ALICE), str(_file(open_folder, mode=0o644)), 4) == b"cont"
    path = give(_file(open_folder, mode=0o400), ALICE)
    assert read_as(user_of(ALICE), str(path), 100) == b"content"
    with pytest.raises(PermissionError):
        read_as(user_of(BOB), str(path), 100)


@pytest.mark.parametrize("path", ["/etc/shadow", "/proc/1/environ", "/proc/1/mem", "/proc/kcore"])
def test_what_is_roots_own_is_not_read_for_a_user(path: str) -> None:
    if not os.path.exists(path):
        pytest.skip(f"{path} does not exist here")
    with pytest.raises(PermissionError):
        read_as(user_of(ALICE), path, 100)


def test_his_groups_count_and_roots_do_not(open_folder: Path) -> None:
    alice = User(name="alice", uid=ALICE, gid=ALICE, gids=(ALICE, BOB), groups=())
    assert read_as(alice, str(_file(open_folder, mode=0o640, gid=BOB)), 100) == b"content"
    with pytest.raises(PermissionError):
        read_as(alice, str(_file(open_folder, mode=0o640, gid=0)), 100)


def test_a_link_to_a_file_of_root_is_not_followed_with_roots_rights(open_folder: Path) -> None:
    secret = _file(open_folder, mode=0o600)
    link = open_folder / "link"
    link.symlink_to(secret)
    os.chown(link, ALICE, ALICE, follow_symlinks=False)
    with pytest.raises(PermissionError):
        read_as(user_of(ALICE), str(link), 100)


def test_a_pipe_or_a_device_is_not_waited_for(open_folder: Path) -> None:
    os.mkfifo(open_folder / "pipe")
    (open_folder / "pipe").chmod(0o666)
    for path in (str(open_folder / "pipe"), "/dev/zero"):
        with pytest.raises(Unavailable, match="is not a regular file"):
            read_as(user_of(ALICE), path, 100)


def test_the_other_threads_keep_their_rights(open_folder: Path) -> None:
    secret, seen = _file(open_folder, mode=0o600), []
    inside, done = threading.Event(), threading.Event()

    def slow() -> None:
        inside.set()
        done.wait(60)

    other = threading.Thread(target=lambda: call_as(user_of(ALICE), slow, "a test"))
    other.start()
    inside.wait(60)
    seen.append(secret.read_text(encoding="utf-8"))
    done.set()
    other.join()
    seen.append(secret.read_text(encoding="utf-8"))
    assert seen == ["content", "content"]
    with open("/proc/self/status", encoding="utf-8") as file:
        assert next(line for line in file if line.startswith("Uid:")).split()[1:] == ["0"] * 4


def test_the_user_can_neither_signal_nor_trace_npudoctor_meanwhile() -> None:
    entered, leave = threading.Event(), threading.Event()

    def inside() -> None:
        entered.set()
        leave.wait(60)

    thread = threading.Thread(target=lambda: call_as(user_of(ALICE), inside, "a test"))
    thread.start()
    entered.wait(60)
    try:
        assert run_as(ALICE, ["sh", "-c", f"kill -0 {os.getpid()}"]).returncode != 0
    finally:
        leave.set()
        thread.join()


def test_a_file_server_that_does_not_answer_is_not_waited_for() -> None:
    forever = threading.Event()
    with pytest.raises(Unavailable, match=r"did not answer within 0\.05 s"):
        call_as(user_of(ALICE), forever.wait, "/nfs/file", deadline_s=0.05)
    forever.set()


def test_a_plain_user_takes_on_nobody_elses_rights(open_folder: Path) -> None:
    script = (
        "import os\n"
        "from npudoctor.host import Unavailable\n"
        "from npudoctor.host.live.identity import read_as, user_of\n"
        f"me, other = user_of({ALICE}), user_of({BOB})\n"
        f"os.setgroups([]); os.setgid({ALICE}); os.setuid({ALICE})\n"
        "print(len(read_as(me, '/etc/passwd', 10)))\n"
        "try: read_as(other, '/etc/passwd', 10)\n"
        "except Unavailable as why: print(why.because.value, why)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, encoding="utf-8", check=False)
    assert done.stdout.splitlines() == ["10", f"no-right the rights of {BOB} cannot be taken on here"], done.stderr


def test_a_user_does_not_learn_what_lies_in_a_folder_of_root(open_folder: Path) -> None:
    private = open_folder / "private"
    private.mkdir(mode=0o700)
    (private / "secret").write_text("content", encoding="utf-8")
    (private / "link").symlink_to("secret")
    variables = {
        "RANK_TABLE_FILE": f"{private}/secret",
        "HCCL_WHITELIST_FILE": f"{private}/link",
        "OTHER": f"{private}/no",
    }
    host = LocalHost(environ=variables, owner=user_of(ALICE))
    for path in variables.values():
        for ask in (host.exists, host.stat, host.read):
            with pytest.raises(Unavailable, match="cannot be read by"):
                ask(path)
        assert host.read_link(path) is None
        assert host.real_path(path) == path


def test_a_link_of_a_user_tells_him_nothing_of_a_folder_of_root(open_folder: Path) -> None:
    private, his = open_folder / "private", open_folder / "his"
    private.mkdir(mode=0o700)
    (private / "secret").write_text("content", encoding="utf-8")
    his.mkdir()
    (his / "link").symlink_to(private / "secret")
    give(his, ALICE)
    with pytest.raises(Unavailable, match="cannot be read by"):
        LocalHost().stat(f"{his}/link")


@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="/dev/shm does not exist here")
def test_shared_memory_is_no_device_in_which_links_of_a_user_are_followed(open_folder: Path) -> None:
    secret = _file(open_folder, mode=0o600)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        link = Path(folder, "link")
        link.symlink_to(secret)
        give(Path(folder), ALICE)
        with pytest.raises(Unavailable, match="cannot be read by"):
            LocalHost().read(str(link))


def test_a_link_of_the_kernel_leads_a_user_no_further_than_its_name(
    open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    private = open_folder / "private"
    private.mkdir(mode=0o700)
    (private / "secret").write_text("content", encoding="utf-8")
    (private / "secret").chmod(0o644)
    monkeypatch.chdir(private)
    memory = os.memfd_create("npudoctor-test")
    os.write(memory, b"content")
    with open(private / "secret", encoding="utf-8") as held:
        variables = {
            "RANK_TABLE_FILE": "/proc/self/cwd/secret",
            "HCCL_WHITELIST_FILE": f"/proc/self/fd/{held.fileno()}",
            "OTHER": f"/proc/self/fd/{memory}",
            "ROOT": f"/proc/{os.getpid()}/root{private}/secret",
        }
        host = LocalHost(environ=variables, owner=user_of(ALICE))
        for path in variables.values():
            assert Path(path).read_text(encoding="utf-8") == "content"
            for ask in (host.read, lambda path: host.read_part(path, 0, 9), host.stat):
                with pytest.raises(Unavailable):
                    ask(path)
            with pytest.raises(OSError, match=r"Permission denied|No such file"):
                read_as(user_of(ALICE), path, 100)
    os.close(memory)


def test_in_a_folder_of_everybody_root_reads_no_more_than_everybody_may(open_folder: Path) -> None:
    secret = _file(open_folder, mode=0o600)
    shared = open_folder / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    (shared / "log").write_text("log", encoding="utf-8")
    (shared / "link").symlink_to(secret)
    assert LocalHost().read(f"{shared}/log") == "log"
    with pytest.raises(Unavailable, match="cannot be read by"):
        LocalHost().read(f"{shared}/link")
    of_everybody = _file(open_folder, mode=0o666)
    open_folder.chmod(0o700)
    assert LocalHost().read(str(of_everybody)) == "content", "a file that all can write leads nowhere"


def test_below_a_folder_of_a_group_a_users_folder_is_still_read_with_his_rights(open_folder: Path) -> None:
    """As below /var/log, which on some systems a group can write."""
    secret = _file(open_folder, mode=0o600)
    log = open_folder / "log"
    log.mkdir()
    os.chown(log, 0, BOB)
    log.chmod(0o775)
    (log / "of-the-group").write_text("log", encoding="utf-8")
    hers = log / "hers"
    hers.mkdir()
    (hers / "link").symlink_to(secret)
    give(hers, ALICE)
    assert LocalHost().read(str(log / "of-the-group")) == "log"
    with pytest.raises(Unavailable, match="cannot be read by"):
        LocalHost().read(f"{hers}/link")
