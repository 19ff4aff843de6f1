"""`npudoctor setup --packages` without --dry-run: driver and firmware are installed, after everything was checked."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shlex
import sys
from collections.abc import Mapping, Sequence

from npudoctor import plugins
from npudoctor.cli import node, setup_image, setup_node
from npudoctor.cli.output import UsageError, say, write
from npudoctor.control_characters import escape
from npudoctor.findings import Report, Severity, Status
from npudoctor.fixer import control, messages
from npudoctor.fixer.journal import RUNNING, STOPPED, Journal, RunRecord, now
from npudoctor.host import Refused, Unavailable
from npudoctor.host.apart import ApartHost
from npudoctor.host.live import audit
from npudoctor.installing import conditions, earlier, holders, opening, run, state, undoing, validity
from npudoctor.installing.state import Holder, Step
from npudoctor.packages.plan import NO_WAY_BACK, Plan
from npudoctor.plugins import Catalog
from npudoctor.records import replace
from npudoctor.sdk import Options
from npudoctor.steps import signatures

INSTALLED = ("driver", "firmware")
OPTIONS = frozenset({"--nox11", "--full", "--upgrade", "--quiet", "--install-for-all"})
"""What is passed to an installer."""
INTERRUPTED, NOT_READY = 6, 1
SET_UP = "/var/lib/npudoctor/setup.done"
"""What keeps the first-boot service from running: it has to run after an installation."""
Opened = tuple[ApartHost, Catalog, Options]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of an installation."""
    group = parser.add_argument_group("installing driver and firmware (docs/setup.md); each is asked for by name")
    group.add_argument(
        "--signed-by", metavar="FILE", help="certificates (PEM) or keys (OpenPGP) of those who may sign the packages"
    )
    group.add_argument("--irreversible", action="store_true", help="allow steps without a way back")
    group.add_argument("--expect-host", metavar="NAME", help="the name of this host, instead of typing it")
    group.add_argument("--unmanaged", action="store_true", help="confirm that no scheduler manages this node")
    group.add_argument(
        "--stop",
        action="append",
        default=[],
        metavar="NAME",
        help="stop this unit or container, which holds an NPU, and start it again after the proof",
    )
    group.add_argument(
        "--image", metavar="IMAGE", help="READY also requires a smoke run in this image, which is there already"
    )
    group.add_argument("--attach", action="store_true", help="follow an installation that goes on, and verify it")
    group.add_argument(
        "--resume",
        action="store_true",
        help="verify an installation after the reboot; with --yes: where one waits, then set up",
    )


def goes_on(args: argparse.Namespace) -> bool:
    """Whether an installation is gone on with; raises UsageError for options that need a folder, or exclude others."""
    named = [name for name in ("attach", "resume") if getattr(args, name)]
    if named and (args.packages or len(named) > 1):
        raise UsageError(f"--{named[0]} stands alone")
    if named and (args.dry_run or args.json):
        raise UsageError(f"--{named[0]} has no preview and no JSON: omit {'--dry-run' if args.dry_run else '--json'}")
    for name in ("irreversible", "expect_host", "unmanaged", "signed_by", "stop", "image"):
        if getattr(args, name) and not args.packages:
            raise UsageError(f"--{name.replace('_', '-')} requires --packages FOLDER")
    return bool(named) and not (args.resume and args.yes)


def refuse_early(args: argparse.Namespace, only: Sequence[str], expected: dict[str, str]) -> None:
    """Raise Refused for what a person has not named; nothing was read before."""
    if args.simulate or args.replay or args.root:
        raise Refused("packages are installed on the node itself only; add --dry-run. Nothing was changed")
    if args.json:
        raise Refused("--json is for the plan: add --dry-run. Nothing was changed")
    if not only or not set(only) <= set(INSTALLED):
        raise Refused("setup installs driver and firmware only: add --only driver,firmware, or --dry-run for the plan")
    for part in only:
        if part not in expected:
            raise Refused(f"the version is not named: add --expect {part}=VERSION, as in the plan of --dry-run")
        if f"{part}.install" not in args.allow:
            raise Refused(f"{part}.install is never applied by --yes: add --allow {part}.install")


def install(args: argparse.Namespace, plan: Plan, sums: Mapping[str, str | None], report: Report) -> int:
    """Install the steps of a plan that was shown and is complete; the exit code."""
    with open_this_machine(args) as (host, catalog, options):
        _refuse_by_checks(report, but="install.holders" if args.stop else "")
        for note in control.ignored_hold(host):
            say(f"npudoctor: {note}")
        if (forbidden := control.forbidden_now(options, host)) is not None:
            raise forbidden
        steps = tuple(_with_way_back(host, step) for step in _steps(plan, sums, args))
        journal = Journal(host, args.state)
        try:
            journal.prepare()
        except OSError as problem:
            raise Refused(messages.JOURNAL_NOT_WRITABLE.text(problem=problem)) from problem
        with control.lock_journal(journal):
            earlier.refuse_second(host, journal)
            if not steps:
                return _verify_installed(args, (host, catalog, options), journal)
            containers = setup_node.containers_of(catalog, host, options)
            stop = holders.confirmed_holders(host, args.stop, containers) if args.stop else ()
            for step in steps:
                signed = signatures.verify(host, step.source, args.signed_by)
                write(f"{escape(f'{step.source}: {signed}; SHA-256 {step.sha256}')}\n")
            replaced = dict.fromkeys(earlier.runs_to_replace(journal), "replaced by")
            return begin(args, (host, catalog, options), journal, steps, stop, replaced)


def begin(
    args: argparse.Namespace,
    where: Opened,
    journal: Journal,
    steps: Sequence[Step],
    stop: Sequence[Holder],
    replaced: Mapping[str, str],
) -> int:
    """Carry out steps once the node is out of service and the host is named, under the lock; the exit code.

    `replaced` are runs whose place the new one takes, with the words before its id.
    """
    host, catalog, options = where
    run.refuse_maintenance(host, journal)
    image = getattr(args, "image", None) or ""  # an undo has none
    if image:
        setup_image.must_be_there(host, image)
    caller = setup_node.caller_of(catalog, host, options, steps, image)
    service = conditions.out_of_service(host, unmanaged=args.unmanaged)
    if any(step.component == "firmware" for step in steps):
        conditions.must_be_physical(host)
    if stop:
        setup_node.free(catalog, host, options, stop)
    else:
        caller.free()
    described = setup_node.describe_node(host, catalog, options, unmanaged=args.unmanaged)
    digest = run.plan_digest(described, steps)
    write(f"out of service: {escape(service)}\nplan: SHA-256 {digest}\n")
    for one in stop:
        write(f"stopped before it, started after the proof: {escape(one.name)}\n")
    _confirm_host(args, host)
    record = _record(host, journal, steps, options, digest)
    opening.open_run(journal, record, described, steps, stop, caller.containers(), image, replaced)
    with contextlib.suppress(Unavailable, OSError, Refused):
        host.remove(SET_UP)
    return _follow_log(host, journal, record.id, caller)


def _verify_installed(args: argparse.Namespace, where: Opened, journal: Journal) -> int:
    """Verify what is installed already, where its installation was interrupted or not resumed in time."""
    host, catalog, options = where
    found = earlier.run_to_verify(host, journal)
    write(f"run {found} did not end with READY; all of it is installed by now, and is verified\n")
    _confirm_host(args, host)
    _, steps = state.plan_of(journal, found)
    caller = setup_node.caller_of(catalog, host, options, steps, state.image(journal, found))
    return _last(run.Installation(host, journal, found, caller).verify())


def _with_way_back(host: ApartHost, step: Step) -> Step:
    path = undoing.previous_package(step.way_back)
    return replace(step, back=path, back_sha256=undoing.digest(host, path)) if path else step


def go_on(args: argparse.Namespace) -> int:
    """`--attach` and `--resume`."""
    with open_this_machine(args) as (host, catalog, options):
        journal = Journal(host, args.state)
        found = state.current_run(journal)
        try:
            shown = (
                _show_log(host, journal, found) if args.attach and found and journal.document(found, state.PLAN) else 0
            )
        except (KeyboardInterrupt, SystemExit) as problem:
            return _tell_interrupt(problem)
        with control.lock_journal(journal) if journal.runs() else contextlib.nullcontext():
            run.lift_leftover(host, journal)
            found = state.current_run(journal)
            status = journal.status(found) if found else None
            if found is None or status is None:
                raise Refused("no installation goes on, and none waits for a reboot")
            if status.status == RUNNING and journal.document(found, state.PLAN) is None:
                journal.mark(found, STOPPED, earlier.BEFORE_FIRST)
                raise Refused(f"run {found} was interrupted before its first step; nothing was changed")
            _, steps = state.plan_of(journal, found)
            again = args.resume and state.verified_at(journal, found, len(steps))
            cut_off = status.status == RUNNING and validity.has_rebooted(host, journal, found)
            if status.status == STOPPED and not again:
                why = f"{status.reason}; nothing goes on with it: correct the cause and plan again"
                raise Refused(f"run {found}: {why}")
            if args.attach is not (status.status == RUNNING and not cut_off):
                instead = "npudoctor setup --resume" if args.attach else "npudoctor setup --attach"
                why = "waits for a reboot; after it:" if args.attach else "has not ended:"
                why = "was interrupted by a reboot:" if cut_off else why
                raise Refused(f"run {found} {why} {instead}")
            caller = setup_node.caller_of(catalog, host, options, steps, state.image(journal, found))
            if args.attach:
                return _follow_log(host, journal, found, caller, shown)
            this = setup_node.describe_node(host, catalog, options, unmanaged=False)
            try:
                return _last(run.Installation(host, journal, found, caller).resume(this))
            except (OSError, Unavailable) as problem:
                return _last(f"NOT READY: {problem}; correct this, then npudoctor setup --resume")


def option_to_go_on(args: argparse.Namespace) -> str:
    """The option that goes on with the installation of this node that has not ended; empty where there is none."""
    with contextlib.suppress(Refused, Unavailable, OSError), open_this_machine(args) as (host, _, _):
        journal = Journal(host, args.state)
        found = state.current_run(journal)
        status = journal.status(found) if found else None
        if found is None or status is None or journal.document(found, state.PLAN) is None:
            return ""
        if status.status == RUNNING and not validity.has_rebooted(host, journal, found):
            return "--attach"
        if status.status != STOPPED or state.verified_at(journal, found, len(state.plan_of(journal, found)[1])):
            return "--resume"
    return ""


def verify_waiting(args: argparse.Namespace) -> int:
    """Verify the installation that waits on this node, or that was interrupted; 0 where there is none, or it is READY.

    The safe fixes come after 0 only: what an interrupted step has left is for a person, and the node is not set up.
    """
    if args.simulate or args.replay or args.root or os.geteuid() != 0:
        return 0
    try:
        with open_this_machine(args) as (host, _, _):
            journal = Journal(host, args.state)
            found = state.current_run(journal)
            status = journal.status(found) if found else None
            if found is None or status is None:
                return 0
        return go_on(args)
    except Refused as why:
        return _last(f"NOT READY: {why.reason}")


def _show_log(host: ApartHost, journal: Journal, found: str) -> int:
    """Show the log of the step that runs, without the lock, which its npudoctor may hold; how many lines."""
    for number in range(1, len(state.plan_of(journal, found)[1]) + 1):
        if run.began_here(host, journal, found, number) and not state.read_end(journal, found, number):
            return run.follow(host, journal.archive(found, f"step-{number}"), setup_node.tell)
    return 0


def _follow_log(host: ApartHost, journal: Journal, id: str, caller: run.Caller, shown: int = 0) -> int:
    installation = run.Installation(host, journal, id, caller)
    installation.shown = shown
    try:
        return _last(installation.go_on())
    except (OSError, Refused, Unavailable) as problem:
        more = "an installer that has begun goes on: npudoctor setup --attach"
        return _last(f"INTERRUPTED at step {installation.number}: {problem}; {more}")
    except (KeyboardInterrupt, SystemExit) as problem:
        return _tell_interrupt(problem)


def _tell_interrupt(problem: KeyboardInterrupt | SystemExit) -> int:
    setup_node.tell(
        "npudoctor was interrupted; an installer that has begun goes on. Follow it with npudoctor setup --attach"
    )
    code = problem.code if isinstance(problem, SystemExit) else 130
    return code if isinstance(code, int) else 130


def _last(line: str) -> int:
    setup_node.tell(line)
    return 0 if line == run.READY else INTERRUPTED if line.startswith("INTERRUPTED") else NOT_READY


def open_this_machine(args: argparse.Namespace) -> _Node:
    """This machine as root; raises Refused for another one."""
    return _Node(args)


class _Node:
    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._config = node.load_config(args)
        self._catalog = plugins.load(args.plugin)
        self._opening = node.open_node(args, self._config)

    def __enter__(self) -> tuple[ApartHost, Catalog, Options]:
        host = self._opening.__enter__()
        try:
            if host.about.source != "live" or not isinstance(host, ApartHost) or host.rooted:
                raise Refused("an installation is of the node itself only")
            if host.user.uid != 0:
                raise Refused("only root installs driver and firmware", instead="sudo")
        except BaseException:
            self._opening.__exit__(None, None, None)
            raise
        return host, self._catalog, node.options(self._args, self._config)

    def __exit__(self, *problem: object) -> None:
        self._opening.__exit__(None, None, None)


def _refuse_by_checks(report: Report, *, but: str) -> None:
    """Every finding of a check before an installation stands against it, `but` those of a check that is made anew."""
    for result in report.results:
        if result.check == but:
            continue
        serious = [finding for finding in result.findings if finding.severity >= Severity.WARNING]
        if serious or result.status is Status.CRASHED:
            reason = serious[0].summary if serious else result.reason or "it crashed"
            raise Refused(f"{reason} ({result.check}; npudoctor check install --packages FOLDER)")


def _steps(plan: Plan, sums: Mapping[str, str | None], args: argparse.Namespace) -> tuple[Step, ...]:
    found = []
    for number, one in enumerate(plan.steps, 1):
        path, words = one.paths[0], shlex.split(one.command)
        digest = sums.get(path)
        if (
            one.component not in INSTALLED
            or len(one.paths) != 1
            or not path.endswith(".run")
            or words[:2] != ["bash", path]
        ):
            raise Refused(f"{one.title}: only a .run package is installed; {path} is none")
        if unknown := set(words[2:]) - OPTIONS:  # such as --force
            raise Refused(f"{one.title}: npudoctor passes no {', '.join(sorted(unknown))}")
        if digest is None:
            raise Refused(f"the SHA-256 of {path} is not known")
        if one.way_back == NO_WAY_BACK and not args.irreversible:
            raise Refused(f"{one.title} {one.then} has no way back: add --irreversible", instead="--irreversible")
        found.append(
            Step(
                id=one.id,
                component=one.component,
                title=one.title,
                now=one.now or "",
                then=one.then,
                way_back=one.way_back,
                source=path,
                file=f"{number}-{one.component}.run",
                sha256=digest,
                options=tuple(words[2:]),
            )
        )
    return tuple(found)


def _confirm_host(args: argparse.Namespace, host: ApartHost) -> None:
    """The name of the host, typed or named: nothing else starts an installation."""
    name = host.about.hostname
    if args.expect_host is not None:
        if args.expect_host != name:
            raise Refused(f"this host is {name}, not {args.expect_host}")
        return
    if not sys.stdin.isatty():
        raise Refused("not a terminal: add --expect-host with the name of this host", instead=f"--expect-host {name}")
    write("What is installed cannot be rolled back by npudoctor. Type the name of this host to begin: ")
    sys.stdout.flush()
    if sys.stdin.readline().strip() != name:
        raise Refused("the name of this host was not typed; nothing was changed")


def _record(host: ApartHost, journal: Journal, steps: Sequence[Step], options: Options, digest: str) -> RunRecord:
    who = audit.asker()
    preview = [
        f"{step.title} {step.now or 'none'} → {step.then}: SHA-256 {step.sha256} {step.source}" for step in steps
    ]
    return RunRecord(
        id=journal.new_name("setup.packages"),
        fix=",".join(step.id for step in steps),
        title=" and ".join(f"{step.title} {step.then}" for step in steps),
        params=json.dumps({"plan": digest}),
        by=f"{host.user.name} (uid {host.user.uid})",
        started_at=now(),
        effect="reboot",
        preview=tuple(preview),
        reversible=False,
        reason=options.reason,
        login=who.login,
        sudo_user=who.sudo_user,
        origin=who.origin,
        host=host.about.hostname,
        machine_id=journal.machine_id,
    )
