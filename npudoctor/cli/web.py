"""Serve the terminal interface to a browser; access by the printed URL.

examples:
  npudoctor web --socket /run/npudoctor-web.sock    recommended on a shared machine
  npudoctor web                                     http://127.0.0.1:8765
  npudoctor web --allow-changes                     with fixes, undo, smoke runs and saving

A Unix socket is of mode 0600: no other user of this machine can connect. On your own machine type
`ssh -L 8765:/run/npudoctor-web.sock NODE`, as the user who started it here, and open the printed URL there. Without
--socket it listens on a loopback address; from elsewhere: `ssh -L 8765:127.0.0.1:8765 NODE`.

`?screen=npus` in the address begins with that screen (see `npudoctor tui --help`); /report is the same diagnosis as one
page, for a phone.

Everyone with the URL sees what the user who started it sees; its token is valid until ctrl+c. Sessions are read-only
unless --allow-changes is given; then they act as that user. At most four sessions can be open.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys

import npudoctor
from npudoctor import config as site
from npudoctor.cli import tui
from npudoctor.cli.output import UsageError, say

LOOPBACK = ("127.0.0.1", "localhost", "::1")
_START = "import sys; sys.path.append(sys.argv.pop(1)); from npudoctor.cli import console; console()"
"""What `python -I -c` runs: neither the working folder nor PYTHONPATH nor a home decides what is imported.

The folder of this npudoctor comes last, for an installation with `pip install --user`, which -I leaves out."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Take the options of `npudoctor tui`, and where to listen."""
    parser.add_argument(
        "--socket",
        metavar="PATH",
        help="listen on a Unix socket of mode 0600, in a folder that no other user can write; recommended",
    )
    parser.add_argument("--host", default="127.0.0.1", help="loopback address to listen on (default: 127.0.0.1)")
    parser.add_argument(
        "--port", type=_port, default=8765, help="port (default: 8765); with --socket: port on your own machine"
    )
    parser.add_argument(
        "--allow-changes", action="store_true", help="allow fixes, undo, smoke runs and saving (default: read-only)"
    )
    tui.add_arguments(parser)


def _port(text: str) -> int:
    if text.isdecimal() and 0 < int(text) < 65536:
        return int(text)
    raise argparse.ArgumentTypeError(f"expected a port between 1 and 65535, found {text!r}")


def run(args: argparse.Namespace) -> int:
    """Serve until interrupted."""
    _must_be_enabled(args.config)
    if args.host not in LOOPBACK:
        tunnel = f"ssh -L {args.port}:127.0.0.1:{args.port} NODE"
        raise UsageError(f"--host {args.host}: must be a loopback address; from elsewhere: {tunnel}")
    try:
        from npudoctor.web import listening, server
        from npudoctor.web.access import Access
    except ImportError as problem:
        raise UsageError("requires textual-serve: pip install 'npudoctor[web]'") from problem
    path = os.path.abspath(args.socket) if args.socket else None
    access = Access(None if path else args.port)
    served = server.Server(session_command(args), access, screens=tui.SCREENS, report=report_command(args))
    try:
        with listening.on_path(path) if path else listening.on_port(args.host, args.port) as sock:
            _say_where(args, path, access.token)
            server.serve(sock, served, debug=args.debug)
    except listening.CannotListen as problem:
        raise UsageError(str(problem)) from problem
    return 0


def _must_be_enabled(explicit: str | None) -> None:
    try:
        if where := site.web_disabled_by(explicit):
            raise UsageError(f"npudoctor web is disabled on this machine: [web] enabled = false in {where}")
    except site.ConfigError as problem:
        raise UsageError(str(problem)) from problem


def _say_where(args: argparse.Namespace, path: str | None, token: str) -> None:
    """Print the URL at the end of its line, where a terminal finds it whole."""
    host = "127.0.0.1" if path else f"[{args.host}]" if ":" in args.host else args.host
    if path:
        say(f"npudoctor: on your machine: ssh -L {args.port}:{shlex.quote(path)} NODE")
    may = "changes allowed" if args.allow_changes else "read-only: started without --allow-changes"
    say(f"npudoctor: {may}; press ctrl+c to stop")
    say(f"npudoctor: open http://{host}:{args.port}/?token={token}")


def session_command(args: argparse.Namespace) -> list[str]:
    """The command of one session."""
    return [*_command(args, "tui"), *([] if args.allow_changes else ["--read-only"])]


def report_command(args: argparse.Namespace) -> list[str]:
    """The command of the page for a phone."""
    return [*_command(args, "check"), "--format=html"]


def _command(args: argparse.Namespace, name: str) -> list[str]:
    """A command of npudoctor about this node. It runs in /, so that every path in it is absolute."""
    for variable in ("NPUDOCTOR_CONFIG", "NPUDOCTOR_PYTHON"):
        if (value := os.environ.get(variable)) and os.sep in value:
            os.environ[variable] = os.path.abspath(value)
    folder = os.path.dirname(os.path.dirname(os.path.abspath(npudoctor.__file__)))
    command = [sys.executable, "-I", "-c", _START, folder, name]
    command += [f"--{option}={_absolute_value(option, value)}" for option, value in tui.options_of(args)]
    command += ["--expect-idle"] if args.expect_idle else []
    return [*command, *(["--no-color"] if args.no_color else [])]


def _absolute_value(option: str, value: str) -> str:
    """The value of an option as it means the same in another folder."""
    if option in ("replay", "root", "config", "plugin"):
        return os.path.abspath(value)
    if option == "python" and os.sep in value:
        return os.path.abspath(value)
    if option == "simulate" and (os.sep in value or value.endswith(".toml")):
        return os.path.abspath(value)
    if option == "environment" and value.startswith("file:"):
        return f"file:{os.path.abspath(value.removeprefix('file:'))}"
    return value
