"""Print as JSON what npudoctor understands of a tool's output.

What the text does not hold is null or absent. Text that is not of that kind ends with one line and exit code 1.

examples:
  npu-smi info | npudoctor parse npu-smi-info
  npudoctor parse npu-smi-topo topology.txt
"""

from __future__ import annotations

import argparse
import json
import sys

from npudoctor.cli import UsageError, write
from npudoctor.facts.kinds import KINDS
from npudoctor.host import ParseError


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the kind and the file."""
    parser.add_argument("kind", metavar="KIND", help=f"what the text is: {', '.join(KINDS)}")
    parser.add_argument("file", nargs="?", default="-", metavar="FILE", help="the text; - or nothing reads stdin")


def run(args: argparse.Namespace) -> int:
    """Parse and print."""
    if args.kind not in KINDS:
        import difflib

        near = difflib.get_close_matches(args.kind, KINDS, n=1)
        raise UsageError(
            f"there is no kind {args.kind!r}; {f'did you mean {near[0]}?' if near else 'see npudoctor parse --help'}"
        )
    try:
        if args.file == "-":
            text = sys.stdin.buffer.read().decode("utf-8", "replace")
        else:
            with open(args.file, "rb") as file:
                text = file.read().decode("utf-8", "replace")
    except OSError as problem:
        raise UsageError(f"{args.file}: {problem.strerror}") from problem
    try:
        understood = KINDS[args.kind](text)
    except ParseError as problem:
        print(f"npudoctor parse: not {args.kind}: {problem}", file=sys.stderr)  # noqa: T201
        return 1
    write(json.dumps(understood, indent=2, ensure_ascii=False) + "\n")
    return 0
