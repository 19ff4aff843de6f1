"""How `npudoctor fleet` asks: the nodes that the options name, the plan and the engine."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from npudoctor import clock
from npudoctor.cli.output import UsageError

if TYPE_CHECKING:
    from npudoctor.fleet.engines import Engine, Plan


def named_nodes(args: argparse.Namespace) -> list[str]:
    """The nodes that the options name, in their order; none where no option does."""
    from npudoctor.fleet import targets

    if args.names:
        return targets.expand(args.names)
    for kind in ("hostfile", "inventory", "rank-table"):
        if path := getattr(args, kind.replace("-", "_")):
            return targets.of_file(kind, path)
    return []


def new_folder() -> str:
    """The run folder of a run without --run."""
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return os.path.join(state, "npudoctor", "fleet", f"{clock.local():%Y-%m-%dT%H-%M-%S}-{os.getpid()}")


KEPT = {"engine": "auto", "slurm": False, "partition": None, "simulate": None, "ssh_config": None, "sudo": False}
KEPT |= {"remote_command": "npudoctor", "profile": None, "timeout": 120.0, "fanout": 64}
"""The options that a run keeps, with their defaults."""


def remember(args: argparse.Namespace, kept: Mapping[str, object]) -> None:
    """Take the options of a run that is resumed where none of this command replaces them."""
    another = args.slurm or args.simulate
    for name, default in KEPT.items():
        value = kept.get(name)
        if getattr(args, name) != default or type(value) is not type("" if default is None else default):
            continue
        if not (another and name in ("engine", "slurm", "simulate")):
            setattr(args, name, value)


def options_of(args: argparse.Namespace, engine: str) -> str:
    """What `remember` reads, as JSON: the engine that was used, and absolute paths."""
    told = {name: getattr(args, name) for name, default in KEPT.items() if getattr(args, name) != default}
    told["engine"] = engine
    for name in ("ssh_config", "simulate"):
        if name in told and os.path.exists(told[name]):
            told[name] = os.path.abspath(told[name])
    return json.dumps(told, indent=1) + "\n"


def plan(args: argparse.Namespace, names: list[str]) -> Plan:
    """What the engine is to do."""
    from npudoctor.fleet.engines import Plan

    command = getattr(args, "remote_command", "npudoctor")
    if args.sudo and hasattr(args, "remote_command") and not command.startswith("/"):
        raise UsageError("--sudo requires an absolute path on the nodes: --remote-command /PATH/npudoctor")
    return Plan(
        names=tuple(names),
        command=tuple(command.split()),
        words=("--profile", profile) if (profile := getattr(args, "profile", None)) else (),
        timeout_s=args.timeout,
        fanout=getattr(args, "fanout", 1),
        sudo=args.sudo,
        partition=getattr(args, "partition", None),
        scenario=getattr(args, "simulate", None),
        ssh_config=getattr(args, "ssh_config", None),
    )


def engine(args: argparse.Namespace) -> tuple[str, Engine]:
    """The engine and its name; simulated nodes are processes of this machine."""
    called, simulate = args.engine, getattr(args, "simulate", None)
    if called == "auto":
        in_slurm = args.slurm or "SLURM_JOB_ID" in os.environ
        called = "local" if simulate else "slurm" if in_slurm else "clustershell"
    if simulate and called != "local":
        raise UsageError(f"--simulate runs processes of this machine: leave out --engine {called}")
    if called == "local":
        from npudoctor import sim
        from npudoctor.fleet.engines import local

        if not simulate:
            raise UsageError("--engine local runs simulated nodes: add --simulate SCENARIO")
        if not os.path.isdir(simulate):
            try:
                sim.simulate(simulate).close()
            except sim.ScenarioError as problem:
                raise UsageError(str(problem)) from problem
        return called, local.ask
    if called == "slurm":
        from npudoctor.fleet.engines import slurm

        return called, slurm.ask
    try:
        from npudoctor.fleet.engines import clustershell
    except ImportError as problem:
        raise UsageError("asking over ssh requires ClusterShell: pip install 'npudoctor[fleet]'") from problem
    return called, clustershell.ask


def installing_engine(args: argparse.Namespace) -> tuple[str, Engine]:
    """The same where nothing is simulated: local is this machine, with one folder for each name."""
    if args.engine == "local":
        from npudoctor.fleet.engines import local

        return "local", local.ask
    return engine(args)


def only(plan: Plan, names: list[str]) -> Plan:
    """The plan for some of its nodes."""
    from npudoctor.records import replace

    return replace(plan, names=tuple(names))


def of_slurm(args: argparse.Namespace) -> list[str]:
    """The nodes that Slurm has, where --slurm asks for them."""
    from npudoctor.fleet.engines import slurm

    return slurm.nodes(args.partition) if args.slurm else []


def progress(done: int, total: int) -> None:
    """Show on a terminal how many nodes are done."""
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        sys.stderr.write(f"\r\x1b[K{done}/{total} nodes" if done < total else "\r\x1b[K")
        sys.stderr.flush()
