"""The terminal interface in a browser, on this machine only.

examples:
  npudoctor web                         http://127.0.0.1:8765
  npudoctor web --port 9000 --simulate new-node

From another machine: ssh -L 8765:127.0.0.1:8765 NODE, and open http://127.0.0.1:8765 there. Whoever reaches the page
acts as the user who started it, so it listens on no other address.
"""

from __future__ import annotations

import argparse
import os
import shlex
import socket
import sys

import npudoctor.tui as tui_package
from npudoctor.cli import UsageError, tui

LOOPBACK = ("127.0.0.1", "localhost", "::1")
PAGE = os.path.join(os.path.dirname(tui_package.__file__), "page")
"""A page that loads nothing from anywhere else: nodes have no way out, and textual-serve's own asks for a font."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Take the options of `npudoctor tui`, and where to listen."""
    parser.add_argument("--host", default="127.0.0.1", help="an address of this machine alone (default: 127.0.0.1)")
    parser.add_argument("--port", type=_port, default=8765, help="default: 8765")
    tui.configure(parser)


def _port(text: str) -> int:
    if text.isdecimal() and 0 < int(text) < 65536:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no port: 1 to 65535")


def run(args: argparse.Namespace) -> int:
    """Serve until interrupted."""
    if args.host not in LOOPBACK:
        tunnel = f"ssh -L {args.port}:127.0.0.1:{args.port} NODE"
        raise UsageError(f"--host {args.host}: it listens on this machine alone; from elsewhere: {tunnel}")
    try:
        from textual_serve.server import Server
    except ImportError as problem:
        raise UsageError("textual-serve is not installed: pip install 'npudoctor[web]'") from problem
    _free(args.host, args.port)
    words = [sys.executable, "-m", "npudoctor", "tui", *tui.words_of(args)]
    server = Server(shlex.join(words), host=args.host, port=args.port, title="npudoctor", templates_path=PAGE)
    server.console.quiet = not args.debug  # its banner and each request: the line below says what a person needs
    address = f"[{args.host}]" if ":" in args.host else args.host
    print(f"npudoctor: http://{address}:{args.port}; ctrl+c ends it", file=sys.stderr)  # noqa: T201
    server.serve()
    return 0


def _free(host: str, port: int) -> None:
    """Raise UsageError where nothing can listen there."""
    try:
        socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET).close()
    except OSError as problem:
        said = os.strerror(problem.errno) if problem.errno else str(problem)
        raise UsageError(f"port {port} of {host} cannot be had: {said}; name another one with --port") from problem
