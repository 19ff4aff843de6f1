"""Parse a tool's output and print it as JSON.

Values that the text lacks are null or absent. Text of another kind ends with one line and exit code 1.

examples:
  npu-smi info | npudoctor parse npu-smi-info
  npudoctor parse npu-smi-topo topology.txt
"""

from __future__ import annotations

import argparse
import sys

from npudoctor.cli.output import UsageError, say, write_json
from npudoctor.facts.parsers import KINDS
from npudoctor.host import ParseError
from npudoctor.host.live.safe_files import Unreadable, read_bounded

LARGEST_BYTES = 8 << 20
"""The most that is kept of a tool's output."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the kind and the file."""
    parser.add_argument("kind", metavar="KIND", help=f"kind of text: {', '.join(KINDS)}")
    parser.add_argument("file", nargs="?", default="-", metavar="FILE", help="file to read (default: -, stdin)")


def run(args: argparse.Namespace) -> int:
    """Parse and print."""
    if args.kind not in KINDS:
        import difflib

        near = difflib.get_close_matches(args.kind, KINDS, n=1)
        raise UsageError(
            f"unknown kind {args.kind!r}; {f'did you mean {near[0]}?' if near else 'see npudoctor parse --help'}"
        )
    try:
        said = _stdin() if args.file == "-" else read_bounded(args.file, LARGEST_BYTES)
    except Unreadable as problem:
        raise UsageError(f"{problem}; to parse a command's output: `| npudoctor parse {args.kind} -`") from problem
    except OSError as problem:
        raise UsageError(f"{args.file}: {problem.strerror}") from problem
    text = said.decode("utf-8", "replace")
    try:
        understood = KINDS[args.kind](text)
    except ParseError as problem:
        say(f"npudoctor parse: not {args.kind}: {problem}")
        return 1
    write_json(understood)
    return 0


def _stdin() -> bytes:
    said = sys.stdin.buffer.read(LARGEST_BYTES + 1)
    if len(said) > LARGEST_BYTES:
        raise UsageError(f"stdin is too large: at most {LARGEST_BYTES >> 20} MiB are read")
    return said
