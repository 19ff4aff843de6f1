"""What fix, undo and setup share: showing a plan, asking, following a run, and the exit codes.

Exit codes: 0 applied and proved, or nothing to do · 5 some applied · 6 rolled back · 7 refused.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import sys
from collections.abc import Iterable, Sequence

from npudoctor.cli import UsageError, say
from npudoctor.fixer import runner
from npudoctor.fixer.journal import Journal
from npudoctor.fixer.plan import FixPlan
from npudoctor.fixer.runner import Begun, Ended, Event, Outcome, Proving, StepBegun, Undoing
from npudoctor.host import Host, MutableHost, Refused
from npudoctor.sdk import Effect, Risk

PARTLY, ROLLED_BACK, REFUSED = 5, 6, 7
GOOD = (Outcome.APPLIED, Outcome.NOTHING, Outcome.UNDONE)


def add_state(parser: argparse.ArgumentParser) -> None:
    """Add the option that says where the journal lies."""
    parser.add_argument(
        "--state",
        metavar="DIR",
        help="where the journal lies (default: /var/lib/npudoctor for root, else ~/.local/state/npudoctor)",
    )


def changeable(host: Host) -> MutableHost:
    """The host as one that can be changed; raises Refused for a recording and for what stands in for a node."""
    if host.about.source == "bundle" or not isinstance(host, MutableHost):
        raise Refused("a recording cannot be changed; run this on the node itself")
    return host


def title(plan: FixPlan) -> str:
    """The heading of a plan."""
    fix = plan.fix
    effects = {Effect.NOW: "", Effect.NEW_LOGIN: " · takes effect at a new login", Effect.REBOOT: " · after a reboot"}
    risk = "safe" if fix.risk is Risk.SAFE else "asks a person"
    return f"{fix.id} · {fix.title} · {risk}{effects[fix.effect]}"


def shown(plan: FixPlan) -> str:
    """A plan as a person reads it: what it mends, what it would change, what to know."""
    lines = [title(plan)]
    lines += [f"  mends {aim.check}: {aim.summary}" for aim in plan.aims]
    lines += [line for note in plan.notes for line in _note(note)]
    if plan.refused is not None:
        lines.append(f"  refused: {plan.refused.reason}")
        lines += [f"  instead: {plan.refused.instead}"] if plan.refused.instead else []
    elif plan.empty:
        why = "nothing to do: the node already is as this fix would leave it"
        lines.append("  nothing is changed" if plan.notes else f"  {why}")
    else:
        lines += [f"  {line}" for line in plan.preview.splitlines()]
        if plan.irreversible:
            lines.append("  this cannot be undone")
    return "\n".join(lines) + "\n"


def _note(note: str) -> list[str]:
    first, *rest = note.splitlines()
    return [f"  note: {first}", *(f"    {line}" for line in rest)]


def asked(question: str) -> bool | None:
    """What the person at the terminal says; None where there is none."""
    if not (sys.stdin and sys.stdin.isatty()):
        return None
    say(f"{question} [y/N] ", end="")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def listed(ids: Sequence[str]) -> str:
    """Some fixes in a question."""
    return "this" if len(ids) == 1 else " and ".join(filter(None, (", ".join(ids[:-1]), ids[-1])))


def made_good(host: Host, args: argparse.Namespace) -> int | None:
    """Undo first what a crash has cut off, if the person says so; the exit code where it stays, None to go on."""
    if host.about.source == "bundle" or not isinstance(host, MutableHost):
        return None
    try:
        left = Journal(host, args.state).cut_off()
    except Refused as why:
        say(f"npudoctor: refused: {why.reason}")
        return REFUSED
    if not left:
        return None
    say(f"cut off, and to be undone before anything else: {', '.join(left)}")
    if args.dry_run:
        say("  $ npudoctor fix --recover")
        return None
    if not args.yes and not asked("Undo it?"):
        say("refused; to undo it:\n  $ npudoctor fix --recover")
        return REFUSED
    outcome = follow(runner.recover(host, state=args.state), ["fix", "--recover"]).outcome
    return None if outcome in GOOD else exit_code([outcome])


def own_command() -> str:
    """The console script with its absolute path, as sudo needs it, or what does the same in any folder."""
    script = os.path.join(os.path.dirname(sys.executable), "npudoctor")
    found = script if os.access(script, os.X_OK) else shutil.which("npudoctor")
    if found and os.path.isabs(found):
        return shlex.quote(found)
    return f"{shlex.quote(sys.executable)} -I -m npudoctor"


def with_sudo(words: Sequence[str]) -> str:
    """The command that root would type."""
    return f"sudo {own_command()} {shlex.join(words)}"


def follow(events: Iterable[Event], words: Sequence[str]) -> Ended:
    """Consume the events of one run, telling how it goes; the last one."""
    try:
        for event in events:
            if isinstance(event, Ended):
                tell_end(event, words)
                return event
            _tell(event)
    except (KeyboardInterrupt, SystemExit):
        say("✖ interrupted: what was begun is taken back; to be sure of it:\n  $ npudoctor fix --recover")
        raise
    raise AssertionError("a run has an end")


def _tell(event: Event) -> None:
    if isinstance(event, Begun):
        say(f"{event.fix}: {event.steps} step{'s' * (event.steps != 1)}, journalled as {event.run}")
    elif isinstance(event, StepBegun):
        say(f"  {event.number}. {_first_line(event.preview)}")
    elif isinstance(event, Proving):
        where = "in a new login" if event.effect is Effect.NEW_LOGIN else "again"
        say(f"  running {', '.join(event.checks[:4])}{' …' * (len(event.checks) > 4)} {where}")
    elif isinstance(event, Undoing):
        say(f"  undoing step {event.number}" + (f": {_first_line(event.preview)}" if event.preview else ""))


def tell_end(ended: Ended, words: Sequence[str]) -> None:
    """Say how a run ended, and what would work."""
    marks = {Outcome.APPLIED: "✔", Outcome.UNDONE: "✔", Outcome.NOTHING: "–"}
    name = f"{ended.fix}: " if ended.fix else ""
    what = {Outcome.ROLLED_BACK: "rolled back: ", Outcome.REFUSED: "refused: "}.get(ended.outcome, "")
    say(f"{marks.get(ended.outcome, '✖')} {name}{what}{ended.reason}")
    if ended.instead is not None:
        say(f"  $ {command_for(ended.instead, words)}")
    if ended.outcome is Outcome.APPLIED and "--simulate" in words:
        say("  a simulated node forgets it when this command ends")
    elif ended.outcome is Outcome.APPLIED and ended.reversible:
        say(f"  $ npudoctor undo {ended.run}   # takes it back")


def command_for(instead: str, words: Sequence[str]) -> str:
    """The exact command that would work."""
    if instead == "sudo":
        return with_sudo(words)
    return f"npudoctor {shlex.join(words)} {instead}" if instead.startswith("--") else instead


def _first_line(preview: str) -> str:
    lines = [line for line in preview.splitlines() if line] or ["nothing"]
    if lines[1:] and lines[1] == "+++ /dev/null":
        return lines[0][4:].removesuffix(" (now)") + " is removed"
    return (
        lines[1][4:].removesuffix(" (then)") + " is written"
        if lines[0].startswith("--- ") and len(lines) > 1
        else lines[0]
    )


def exit_code(outcomes: Sequence[Outcome]) -> int:
    """The exit code of several runs."""
    if all(outcome in GOOD for outcome in outcomes):
        return 0
    if any(outcome is Outcome.APPLIED for outcome in outcomes):
        return PARTLY
    return REFUSED if all(outcome in (*GOOD, Outcome.REFUSED) for outcome in outcomes) else ROLLED_BACK


def settings(assignments: Sequence[str]) -> dict[str, object] | None:
    """What `--set` says: key=value, key=a,b for a list, key.NAME=value for a mapping; None where it says nothing."""
    found: dict[str, object] = {}
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        if not (key and equals):
            raise UsageError(f"--set {assignment}: write key=value")
        name, dot, inner = key.partition(".")
        if dot:
            table = found.setdefault(name, {})
            if not isinstance(table, dict):
                raise UsageError(f"--set {assignment}: {name} is given twice")
            table[inner] = value
        else:
            found[key] = value
    return found or None


__all__ = ["GOOD", "add_state", "asked", "changeable", "exit_code", "follow", "runner", "settings", "shown", "title"]
