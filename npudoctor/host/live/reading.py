"""What reading a path of this machine says, in the terms of `Host`."""

from __future__ import annotations

import contextlib
import errno
import stat

from npudoctor.findings import Because
from npudoctor.host import Unavailable, User


@contextlib.contextmanager
def explain_errors(path: str, user: User):  # type: ignore[no-untyped-def]
    """Turn the errors of reading a path into the reason why the fact is not known."""
    try:
        yield
    except FileNotFoundError:
        raise Unavailable(f"{path} does not exist") from None
    except PermissionError:
        raise Unavailable(f"{path} cannot be read by {user.name}", because=Because.NO_RIGHT) from None
    except OSError as problem:
        if problem.errno in (errno.EMFILE, errno.ENFILE):
            raise
        raise Unavailable(f"{path} cannot be read: {problem.strerror}", because=Because.FAILED) from problem
    except (ValueError, OverflowError) as problem:  # a zero byte in the path, an offset beyond what the kernel takes
        raise Unavailable(f"{path} cannot be read: {problem}", because=Because.FAILED) from problem


def kind_of(mode: int) -> str:
    """The kind of a path by its mode, as in FileStat."""
    tests = {"dir": stat.S_ISDIR, "char": stat.S_ISCHR, "block": stat.S_ISBLK, "fifo": stat.S_ISFIFO}
    return next((kind for kind, test in tests.items() if test(mode)), "socket" if stat.S_ISSOCK(mode) else "file")


__all__ = ["explain_errors", "kind_of"]
