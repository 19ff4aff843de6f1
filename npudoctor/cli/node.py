"""The node to check and its target environment: options shared by check, facts and others."""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from npudoctor import config as site
from npudoctor.change_control import ChangeControl
from npudoctor.cli.output import UsageError, say
from npudoctor.host import Because, Host, Unavailable, real_path
from npudoctor.host.live import accounts
from npudoctor.records import replace

if TYPE_CHECKING:
    from npudoctor.cli.parsing import OptionGroup
    from npudoctor.facts.node.staged_packages import StagedPackages
    from npudoctor.plugins import Catalog
    from npudoctor.sdk import Options

CHIPS_FROM = ("auto", "dcmi", "npu-smi")
ROLES = ("auto", "full", "driver-only")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that name a node."""
    which = parser.add_argument_group("node")
    source = which.add_mutually_exclusive_group()
    source.add_argument("--replay", metavar="BUNDLE", help="a recording: a folder or a .tar.gz")
    source.add_argument(
        "--simulate",
        metavar="SCENARIO",
        help="a simulated node: a name (`npudoctor sim list`) or a .toml file (docs/simulated-nodes.md)",
    )
    source.add_argument(
        "--root",
        metavar="DIR",
        help="read files below DIR instead of /, such as a host mounted into a container",
    )
    told = parser.add_argument_group("target environment")
    told.add_argument("--python", metavar="PATH", help="Python to inspect (default: detected, or $NPUDOCTOR_PYTHON)")
    told.add_argument(
        "--environment",
        metavar="WHOSE",
        help="environment variables to check: process, login, login:USER, pid:N, file:PATH (default: detected)",
    )
    told.add_argument(
        "--expect-idle",
        action="store_true",
        default=None,
        help="the node should be idle: report running jobs as findings",
    )
    told.add_argument("--role", choices=ROLES, help="driver-only: a container host; skip CANN and Python checks")
    told.add_argument(
        "--chips-from",
        choices=CHIPS_FROM,
        help="source of the NPUs' data: dcmi is the driver's library, npu-smi the tools (default: auto, both)",
    )
    add_config(told)
    add_plugin(told)


def seconds(text: str) -> float:
    """A time limit as it was given on the command line, in seconds."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError(f"expected seconds above 0 and below 1,000,000, found {text!r}")
    return value


def give_up(_: argparse.Namespace, reason: str) -> int:
    """Say in one line why there is no answer; the exit code is that of a check."""
    say(f"npudoctor: could not determine: {reason}")
    return 3


def add_simulated_state(parser: argparse.ArgumentParser, *, only_read: bool = True) -> None:
    """Add the option for the folder of a simulated node's changes."""
    parser.add_argument("--state", metavar="DIR", help="with --simulate: the node as `fix --state DIR` has left it")
    parser.set_defaults(keeps_changes=True, only_reads_state=only_read)


def add_config(parser: OptionGroup) -> None:
    """Add the option that names the site's configuration."""
    parser.add_argument(
        "--config", metavar="FILE", help="configuration file (default: npudoctor/config.toml in ~/.config or /etc)"
    )


def add_plugin(parser: OptionGroup) -> None:
    """Add the option that names a file of checks, for every command that reads the catalogue."""
    parser.add_argument(
        "--plugin",
        action="append",
        type=_existing_path,
        default=[],
        metavar="FILE",
        help="file or folder with additional checks, facts and fixes (docs/plugins.md)",
    )


def _existing_path(path: str) -> str:
    if not os.path.exists(path):
        raise argparse.ArgumentTypeError(f"{path} does not exist")
    return path


def add_frameworks(parser: argparse.ArgumentParser) -> None:
    """Add `--for`."""
    parser.add_argument(
        "--for",
        dest="frameworks",
        action="append",
        type=_framework,
        default=[],
        metavar="NAME",
        help="judge whether the node is ready for this framework, such as vllm-ascend, installed or not",
    )


def _framework(name: str) -> str:
    from npudoctor import knowledge
    from npudoctor.knowledge.tables.stacks import UnknownFramework

    try:
        return knowledge.stacks().find(name).name
    except UnknownFramework as problem:
        raise argparse.ArgumentTypeError(str(problem)) from problem


def words_of(args: argparse.Namespace) -> str:
    """The options that name the node, for a command shown to the user."""
    named = [(option, getattr(args, option, None)) for option in ("replay", "simulate", "root", "python")]
    named.append(("state", getattr(args, "simulated_state", None)))
    named += [("for", name) for name in getattr(args, "frameworks", ())]
    words = [word for option, value in named if value for word in (f"--{option}", value)]
    return shlex.join(words) if words else ""


def simulated_folder(args: argparse.Namespace) -> str | None:
    """The folder that keeps the changes of a simulated node between commands; None without one."""
    folder: str | None = getattr(args, "simulated_state", None)
    return folder


def load_config(args: argparse.Namespace, catalog: Catalog | None = None, *, trusted: bool = False) -> site.Config:
    """The site's configuration; raises UsageError with one line that names the mistake.

    With a catalogue the names in it are compared, and remarks on the configuration are printed.
    """
    try:
        if reason := site.passed_over(args.config):
            say(f"npudoctor: {reason}")
        config = site.load(args.config, trusted=trusted)
    except site.ConfigError as problem:
        raise UsageError(str(problem)) from problem
    if catalog is not None:
        compare_names(args, config, catalog)
    return config


def compare_names(args: argparse.Namespace, config: site.Config, catalog: Catalog) -> None:
    """Raise UsageError for a name that the catalogue lacks; print remarks on the configuration."""
    where = site.find(args.config) or ""
    try:
        site.names_are_known(
            config, catalog.checks.values(), where, codes=catalog.messages, complete=not catalog.broken
        )
    except site.ConfigError as problem:
        raise UsageError(str(problem)) from problem
    for remark in config.remarks():
        say(f"npudoctor: {where}: {remark}")


def options(args: argparse.Namespace, config: site.Config) -> Options:
    """The user's settings; the command line before the configuration."""
    from npudoctor.sdk import PROFILES, Options  # here, because the interface draws its first frame without it

    profile = getattr(args, "profile", None) or config.profile
    assert profile in PROFILES
    return Options(
        expect_idle=config.expect_idle if args.expect_idle is None else args.expect_idle,
        role=args.role or config.role,
        profile=profile,
        python=args.python or (None if args.replay or args.simulate else config.python),
        tool_timeout_s=config.tool_timeout_s,
        settings=dict(config.thresholds),
        managed=config.managed_paths,
        chips_from=getattr(args, "chips_from", None) or config.chips_from,
        changes=_change_control(args, config),
        reason=getattr(args, "reason", None) or "",
        frameworks=tuple(getattr(args, "frameworks", ())),
        packages=_staged_packages(getattr(args, "packages", ())),
    )


def _staged_packages(folders: Sequence[str]) -> StagedPackages | None:
    if not folders:
        return None
    from npudoctor.cli import staged  # only who names a folder pays for it

    return staged.staged_in(folders)


def _change_control(args: argparse.Namespace, config: site.Config) -> ChangeControl:
    try:
        return config.change_control(args.config)
    except site.ConfigError as problem:
        raise UsageError(str(problem)) from problem


@contextlib.contextmanager
def open_node(args: argparse.Namespace, config: site.Config) -> Iterator[Host]:
    """The requested node; its running tools are ended on leaving."""
    kept_at = simulated_state(args)
    _state_must_exist(args)
    host = _open(args, config) if kept_at is None else _redo_changes(_open(args, config), kept_at)
    try:
        _must_be_a_python(host, options(args, config))
        yield host
    finally:
        if kept_at is not None:
            _keep(host, kept_at)
        host.close()
        if problem := accounts.problem():
            say(f"npudoctor: {problem}")


def simulated_state(args: argparse.Namespace) -> str | None:
    """The file that keeps the changes of a simulated node between commands; None without --state."""
    if not (args.simulate and getattr(args, "keeps_changes", False)):
        return None
    if args.state:
        args.simulated_state, args.state = args.state, None
    folder = simulated_folder(args)
    if folder is None:
        return None
    name = os.path.basename(args.simulate).removesuffix(".toml")
    return os.path.join(folder, f"{name}.json")


def _state_must_exist(args: argparse.Namespace) -> None:
    """Raise UsageError for a journal's folder that is missing, where the command would only read it."""
    folder = getattr(args, "state", None)
    if args.simulate or not (folder and getattr(args, "only_reads_state", False)):
        return
    try:
        os.stat(folder)
    except (FileNotFoundError, NotADirectoryError) as problem:
        raise UsageError(f"--state {folder}: no such folder") from problem


def _redo_changes(host: Host, path: str) -> Host:
    """The simulated node as the commands before have left it, after a new login."""
    from npudoctor.host.live.safe_files import Unreadable, read_bounded
    from npudoctor.host.simulated import redo
    from npudoctor.host.simulated.host import SimulatedHost

    assert isinstance(host, SimulatedHost)
    if not os.path.lexists(path):
        return host
    try:
        redo.redo(host, read_bounded(path))
    except Unreadable as problem:
        raise UsageError(str(problem)) from problem
    except redo.NotRedone as problem:
        raise UsageError(f"{path}: {problem}") from problem
    return host.after_login() if host.done else host


def _keep(host: Host, path: str) -> None:
    from npudoctor.host import Refused
    from npudoctor.host.live.safe_files import open_replacement
    from npudoctor.host.simulated import redo
    from npudoctor.host.simulated.host import SimulatedHost

    if not isinstance(host, SimulatedHost) or not host.done:
        return
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with open_replacement(path) as file:
            file.write(redo.write_changes(host))
    except Refused as problem:
        raise UsageError(f"{path} was not written: {problem.reason}") from problem
    except OSError as problem:
        raise UsageError(f"cannot write {path}: {problem.strerror}") from problem


def _must_be_a_python(host: Host, told: Options) -> None:
    """Refuse a named interpreter that is none, is too old, or is not the recorded one; its
    answer is kept for the run."""
    named, source = told.python, f"--python {told.python}"
    if named is None and host.about.source == "live" and (named := os.environ.get("NPUDOCTOR_PYTHON")):
        told, source = replace(told, python=named), f"NPUDOCTOR_PYTHON={named}"
    if named is None:
        return
    from npudoctor.facts.python import target_python

    meant = target_python.target_python(host, told, None)
    try:
        found = target_python.python_environment(host, meant)
    except Unavailable as why:
        if why.because is Because.TIMED_OUT:
            return
        if host.about.source != "live":
            raise UsageError(f"{source}: this node has no data of a Python: {why.reason}") from why
        raise UsageError(f"{source}: {why.reason}") from why
    if host.about.source != "live" and not _is_one(host, meant.path, found.executable):
        raise UsageError(f"{source}: this node has data of {found.executable} only")
    if found.release < target_python.OLDEST:
        oldest = ".".join(map(str, target_python.OLDEST))
        raise UsageError(f"{source}: requires Python {oldest} or newer; found {found.version}")


def _is_one(host: Host, path: str, other: str) -> bool:
    """Whether two paths are one interpreter, judged by name: `python3` is the `python` beside it."""
    ours, theirs = (real_path(host, one).rpartition("/") for one in (path, other))
    return path == other or (ours[0] == theirs[0] and ours[2].startswith("python") and theirs[2].startswith("python"))


def _open(args: argparse.Namespace, config: site.Config) -> Host:
    if (args.replay or args.simulate) and args.environment:
        source = "--replay" if args.replay else "--simulate"
        raise UsageError(f"--environment cannot be combined with {source}, which has its own variables")
    if args.replay:
        from npudoctor.host import BundleError
        from npudoctor.host.recording import recorded_node

        try:
            return recorded_node.open_bundle(args.replay)
        except BundleError as problem:
            raise UsageError(str(problem)) from problem
    if args.simulate:
        from npudoctor import sim

        try:
            return sim.simulate(args.simulate)
        except sim.ScenarioError as problem:
            raise UsageError(str(problem)) from problem
    return _open_live(args, config)


def _open_live(args: argparse.Namespace, config: site.Config) -> Host:
    from npudoctor.host.live import job_environment, local, rooted

    if args.root:
        try:
            return rooted.open_root(args.root, at_once=config.tools_at_once)
        except ValueError as problem:
            raise UsageError(str(problem)) from problem
    try:
        whose, variables, owner = job_environment.resolve(args.environment, local.LocalHost(), user=config.user)
    except job_environment.BadEnvironment as problem:
        raise UsageError(str(problem)) from problem
    return local.LocalHost(environ=variables, environment=whose, owner=owner, at_once=config.tools_at_once)
