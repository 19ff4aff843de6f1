"""Look after this node: check it again and again, remember what changes, and answer over HTTP, read-only.

It runs the quick profile every minute and the standard one every hour; neither touches a card. What it knows is
answered on a Unix socket: /livez, /readyz, /v1/report, /v1/issues, /v1/history, /v1/cards, /metrics. `npudoctor
healthcheck` in containers reads its state file. Nothing on the node is changed, unless the site names safe fixes
under [auto_fix] in its configuration.

examples:
  npudoctor daemon                                           as the service npudoctor.service runs it
  npudoctor daemon --listen 127.0.0.1:9713                   also on this machine's loopback
  npudoctor daemon --socket /tmp/d/s --state-dir /tmp/d --simulate sick-cards
  curl --unix-socket /run/npudoctor/npudoctor.sock http://npudoctor/v1/issues

SIGHUP reads the configuration anew, SIGTERM ends it. [daemon] in the configuration sets intervals and addresses, see
docs/daemon.md.

exit codes: 0 told to end, 2 usage, or it may not start as asked, 4 internal error.
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
from npudoctor.cli import UsageError, node
from npudoctor.daemon import state
from npudoctor.host.live import accounts

if TYPE_CHECKING:
    from npudoctor.daemon.seen import Known
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
        "--socket", metavar="PATH", help=f"the Unix socket to answer on (default: {RUN}/{SOCKET}; see docs for others)"
    )
    where.add_argument(
        "--state", metavar="FILE", help="the state for health checks (default: state.json beside the socket)"
    )
    where.add_argument(
        "--state-dir", metavar="DIR", help=f"where history and journal of fixes lie (default: {LIBRARY} for root)"
    )
    where.add_argument(
        "--listen", metavar="ADDRESS:PORT", help="also answer on this machine's loopback (default: as configured)"
    )
    where.add_argument(
        "--metrics-listen", metavar="ADDRESS:PORT", help="answer /metrics, and nothing else, on another address"
    )
    node.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Serve until told to end."""
    if args.replay:
        raise UsageError("--replay: a recording does not change; use `npudoctor check --replay`")
    try:
        from npudoctor.daemon import service
        from npudoctor.daemon.child import Child
        from npudoctor.daemon.listening import CannotListen
        from npudoctor.daemon.seen import Lost, Refused
        from npudoctor.daemon.site import Places
    except ImportError as problem:
        raise UsageError(f"{problem.name} is not installed: pip install 'npudoctor[daemon]'") from problem
    site = _site(args, None)
    child = Child(_looks_command(args))
    try:
        child.prepare(site.config)
    except Lost as problem:  # a plug-in that hangs or crashes: it is tried again at each look, and told
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
    """The configuration with what the command line says before it; raises UsageError.

    The names in it are compared with what is known of the catalogue, once that is loaded.
    """
    from npudoctor.daemon.site import Site
    from npudoctor.daemon_config import anywhere, loopback

    path = site_config.find(args.config)
    config = node.load_config(args, trusted=True)
    if known is not None and known.checks:
        _must_name_what_is_there(config, known, path or "")
    settings = config.for_daemon
    for option, name, judge in (("--listen", "listen", loopback), ("--metrics-listen", "metrics_listen", anywhere)):
        if said := getattr(args, name):
            try:
                settings = settings.model_copy(update={name: judge(said)})
            except ValueError as problem:
                raise UsageError(f"{option} {said}: {problem}") from problem
    config = config.model_copy(update={"tools_at_once": 1})
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
    """The same later on; raises ConfigError, for there is nobody to be told how the command is used."""
    try:
        return _site(args, known)
    except UsageError as problem:
        raise site_config.ConfigError(str(problem)) from problem


# The process that looks

_LOOK = (
    "import json, sys; sys.path += json.loads(sys.argv.pop(1)); from npudoctor.cli import daemon; daemon.serve_looks()"
)


def _looks_command(args: argparse.Namespace) -> list[str]:
    """The command that starts `serve_looks`: isolated, with the places from which this process imports added last."""
    told = {name: value for name, value in vars(args).items() if name not in ("run", "give_up", "limit")}
    return [sys.executable, "-I", "-c", _LOOK, json.dumps([path for path in sys.path if path]), json.dumps(told)]


def serve_looks() -> None:
    """Be the process in which the looks run: its arguments are those of the command, two pipes, and its parent."""
    from npudoctor import plugins
    from npudoctor.daemon import worker
    from npudoctor.daemon.seen import Refused
    from npudoctor.daemon.site import Site

    told, requests, answers, parent = sys.argv[1:]
    args = argparse.Namespace(**json.loads(told))

    @contextlib.contextmanager
    def opened(site: Site) -> Iterator[Host]:
        with contextlib.ExitStack() as stack:
            try:
                host = stack.enter_context(node.opened(args, site.config))
            except UsageError as problem:
                raise Refused(str(problem)) from problem
            yield host

    def site_of(config: site_config.Config) -> Site:
        return Site(config=config, options=node.options(args, config), settings=config.for_daemon)

    worker.serve(int(requests), int(answers), int(parent), lambda: plugins.load(args.plugin), site_of, opened)
    os._exit(0)


def _places(args: argparse.Namespace) -> tuple[str, str, str]:
    """Socket, state file and folder of the history; the folders are made where they are missing."""
    root = os.geteuid() == 0
    runtime = RUN if root else os.environ.get("XDG_RUNTIME_DIR")
    if not (args.socket or runtime):
        raise UsageError("XDG_RUNTIME_DIR is not set, so nobody knows where the socket may lie: give --socket PATH")
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
            raise UsageError(f"{one} cannot be made: {problem.strerror}; see --socket and --state-dir") from problem
    return socket, state_file, folder


@contextlib.contextmanager
def _alone(*folders: str) -> Iterator[None]:
    """Hold the locks that only one daemon can have; raises UsageError where another one does."""
    with contextlib.ExitStack() as stack:
        for folder in dict.fromkeys(folders):
            path = os.path.join(folder, LOCK)
            try:
                handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
                stack.callback(os.close, handle)
                state.must_be_ours(path)  # one that another user has made could be locked by him
                os.fchmod(handle, 0o600)
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.truncate(handle, 0)
                os.write(handle, f"{os.getpid()}\n".encode())
            except BlockingIOError:
                holder = _holder(path)
                raise UsageError(f"another daemon{holder} has {path}; only one can look after a node") from None
            except state.Untrusted as problem:
                raise UsageError(str(problem)) from problem
            except OSError as problem:
                if problem.errno == errno.ENOSPC:
                    continue
                raise UsageError(f"{path} cannot be locked: {problem.strerror}") from problem
        yield


def _holder(path: str) -> str:
    with contextlib.suppress(OSError, ValueError), open(path, encoding="ascii") as file:
        return f" (process {int(file.read(20))})"
    return ""


def _stay_small() -> None:
    """Set up the interpreter for a life of months: collect garbage, few arenas, quick turns between threads."""
    import ctypes

    gc.enable()
    gc.freeze()
    sys.setswitchinterval(0.001)
    with contextlib.suppress(OSError, AttributeError):
        arena_max = -8
        ctypes.CDLL(None).mallopt(arena_max, 2)
