"""What a command prints: data on stdout, messages on stderr, usage errors in one line."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import Any

INTERRUPTED = 130
"""The exit code of a command that Ctrl-C has ended."""


class UsageError(Exception):
    """The command cannot run as requested; the text is the one line that the user sees."""


def prepare_streams() -> None:
    """Write stdout and stderr to nowhere where the caller has closed them, and stderr that is no terminal in UTF-8."""
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    _use_utf_8(sys.stderr)


def _use_utf_8(stream: Any) -> None:
    """A file or pipe is read by programs, for which texts are UTF-8 whatever the locale of this process is."""
    if isinstance(stream, io.TextIOWrapper) and not stream.isatty():
        stream.reconfigure(encoding="utf-8", errors=stream.errors)


def say(text: str = "", *, end: str = "\n") -> None:
    """Print to stderr; a closed stderr is no error. Control characters in the text are escaped."""
    from npudoctor.control_characters import visible_lines

    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(f"{visible_lines(text)}{end}")
        sys.stderr.flush()


def write_json(value: Any, *, indent: int | None = 2, sort_keys: bool = False) -> None:
    """Print a JSON document on stdout; invisible characters in its strings are escaped (\\u202e)."""
    import json

    from npudoctor.control_characters import visible_json

    write(visible_json(json.dumps(value, indent=indent, sort_keys=sort_keys, ensure_ascii=False)) + "\n")


def write(text: str, *, colored: bool = False) -> None:
    """Print data on stdout, also after the reader has closed the pipe: in the encoding of a terminal, else in UTF-8.

    Control characters are escaped, except line breaks, tabs and, where `colored` is true, our own colours.
    """
    from npudoctor.control_characters import visible_lines, visible_screen

    shown = visible_screen(text) if colored else visible_lines(text)
    _use_utf_8(sys.stdout)  # not before: the marks in `text` are those of the locale
    encoding = sys.stdout.encoding or "utf-8"
    try:
        sys.stdout.write(shown.encode(encoding, "backslashreplace").decode(encoding))
        sys.stdout.flush()
    except BrokenPipeError:
        forget_stdout()
    except OSError as problem:
        forget_stdout()
        raise UsageError(f"cannot write the output: {problem.strerror or problem}") from problem


def forget_stdout() -> None:
    """The reader has gone: send the interpreter's last flush to /dev/null, to keep the exit code."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
