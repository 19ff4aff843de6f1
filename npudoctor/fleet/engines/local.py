"""Simulated nodes as processes of this machine: for trying a fleet without one."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

from npudoctor.fleet.engines import Answer, Plan, processes

ITSELF = ("-c", "import sys; sys.path[:1] = []; from npudoctor.cli import console; console()")
"""npudoctor of this interpreter, whatever the current folder holds."""


def ask(plan: Plan) -> Iterator[Answer]:
    """Start one npudoctor for each node. The scenario is a name, a file, or a folder with a NAME.toml for each."""

    def argv(name: str) -> tuple[str, ...]:
        scenario = plan.scenario or "healthy-a3"
        if os.path.isdir(scenario):
            scenario = os.path.join(scenario, f"{name}.toml")
        return (sys.executable, *ITSELF, *plan.argv[plan.argv.index("node") :], "--simulate", scenario)

    fanout = min(plan.fanout, len(os.sched_getaffinity(0)))
    yield from processes.run_all(
        ((name, argv(name)) for name in plan.names), timeout_s=plan.timeout_s + 5, fanout=fanout
    )
