"""Simulated nodes: a few lines of TOML become a host that answers every command and shows every file of such a node."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from npudoctor.sim import scenario
from npudoctor.sim.scenario import ScenarioError

if TYPE_CHECKING:
    from npudoctor.host.recording.canned import RecordedHost
    from npudoctor.host.simulated.host import SimulatedHost

_FOLDER = os.path.join(os.path.dirname(__file__), "scenarios")


def scenarios() -> dict[str, str]:
    """The scenarios that come with npudoctor, each with what it is about in one line."""
    names = sorted(name.removesuffix(".toml") for name in os.listdir(_FOLDER) if name.endswith(".toml"))
    return {name: scenario.load(_path(name)).about for name in names}


def simulate(name_or_path: str) -> SimulatedHost:
    """The node of a scenario, by its name or the path of a .toml file; raises ScenarioError."""
    from npudoctor.sim import machine

    path = name_or_path
    if not (os.sep in path or path.endswith(".toml")):
        path = _path(name_or_path)
        if not os.path.exists(path):
            raise _unknown_scenario(name_or_path)
    try:
        return machine.build(scenario.load(path), os.path.basename(path).removesuffix(".toml"))
    except ScenarioError as problem:
        raise ScenarioError(str(problem) if str(problem).startswith(path) else f"{path}: {problem}") from None


def write_bundle(host: RecordedHost, folder: str) -> None:
    """Write a node as a bundle: every command and file that it can answer; `folder` must not hold anything yet."""
    from npudoctor.sim import writing

    writing.write_bundle(host, folder)


def write_tools(host: RecordedHost, folder: str) -> None:
    """Write a node as a bundle with its commands as executables in folder/bin; each call is a line in calls.log."""
    from npudoctor.sim import writing

    writing.write_tools(host, folder)


def _path(name: str) -> str:
    return os.path.join(_FOLDER, f"{name}.toml")


def _unknown_scenario(name: str) -> ScenarioError:
    import difflib

    known = sorted(entry.removesuffix(".toml") for entry in os.listdir(_FOLDER) if entry.endswith(".toml"))
    near = difflib.get_close_matches(name, known, 1)
    meant = f"; did you mean {near[0]}?" if near else ""
    return ScenarioError(f"there is no scenario {name!r}{meant} (known: {', '.join(known)}; or give a .toml file)")


__all__ = ["ScenarioError", "scenarios", "simulate", "write_bundle", "write_tools"]
