"""Shared by fix, undo and setup: show a plan, confirm, follow a run, and the exit codes.

Exit codes: 0 applied and verified, or nothing to do · 5 some applied · 6 rolled back · 7 refused.
"""

from __future__ import annotations

import argparse
import difflib
import os
import shlex
import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import cast

from npudoctor.cli.output import UsageError, say
from npudoctor.fixer import runner
from npudoctor.fixer.events import in_one_line
from npudoctor.fixer.journal import Journal
from npudoctor.fixer.plan import FixPlan
from npudoctor.fixer.runner import Begun, Ended, Event, Outcome, Proving, StepBegun, Undoing
from npudoctor.host import Host, MutableHost, Refused, is_mutable
from npudoctor.plugins import Catalog
from npudoctor.sdk import Effect, Risk

OF_SETUP = ("driver.install", "firmware.install")
"""What only `npudoctor setup --packages` installs, with every part and version named."""
PARTLY, ROLLED_BACK, REFUSED = 5, 6, 7
GOOD = (Outcome.APPLIED, Outcome.NOTHING, Outcome.UNDONE)


def unknown_fix(name: str, catalog: Catalog) -> UsageError:
    """The mistake of a name that is no fix of this catalogue, with the nearest that is."""
    near = difflib.get_close_matches(name, catalog.fixes, n=1)
    hint = f"did you mean {near[0]}? Known are" if near else "known are"
    return UsageError(f"unknown fix {name!r}; {hint} {', '.join(catalog.fixes)}")


def add_state(parser: argparse.ArgumentParser, *, only_read: bool = False) -> None:
    """Add the option for the journal's folder, which a command that changes the node makes where it is not there."""
    parser.add_argument(
        "--state",
        metavar="DIR",
        help="journal folder (default: /var/lib/npudoctor for root, else ~/.local/state/npudoctor); with --simulate "
        "a folder that keeps the node's changes between commands",
    )
    parser.set_defaults(keeps_changes=True, only_reads_state=only_read)


def add_reason(parser: argparse.ArgumentParser) -> None:
    """Add the option for the reason of a change."""
    parser.add_argument("--reason", metavar="TEXT", help="why: kept in the journal and in syslog, such as a ticket")


def changeable(host: Host) -> MutableHost:
    """The host with write access; raises Refused for recordings and other stand-ins."""
    if host.about.source == "bundle":
        raise Refused("recordings are read-only; run this on the node itself")
    if not is_mutable(host):
        raise Refused("a node below --root is read-only; run this on the node itself, without --root")
    return host


def with_journal(host: Host) -> MutableHost:
    """The host to read its journal, also below --root; raises Refused for a recording, which has none."""
    if host.about.source == "bundle":
        raise Refused("recordings are read-only and have no journal; run this on the node itself")
    return cast("MutableHost", host)


def title(plan: FixPlan) -> str:
    """The heading of a plan."""
    fix = plan.fix
    effects = {
        Effect.NOW: "",
        Effect.NEW_LOGIN: " · effective after next login",
        Effect.REBOOT: " · effective after a reboot",
    }
    undo = "" if plan.refused or not plan.steps else " · cannot be undone" if plan.irreversible else " · can be undone"
    risk = "" if fix.risk is Risk.SAFE else " · needs confirmation"
    return f"{fix.id} · {fix.title}{undo}{risk}{effects[fix.effect]}"


def rendered_plan(plan: FixPlan) -> str:
    """A plan as text: the findings it fixes, the changes, and notes."""
    lines = [title(plan)]
    lines += [f"  fixes {aim.check}: {aim.summary}" for aim in plan.aims]
    lines += [line for note in plan.notes for line in _note(note)]
    if plan.refused is not None:
        lines.append(f"  refused: {plan.refused.reason}")
        lines += [f"  instead: {plan.refused.instead}"] if plan.refused.instead else []
    elif plan.empty:
        why = "already applied; nothing to change"
        lines.append("  changes nothing" if plan.notes else f"  {why}")
    else:
        if plan.obstacle is not None and plan.obstacle.owner:
            lines.append(f"  not changed by npudoctor: {plan.obstacle.reason}")
        lines += [f"  {line}" for line in plan.preview.splitlines()]
    return "\n".join(lines) + "\n"


def _note(note: str) -> list[str]:
    first, *rest = note.splitlines()
    return [f"  note: {first}", *(f"    {line}" for line in rest)]


def confirm(question: str) -> bool | None:
    """The answer typed at the terminal; None without a terminal."""
    if not (sys.stdin and sys.stdin.isatty()):
        return None
    say(f"{question} [y/N] ", end="")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def join_ids(ids: Sequence[str]) -> str:
    """Some fixes in a question."""
    return "this" if len(ids) == 1 else " and ".join(filter(None, (", ".join(ids[:-1]), ids[-1])))


def made_good(host: Host, args: argparse.Namespace) -> int | None:
    """Undo interrupted runs first, after confirmation; the exit code where they stay, None to continue."""
    if host.about.source == "bundle" or not is_mutable(host):
        return None
    try:
        left = Journal(host, args.state).cut_off()
    except Refused as why:
        say(f"npudoctor: refused: {why.reason}")
        return REFUSED
    if not left:
        return None
    say(f"interrupted runs must be undone first: {', '.join(left)}")
    if args.dry_run:
        say("  $ npudoctor fix --recover")
        return None
    if not args.yes and not confirm("Undo now?"):
        say("refused. To undo them:\n  $ npudoctor fix --recover")
        return REFUSED
    outcome = follow(runner.recover(host, state=args.state), ["fix", "--recover"]).outcome
    return None if outcome in GOOD else exit_code([outcome])


def own_command() -> str:
    """The absolute path of the console script, as sudo needs it, or an equivalent for any folder."""
    script = os.path.join(os.path.dirname(sys.executable), "npudoctor")
    found = script if os.access(script, os.X_OK) else shutil.which("npudoctor")
    if found and os.path.isabs(found):
        return shlex.quote(found)
    return f"{shlex.quote(sys.executable)} -I -m npudoctor"


def with_sudo(words: Sequence[str]) -> str:
    """The command that root would type."""
    return f"sudo {own_command()} {shlex.join(words)}"


def follow(events: Iterable[Event], words: Sequence[str]) -> Ended:
    """Consume the events of one run and print progress; the last event."""
    try:
        for event in events:
            if isinstance(event, Ended):
                tell_end(event, words)
                return event
            _tell(event)
    except (KeyboardInterrupt, SystemExit):
        say("✖ interrupted: changes are being rolled back. To make sure:\n  $ npudoctor fix --recover")
        raise
    raise AssertionError("a run ends with an Ended event")


def _tell(event: Event) -> None:
    if isinstance(event, Begun):
        say(f"{event.fix}: {event.steps} step{'s' * (event.steps != 1)}, journalled as {event.run}")
    elif isinstance(event, StepBegun):
        say(f"  {event.number}. {in_one_line(event.preview)}")
    elif isinstance(event, Proving):
        where = "in a fresh login shell" if event.effect is Effect.NEW_LOGIN else "again"
        say(f"  running {', '.join(event.checks[:4])}{' …' * (len(event.checks) > 4)} {where}")
    elif isinstance(event, Undoing):
        say(f"  undoing step {event.number}" + (f": {in_one_line(event.preview)}" if event.preview else ""))


def tell_end(ended: Ended, words: Sequence[str]) -> None:
    """Print how a run ended, and the command that would work."""
    marks = {Outcome.APPLIED: "✔", Outcome.UNDONE: "✔", Outcome.NOTHING: "–"}
    name = f"{ended.fix}: " if ended.fix else ""
    what = {Outcome.ROLLED_BACK: "rolled back: ", Outcome.REFUSED: "refused: "}.get(ended.outcome, "")
    say(f"{marks.get(ended.outcome, '✖')} {name}{what}{ended.reason}")
    if ended.output:
        from npudoctor.explain.causes import causes_in  # here, because a fix that succeeds never needs it

        for line in causes_in(ended.output):
            say(f"  {line}")
    if ended.verification.text:
        say(f"  {ended.verification.text}")
    if ended.instead is not None:
        say(f"  $ {command_for(ended.instead, words)}")
    if ended.outcome is Outcome.APPLIED and "--simulate" in words:
        kept = words[words.index("--state") + 1] if "--state" in words else None
        say(f"  simulated: kept in {kept}" if kept else "  simulated: changes are discarded when the command exits")
        if kept and ended.reversible:
            node = shlex.join(["--simulate", words[words.index("--simulate") + 1], "--state", kept])
            say(f"  $ npudoctor undo {ended.run} {node}   # to undo")
    elif ended.outcome is Outcome.APPLIED and ended.reversible:
        say(f"  $ npudoctor undo {ended.run}   # to undo")


def command_for(instead: str, words: Sequence[str]) -> str:
    """The exact command that would work."""
    if instead == "sudo":
        return with_sudo(words)
    return f"npudoctor {shlex.join(words)} {instead}" if instead.startswith("--") else instead


def exit_code(outcomes: Sequence[Outcome]) -> int:
    """The exit code of several runs."""
    if all(outcome in GOOD for outcome in outcomes):
        return 0
    if any(outcome is Outcome.APPLIED for outcome in outcomes):
        return PARTLY
    return REFUSED if all(outcome in (*GOOD, Outcome.REFUSED) for outcome in outcomes) else ROLLED_BACK


def settings(assignments: Sequence[str]) -> dict[str, object] | None:
    """Parse `--set`: key=value, key=a,b for a list, key.NAME=value for a mapping; None without it."""
    found: dict[str, object] = {}
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        if not (key and equals):
            raise UsageError(f"--set {assignment}: expected key=value")
        name, dot, inner = key.partition(".")
        if dot:
            table = found.setdefault(name, {})
            if not isinstance(table, dict):
                raise UsageError(f"--set {assignment}: {name} is given twice")
            table[inner] = value
        else:
            found[key] = value
    return found or None


__all__ = [
    "GOOD",
    "add_state",
    "changeable",
    "confirm",
    "exit_code",
    "follow",
    "join_ids",
    "rendered_plan",
    "runner",
    "settings",
    "title",
]
