"""Nodes by srun: one step on all of them, inside an allocation or outside of one.

The state of the scheduler is read once. A node that is drained, down, reserved or in maintenance is not asked: that is
its outcome, with the reason. srun ends the step itself when its time is up.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from npudoctor.fleet.engines import Answer, Plan, processes
from npudoctor.fleet.targets import BadTargets, fold

STARTING_S = 30.0
"""Seconds for srun to get the nodes and to start, besides those of the command."""
_OUT = ("down", "drain", "maint", "reserved", "fail", "power", "unknown", "planned", "reboot", "future")
_BUSY = ("alloc", "comp")
_NODE = re.compile(r"NPUDOCTOR-NODE (\S+)")


class State(NamedTuple):
    """What Slurm says of a node: its state, and the reason with who gave it and when."""

    name: str
    state: str
    reason: str


def nodes(partition: str | None) -> list[str]:
    """The nodes that Slurm has, of one partition or of all; raises BadTargets."""
    return [one.name for one in states(partition)]


def states(partition: str | None) -> list[State]:
    """One row for each node; raises BadTargets where sinfo does not answer."""
    where = ("-p", partition) if partition else ()
    argv = ("sinfo", "-N", "-h", *where, "-o", "%N|%T|%E|%u|%H")
    (answer,) = processes.run_all([("sinfo", argv)], timeout_s=60, fanout=1)
    if answer.code != 0:
        raise BadTargets(f"sinfo failed: {(answer.stderr.strip().splitlines() or ['no output'])[-1][:200]}")
    return parse_states(answer.stdout)


def parse_states(text: str) -> list[State]:
    """Read `sinfo -N -h -o "%N|%T|%E|%u|%H"`; a node in several partitions is named once."""
    found: dict[str, State] = {}
    for line in text.splitlines():
        cells = line.strip().split("|")
        if len(cells) < 5:
            continue
        reason, user, since = "|".join(cells[2:-2]), cells[-2], cells[-1]
        said = "" if reason in ("none", "") else f": {reason} (by {user}, since {since})"
        found.setdefault(cells[0], State(cells[0], cells[1], f"{cells[1]}{said}"))
    return list(found.values())


def ask(plan: Plan) -> Iterator[Answer]:
    """Ask the nodes that Slurm lets run something; the others are answers with their state."""
    known = {one.name: one for one in states(plan.partition)}
    inside = "SLURM_JOB_ID" in os.environ
    usable = []
    for name in plan.names:
        state = known.get(name)
        if state is None:
            yield Answer(node=name, code=None, kind="scheduler", stderr="not known to Slurm")
        elif any(word in state.state for word in _OUT):
            yield Answer(node=name, code=None, kind="scheduler", stderr=state.reason)
        elif not inside and state.state.startswith(_BUSY):
            yield Answer(node=name, code=None, kind="busy", stderr=state.reason)
        else:
            usable.append(name)
    if usable:
        yield from _step(plan, usable, inside=inside)


def _step(plan: Plan, names: list[str], *, inside: bool) -> Iterator[Answer]:
    where = ("-p", plan.partition) if plan.partition else ()
    limits = ("--overlap",) if inside else (f"--immediate={STARTING_S:.0f}", *where)
    argv = (
        *("srun", "-N", str(len(names)), "-n", str(len(names)), "-w", fold(names), "--ntasks-per-node=1"),
        *(
            "--label",
            "--no-kill",
            "--kill-on-bad-exit=0",
            "--wait=0",
            f"--input={'all' if plan.feed else 'none'}",
            *limits,
        ),
        *("sh", "-c", 'echo "NPUDOCTOR-NODE $SLURMD_NODENAME"; "$@"; echo "NPUDOCTOR-EXIT $?"', "sh", *plan.argv),
    )
    job = [("srun", argv)]
    limit = plan.timeout_s + 2 * STARTING_S
    (whole,) = processes.run_all(
        job, timeout_s=limit, fanout=1, most=len(names) * processes.MOST_OUTPUT, feed=plan.feed
    )
    outputs, errors = by_task(whole.stdout), by_task(whole.stderr)
    answered = set()
    claims = Counter(said[1] for text in outputs.values() if (said := _NODE.search(text)))
    for task, text in outputs.items():
        if not (said := _NODE.search(text)) or said[1] not in names:
            continue
        answered.add(said[1])
        if claims[said[1]] > 1:  # one of them answers in the name of another
            said_twice = f"{claims[said[1]]} nodes answered as {said[1]}"
            yield Answer(node=said[1], code=None, kind="garbled", stderr=said_twice)
            continue
        ended = re.search(r"NPUDOCTOR-EXIT (\d+)", text)
        yield Answer(
            node=said[1],
            code=int(ended[1]) if ended else None,
            stdout=text,
            stderr=errors.get(task, ""),
            started=whole.started,
            received=whole.received,
            timed_out=whole.timed_out or ended is None,
        )
    rest = "\n".join(line for line in whole.stderr.splitlines() if not re.match(r"\s*\d+: ", line))
    for name in names:
        if name not in answered:
            busy = re.search(r"unable to allocate|requested nodes are busy|immediate", rest, re.IGNORECASE)
            kind = "busy" if busy else None
            yield Answer(node=name, code=whole.code, stderr=rest[-2000:], timed_out=whole.timed_out, kind=kind)


def by_task(text: str) -> dict[str, str]:
    """The output of each task of `srun --label`, which folds long lines: what follows a line of full width joins it."""
    found: dict[str, list[str]] = {}
    for task, line in _split_labels(text.splitlines()):
        found.setdefault(task, []).append(line)
    return {task: _join_lines(lines) for task, lines in found.items()}


def _split_labels(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        if match := re.match(r"\s*(\d+): ?(.*)", line):
            yield match[1], match[2]


def _join_lines(lines: list[str]) -> str:
    text = ""
    for line in lines:
        folded = text and not text.endswith("\n") and re.fullmatch(r"[A-Za-z0-9+/=]+", line)
        text += line if folded else f"\n{line}"
    return f"{text.strip()}\n"
