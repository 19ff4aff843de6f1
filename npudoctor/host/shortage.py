"""What npudoctor itself runs out of: descriptors, processes, memory."""

from __future__ import annotations

import errno
import os
import resource

ENOUGH_FILES = 64
"""Open files with which any tool works; npu-smi and a Python open about 20."""

_EXHAUSTED = {
    errno.EMFILE: "no more files may be opened (ulimit -n)",
    errno.ENFILE: "no more files can be opened on this machine",
    errno.EAGAIN: "no more processes may be started (ulimit -u)",
    errno.ENOMEM: "no more memory can be had",
}


def few_files() -> int:
    """How many files a tool may open, where that is so few that it may have failed for it; else 0."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return limit if 0 <= limit < ENOUGH_FILES else 0


def what_ran_out(problem: BaseException) -> str | None:
    """What npudoctor itself has run out of, for which the node is not to blame; None where it is another problem.

    It is not raised as Unavailable, for who expects that draws conclusions from it; the engine says what is not known.
    """
    if isinstance(problem, OSError) and problem.errno in _EXHAUSTED:
        return _EXHAUSTED[problem.errno]
    if isinstance(problem, ImportError):  # what the dynamic linker says of a library carries no error number
        if (problem.name or "").startswith("npudoctor.") and few_files():  # a folder that could not be listed is empty
            return _EXHAUSTED[errno.EMFILE]
        return next((text for number, text in _EXHAUSTED.items() if os.strerror(number) in str(problem)), None)
    earlier = problem.__cause__ or problem.__context__
    if isinstance(earlier, BlockingIOError):  # a lock that is held has the number of a process that cannot be started
        return None
    return what_ran_out(earlier) if earlier else None
