"""Drops root privileges for good, then becomes a command: `python -I -S drop_rights.py FD`. Standard library only.

This is a program of its own because it runs between fork and exec of a process with many threads, where only little is
safe (fork(2)). What to become is in the memory file FD (marshal): a user's variables must not be those of this
program, which is still root and would load his LD_PRELOAD, and a command line can be read by everybody. Where a right
cannot be given up the command is not started: the reason is written into FD, as `!ERRNO TEXT`.
"""

import ctypes
import marshal
import os
import resource
import sys

PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 24, 38, 47, 4
SIG_DFL, SIGPIPE, SIGXFSZ = 0, 13, 25
MOST_CAPABILITIES = 64
CAPABILITY_VERSION = 0x20080522
NOT_STARTED = 127


def main(handle: int) -> None:
    """Become what the memory file says; returns only where that failed."""
    wanted = marshal.loads(os.pread(handle, os.fstat(handle).st_size, 0))  # noqa: S302 - from npudoctor itself
    try:
        close_others({0, 1, 2, handle, *wanted["keep"]})
        if wanted["uid"]:
            take_identity(wanted["uid"], wanted["gid"], wanted["gids"])
        settle(wanted["cwd"])
        os.ftruncate(handle, 0)
        os.set_inheritable(handle, False)
        os.execve(wanted["argv"][0], wanted["argv"], wanted["env"])  # noqa: S606 - no shell is what is meant
    except (OSError, ValueError) as problem:
        os.ftruncate(handle, 0)
        text = f"!{getattr(problem, 'errno', None) or 0} {problem}"
        os.pwrite(handle, text.encode("utf-8", "backslashreplace"), 0)
    os._exit(NOT_STARTED)


def close_others(kept: set[int]) -> None:
    """Close every descriptor but these."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in kept:
            try:  # noqa: SIM105 - contextlib takes as long to import as all of this
                os.close(int(name))
            except OSError:  # that of the listing itself
                pass


def take_identity(uid: int, gid: int, gids: list[int]) -> None:
    """Become that user with his groups and without any capability, and make sure that there is no way back."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    for number in range(MOST_CAPABILITIES):
        libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0)
    os.setgroups(gids)
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)
    if libc.capset(header, (ctypes.c_uint32 * 6)()):
        raise OSError(ctypes.get_errno(), "the capabilities are not given up")
    if os.getresuid() != (uid,) * 3 or os.getresgid() != (gid,) * 3 or set(os.getgroups()) - {gid} != set(gids) - {gid}:
        raise OSError(1, "the identity is not taken on")
    for attempt in (os.setuid, os.setgid):
        try:
            attempt(0)
        except OSError:
            continue
        raise OSError(1, "root privileges are not given up")


def settle(cwd: str) -> None:
    """No way to gain rights, no core file, the usual reactions to signals, and a folder to work in."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "no_new_privs is not set")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for number in (SIGPIPE, SIGXFSZ):  # Python ignores these two, and exec keeps that
        libc.signal(number, SIG_DFL)
    os.umask(0o022)
    try:
        os.chdir(cwd)
    except OSError:
        os.chdir("/")


if __name__ == "__main__":
    main(int(sys.argv[1]))
