"""Run continuously: check this node at intervals, record changes, and serve a read-only HTTP API and metrics.

It runs the quick profile every minute and the standard one every hour; neither opens a device. Results are
served on a Unix socket: /livez, /readyz, /v1/report, /v1/issues, /v1/history, /v1/cards, /metrics. `npudoctor
healthcheck` in containers reads its state file. Nothing on the node changes, unless the configuration lists safe
fixes under [auto_fix].

examples:
  npudoctor daemon                                           as npudoctor.service runs it
  npudoctor daemon --listen 127.0.0.1:9713                   also on loopback
  npudoctor daemon --socket /tmp/d/s --state-dir /tmp/d --simulate sick-cards
  curl --unix-socket /run/npudoctor/npudoctor.sock http://npudoctor/v1/issues

SIGHUP reloads the configuration, SIGTERM stops the daemon. [daemon] in the configuration sets intervals and
addresses (docs/daemon.md).

exit codes: 0 stopped by a signal, 2 usage, or cannot start, 4 internal error.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import fcntl
import gc
import json
import os
import sys
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, cast

from npudoctor import config as site_config
from npudoctor.cli import node
from npudoctor.cli.output import UsageError
from npudoctor.daemon import state
from npudoctor.host.live import accounts
from npudoctor.records import replace

if TYPE_CHECKING:
    from npudoctor.daemon.replies import Known
    from npudoctor.daemon.site import Site
    from npudoctor.host import Host
    from npudoctor.sdk import Check

RUN = "/run/npudoctor"
LIBRARY = "/var/lib/npudoctor"
SOCKET = "npudoctor.sock"
HISTORY = "history.sqlite"
LOCK = "daemon.lock"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `npudoctor daemon`."""
    where = parser.add_argument_group("where")
    where.add_argument(
        "--socket", metavar="PATH", help=f"Unix socket to listen on (default: {RUN}/{SOCKET}; see docs/daemon.md)"
    )
    where.add_argument(
        "--state", metavar="FILE", help="state file for health checks (default: state.json beside the socket)"
    )
    where.add_argument(
        "--state-dir", metavar="DIR", help=f"folder of history and fix journal (default: {LIBRARY} for root)"
    )
    where.add_argument(
        "--listen", metavar="ADDRESS:PORT", help="also listen on a loopback address (default: as configured)"
    )
    where.add_argument("--metrics-listen", metavar="ADDRESS:PORT", help="serve only /metrics on another address")
    node.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Serve until stopped by a signal."""
    if args.replay:
        raise UsageError(
            "--replay cannot be used here, because a recording does not change; use `npudoctor check --replay`"
        )
    try:
        from npudoctor.daemon import service
        from npudoctor.daemon.child import Child
        from npudoctor.daemon.listening import CannotListen
        from npudoctor.daemon.replies import Lost, Refused
        from npudoctor.daemon.site import Places
    except ImportError as problem:
        raise UsageError(f"requires {problem.name}: pip install 'npudoctor[daemon]'") from problem
    site = _site(args, None)
    child = Child(_looks_command(args))
    try:
        child.prepare(site.config)
    except Lost as problem:  # a plug-in that hangs or crashes is tried again, and reported, at each run
        print(f"npudoctor: {problem}", file=sys.stderr)  # noqa: T201
    except Refused as problem:
        child.end()
        raise UsageError(str(problem)) from problem
    try:
        site = _site(args, child.known)
        socket, state_file, folder = _places(args)
        places = Places(socket=socket, state=state_file, history=os.path.join(folder, HISTORY), journal=args.state_dir)
        _stay_small()
        with _alone(os.path.dirname(socket), folder):
            return service.Daemon(site, places, child, reload=lambda: _site_again(args, child.known)).run()
    except (CannotListen, state.Untrusted) as problem:
        raise UsageError(str(problem)) from problem
    finally:
        child.end()


def _site(args: argparse.Namespace, known: Known | None) -> Site:
    """The configuration, overridden by the command line; raises UsageError.

    Names in it are compared with the catalogue once that is loaded.
    """
    from npudoctor.daemon.site import Site
    from npudoctor.daemon_config import anywhere, loopback

    path = site_config.find(args.config)
    config = node.load_config(args, trusted=True)
    if known is not None and known.checks:
        _must_name_what_is_there(config, known, path or "")
    settings = config.for_daemon
    for option, said, judge in (
        ("--listen", args.listen, loopback),
        ("--metrics-listen", args.metrics_listen, anywhere),
    ):
        try:
            judge(said or "127.0.0.1:0")
        except ValueError as problem:
            raise UsageError(f"{option} {said}: {problem}") from problem
    settings = replace(
        settings,
        listen=args.listen or settings.listen,
        metrics_listen=args.metrics_listen or settings.metrics_listen,
    )
    config = replace(config, tools_at_once=1)
    return Site(config=config, options=node.options(args, config), settings=settings)


def _must_name_what_is_there(config: site_config.Config, known: Known, path: str) -> None:
    """Raise UsageError where the configuration names an unknown check or fix, or a fix that is not safe."""
    checks = cast("Collection[Check]", known.checks)  # the same names under the same attributes
    try:
        site_config.names_are_known(config, checks, path, codes=known.codes, complete=known.complete)
    except site_config.ConfigError as problem:
        raise UsageError(str(problem)) from problem
    if mistake := config.policy.mistake(known.fixes, known.safe):
        raise UsageError(f"{path}: in [auto_fix]: {mistake}")
    for remark in config.remarks():
        print(f"npudoctor: {path}: {remark}", file=sys.stderr)  # noqa: T201


def _site_again(args: argparse.Namespace, known: Known) -> Site:
    """The same after the start; raises ConfigError, because no command line can be corrected."""
    try:
        return _site(args, known)
    except UsageError as problem:
        raise site_config.ConfigError(str(problem)) from problem


# The process that runs checks

_LOOK = (
    "import json, sys; sys.path += json.loads(sys.argv.pop(1)); from npudoctor.cli import daemon; daemon.serve_runs()"
)


def _looks_command(args: argparse.Namespace) -> list[str]:
    """The command that starts `serve_runs`: isolated, with the import path of this process added last."""
    told = {name: value for name, value in vars(args).items() if name not in ("run", "give_up", "limit")}
    return [sys.executable, "-I", "-c", _LOOK, json.dumps([path for path in sys.path if path]), json.dumps(told)]


def serve_runs() -> None:
    """The process in which checks run: its arguments are those of the command, two pipes, and its parent."""
    from npudoctor import plugins
    from npudoctor.daemon import worker
    from npudoctor.daemon.replies import Refused
    from npudoctor.daemon.site import Site

    told, requests, answers, parent = sys.argv[1:]
    args = argparse.Namespace(**json.loads(told))

    @contextlib.contextmanager
    def open_host(site: Site) -> Iterator[Host]:
        with contextlib.ExitStack() as stack:
            try:
                host = stack.enter_context(node.open_node(args, site.config))
            except UsageError as problem:
                raise Refused(str(problem)) from problem
            yield host

    def site_of(config: site_config.Config) -> Site:
        return Site(config=config, options=node.options(args, config), settings=config.for_daemon)

    worker.serve(int(requests), int(answers), int(parent), lambda: plugins.load(args.plugin), site_of, open_host)
    os._exit(0)


def _places(args: argparse.Namespace) -> tuple[str, str, str]:
    """Paths of socket, state file and history; missing folders are created."""
    root = os.geteuid() == 0
    runtime = RUN if root else os.environ.get("XDG_RUNTIME_DIR")
    if not (args.socket or runtime):
        raise UsageError("XDG_RUNTIME_DIR is not set, so there is no default socket path; give --socket PATH")
    socket = os.path.abspath(args.socket or os.path.join(str(runtime), "" if root else "npudoctor", SOCKET))
    state_file = os.path.abspath(args.state or os.path.join(os.path.dirname(socket), "state.json"))
    home = os.environ.get("XDG_STATE_HOME") or os.path.join(accounts.home() or "/", ".local/state")
    folder = os.path.abspath(args.state_dir or (LIBRARY if root else os.path.join(home, "npudoctor")))
    for one in dict.fromkeys((os.path.dirname(socket), os.path.dirname(state_file), folder)):
        try:
            os.makedirs(one, mode=0o755, exist_ok=True)
            state.must_be_ours(one, folder=True)
        except state.Untrusted as problem:
            raise UsageError(str(problem)) from problem
        except OSError as problem:
            raise UsageError(f"cannot create {one}: {problem.strerror}; see --socket and --state-dir") from problem
    return socket, state_file, folder


@contextlib.contextmanager
def _alone(*folders: str) -> Iterator[None]:
    """Take the locks of the only daemon; raises UsageError where another one holds them."""
    with contextlib.ExitStack() as stack:
        for folder in dict.fromkeys(folders):
            path = os.path.join(folder, LOCK)
            try:
                handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
                stack.callback(os.close, handle)
                state.must_be_ours(path)  # a file created by another user could be locked by that user
                os.fchmod(handle, 0o600)
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.truncate(handle, 0)
                os.write(handle, f"{os.getpid()}\n".encode())
            except BlockingIOError:
                holder = _holder(path)
                raise UsageError(f"another daemon{holder} uses {path}; only one can run on a node") from None
            except state.Untrusted as problem:
                raise UsageError(str(problem)) from problem
            except OSError as problem:
                if problem.errno == errno.ENOSPC:
                    continue
                raise UsageError(f"cannot lock {path}: {problem.strerror}") from problem
        yield


def _holder(path: str) -> str:
    with contextlib.suppress(OSError, ValueError), open(path, encoding="ascii") as file:
        return f" (process {int(file.read(20))})"
    return ""


def _stay_small() -> None:
    """Set up the interpreter for months of running: garbage collection, few arenas, quick thread switches."""
    import ctypes

    gc.enable()
    gc.freeze()
    sys.setswitchinterval(0.001)
    with contextlib.suppress(OSError, AttributeError):
        arena_max = -8
        ctypes.CDLL(None).mallopt(arena_max, 2)
