"""Which node a command looks at, and what it is told about it: the options that check, facts and others share."""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
from collections.abc import Iterator

from npudoctor import config as site
from npudoctor.cli import UsageError, say
from npudoctor.facts.python import target_python
from npudoctor.host import Because, Host, Unavailable, real_path
from npudoctor.host.live import accounts
from npudoctor.plugins import Catalog
from npudoctor.records import replace
from npudoctor.sdk import PROFILES, Options

ROLES = ("auto", "full", "driver-only")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that name a node."""
    which = parser.add_argument_group("which node")
    source = which.add_mutually_exclusive_group()
    source.add_argument("--replay", metavar="BUNDLE", help="a recorded node: a folder or a .tar.gz")
    source.add_argument(
        "--simulate", metavar="SCENARIO", help="a simulated node: a name (`npudoctor sim list`) or a .toml file"
    )
    source.add_argument(
        "--root",
        metavar="DIR",
        help="read files below DIR instead of /: a host mounted into a container, or what `npudoctor sim tools` wrote",
    )
    told = parser.add_argument_group("what it is told")
    told.add_argument(
        "--python", metavar="PATH", help="the Python to examine (default: found, see docs; or $NPUDOCTOR_PYTHON)"
    )
    told.add_argument(
        "--environment",
        metavar="WHOSE",
        help="whose variables are judged: process, login, login:USER, pid:N or file:PATH (default: chosen, and said)",
    )
    told.add_argument(
        "--expect-idle", action="store_true", default=None, help="no job should run: judge live jobs in full"
    )
    told.add_argument("--role", choices=ROLES, help="driver-only: a container host, its CANN and Python are not judged")
    add_config(told)
    add_plugin(told)


def add_config(parser: argparse._ActionsContainer) -> None:
    """Add the option that names the site's configuration."""
    parser.add_argument(
        "--config", metavar="FILE", help="the site's configuration (default: ~/.config or /etc, npudoctor/config.toml)"
    )


def add_plugin(parser: argparse._ActionsContainer) -> None:
    """Add the option that names a file of checks, for every command that reads the catalogue."""
    parser.add_argument(
        "--plugin",
        action="append",
        default=[],
        metavar="FILE",
        help="a file, or a folder of files, with more checks, facts and fixes (see docs/plugins.md)",
    )


def words_of(args: argparse.Namespace) -> str:
    """The options that name the node, for a command that is shown to a person."""
    named = [(option, getattr(args, option, None)) for option in ("replay", "simulate", "root", "python")]
    words = [word for option, value in named if value for word in (f"--{option}", value)]
    return shlex.join(words) if words else ""


def load_config(args: argparse.Namespace, catalog: Catalog | None = None, *, trusted: bool = False) -> site.Config:
    """The site's configuration; raises UsageError with the one line that says what is wrong in it.

    With a catalogue the names in it are compared, and what the site should know of its configuration is told.
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
    """Raise UsageError for a name that the catalogue lacks; say what the site should know of its configuration."""
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
    """What the person who asked has decided; the command line before the configuration."""
    profile = getattr(args, "profile", None) or config.profile
    assert profile in PROFILES
    return Options(
        expect_idle=config.expect_idle if args.expect_idle is None else args.expect_idle,
        role=args.role or config.role,
        profile=profile,
        python=args.python or (None if args.replay or args.simulate else config.python),
        tool_timeout_s=config.tool_timeout_s,
        settings=dict(config.thresholds),
    )


@contextlib.contextmanager
def opened(args: argparse.Namespace, config: site.Config) -> Iterator[Host]:
    """The node that was asked for; what still runs on it is ended on leaving."""
    host = _open(args, config)
    try:
        _must_be_a_python(host, options(args, config))
        yield host
    finally:
        host.close()
        if problem := accounts.problem():
            say(f"npudoctor: {problem}")


def _must_be_a_python(host: Host, told: Options) -> None:
    """Refuse an interpreter that was named and is none, is too old, or is not the one that a recording tells of; its
    answer is kept for the run."""
    named, source = told.python, f"--python {told.python}"
    if named is None and host.about.source == "live" and (named := os.environ.get("NPUDOCTOR_PYTHON")):
        told, source = replace(told, python=named), f"NPUDOCTOR_PYTHON={named}"
    if named is None:
        return
    meant = target_python.target_python(host, told, None)
    try:
        found = target_python.python_environment(host, meant)
    except Unavailable as why:
        if why.because is Because.TIMED_OUT:
            return
        if host.about.source != "live":
            raise UsageError(f"{source}: this node's answers hold those of no Python: {why.reason}") from why
        raise UsageError(f"{source}: {why.reason}") from why
    if host.about.source != "live" and not _is_one(host, meant.path, found.executable):
        raise UsageError(f"{source}: this node's answers are those of {found.executable}, and hold those of no other")
    if found.release < target_python.OLDEST:
        oldest = ".".join(map(str, target_python.OLDEST))
        raise UsageError(f"{source}: it is Python {found.version}; {oldest} or newer can be examined")


def _is_one(host: Host, path: str, other: str) -> bool:
    """Whether two paths are one interpreter, as far as its names tell: `python3` is the `python` beside it."""
    ours, theirs = (real_path(host, one).rpartition("/") for one in (path, other))
    return path == other or (ours[0] == theirs[0] and ours[2].startswith("python") and theirs[2].startswith("python"))


def _open(args: argparse.Namespace, config: site.Config) -> Host:
    if (args.replay or args.simulate) and args.environment:
        source = "--replay" if args.replay else "--simulate"
        raise UsageError(f"--environment does not go with {source}: that node brings its own variables")
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
