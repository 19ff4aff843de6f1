"""Simulated nodes as processes of this machine: for trying a fleet without one."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator

from npudoctor.data import to_data
from npudoctor.fleet import line, sim
from npudoctor.fleet.digest import Identity
from npudoctor.fleet.engines import Answer, Plan, processes
from npudoctor.models import adapter
from npudoctor.records import replace

ITSELF = ("-c", "import sys; sys.path[:1] = []; from npudoctor.cli import console; console()")
"""npudoctor of this interpreter, whatever the current folder holds."""

PREFIX_AT = 5
"""Which word of a script is the folder on the node: after sh -c TEXT sh MODE."""
MOST_COPIES = 1 << 20


def ask(plan: Plan) -> Iterator[Answer]:
    """Start one npudoctor for each node. The scenario is a name, a file, or a folder with a NAME.toml for each."""

    def argv(name: str) -> tuple[str, ...]:
        scenario = plan.scenario or "healthy-a3"
        if os.path.isdir(scenario):
            scenario = os.path.join(scenario, f"{name}.toml")
        return (sys.executable, *ITSELF, *plan.argv[plan.argv.index("node") :], "--simulate", scenario)

    if plan.script:
        yield from _scripts(plan)
        return
    fanout = min(plan.fanout, len(os.sched_getaffinity(0)))
    asked = ((name, argv(name)) for name in plan.names)
    for answer in processes.run_all(asked, timeout_s=plan.timeout_s + 5, fanout=fanout):
        yield answer if os.path.isdir(plan.scenario or "") else _copy(answer)


def _scripts(plan: Plan) -> Iterator[Answer]:
    """The script with a folder for each node below its prefix."""
    *head, prefix = plan.script[: PREFIX_AT + 1]
    tail = plan.script[PREFIX_AT + 1 :]
    asked = ((name, (*head, os.path.join(prefix, name), *tail)) for name in plan.names)
    fanout = min(plan.fanout, len(os.sched_getaffinity(0)))
    yield from processes.run_all(asked, timeout_s=plan.timeout_s, fanout=fanout, feed=plan.feed)


def _copy(answer: Answer) -> Answer:
    """The answer with addresses and numbers of its own: all copies of one simulated node have the same."""
    content = line.find(answer.stdout)
    if content is None:
        return answer
    digest = line.read(content)
    number = int.from_bytes(hashlib.sha256(answer.node.encode()).digest()[:3], "big") % MOST_COPIES
    own = {**sim.identity_of(to_data(digest.identity), number, answer.node), "rank_table": None}
    told = replace(digest, identity=adapter(Identity).validate_python(own))
    return replace(answer, stdout=f"{line.line_of(told)}\n")
