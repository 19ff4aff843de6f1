"""The terminal interface in a browser, on this machine only.

examples:
  npudoctor web                         http://127.0.0.1:8765
  npudoctor web --port 9000 --simulate new-node

From another machine: ssh -L 8765:127.0.0.1:8765 NODE, and open http://127.0.0.1:8765 there. Whoever reaches the page
acts as the user who started it, so it listens on no other address.
"""

from __future__ import annotations

import argparse
import shlex
import sys

from npudoctor.cli import UsageError, tui

LOOPBACK = ("127.0.0.1", "localhost", "::1")


def configure(parser: argparse.ArgumentParser) -> None:
    """Take the options of `npudoctor tui`, and where to listen."""
    parser.add_argument("--host", default="127.0.0.1", help="an address of this machine alone (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, default=8765, help="default: 8765")
    tui.configure(parser)


def run(args: argparse.Namespace) -> int:
    """Serve until interrupted."""
    if args.host not in LOOPBACK:
        tunnel = f"ssh -L {args.port}:127.0.0.1:{args.port} NODE"
        raise UsageError(f"--host {args.host}: it listens on this machine alone; from elsewhere: {tunnel}")
    try:
        from textual_serve.server import Server
    except ImportError as problem:
        raise UsageError("textual-serve is not installed: pip install 'npudoctor[web]'") from problem
    words = [sys.executable, "-m", "npudoctor", "tui", *tui.words_of(args)]
    server = Server(shlex.join(words), host=args.host, port=args.port, title="npudoctor")
    print(f"npudoctor: http://{args.host}:{args.port}; ctrl+c ends it", file=sys.stderr)  # noqa: T201
    server.serve()
    return 0
