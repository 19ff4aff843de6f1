"""Tries an import in this process and tells how it went, as one JSON object on stdout; for the scripts beside it.

Standard library only, in the syntax of Python 3.6. What the imported packages print on stdout goes to stderr, so that
nothing stands between the reader and the object.
"""

import faulthandler
import json
import os
import sys
import time

_SAID_BYTES = 4000
_CHAIN = 4


def attempt(look: "object") -> None:
    """Print what `look` returns and when, or the exception that it ends with; then end the process at once.

    Nothing is torn down: what would crash on the way out says nothing about the import.
    """
    faulthandler.enable()
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    own = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder or ".") != own]
    began = time.monotonic()
    try:
        said = look()  # type: ignore[operator]
        said["ok"] = True
    except BaseException as problem:
        said = {"ok": False, "error": in_words(problem), "exception": type(problem).__name__}
    said["seconds"] = round(time.monotonic() - began, 2)
    out.write(json.dumps(said, sort_keys=True) + "\n")
    out.flush()
    for stream in (sys.stdout, sys.stderr):  # os._exit does not write what they hold
        stream.flush()
    os._exit(0)


def in_words(problem: BaseException) -> str:
    """An exception with its text, and in brackets those that it came from."""
    words = "%s: %s" % (type(problem).__name__, str(problem).strip()[:_SAID_BYTES])
    seen = [problem]
    while len(seen) < _CHAIN:
        below = seen[-1].__cause__ or (None if seen[-1].__suppress_context__ else seen[-1].__context__)
        if below is None or below in seen:
            break
        seen.append(below)
        words += " (%s: %s)" % (type(below).__name__, str(below).strip()[:_SAID_BYTES])
    return words


def try_to(part: "object") -> "object":
    """What a function returns; None where it fails."""
    try:
        return part()  # type: ignore[operator]
    except Exception:
        return None


def import_torch() -> "dict[str, object]":
    """Import torch and say which it is."""
    import torch

    return {
        "version": str(torch.__version__),
        "cuda": try_to(lambda: torch.version.cuda),
        "cxx11_abi": try_to(lambda: bool(torch._C._GLIBCXX_USE_CXX11_ABI)),
    }
