"""Print in one line whether the NPUs of this container, or of this host, are healthy: exit 0 or 1, nothing else.

Made for HEALTHCHECK of a container. It checks that the NPUs are present, can be opened and are healthy; a running
job, a busy port, a full disk or a warning never makes a container unhealthy.

If the host runs npudoctor's daemon and its state is mounted here, the answer comes from that. Otherwise the command
runs npu-smi, or, in a container without npu-smi, checks the device nodes; the line then says "limited".

examples:
  npudoctor healthcheck                                in a Dockerfile: HEALTHCHECK CMD ["npudoctor", "healthcheck"]
  npudoctor healthcheck --require npu.health           unhealthy if chip health is unknown
  npudoctor healthcheck --require daemon               trust only the host's daemon
  npudoctor healthcheck --ask livez                    probe the daemon itself, over its Unix socket

While driver or firmware is being changed, the answer is "unhealthy: maintenance: ...", and the driver is not asked.

exit codes: 0 healthy, 1 anything else.
"""

from __future__ import annotations

import argparse
import os
from typing import Any

from npudoctor.cli.output import UsageError, write
from npudoctor.control_characters import escape
from npudoctor.daemon import asking, state
from npudoctor.host import hands_off

LINE_BYTES = 200
HEALTH = ("npu.present", "npu.count", "npu.health", "driver.access", "container.devices")
"""The checks of the tag `health`, named here so that `--require` can be judged without loading them."""

DAEMON = "daemon"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `npudoctor healthcheck`."""
    parser.add_argument("--timeout", type=float, default=20.0, metavar="S", help="time limit in seconds (default: 20)")
    parser.add_argument(
        "--require",
        action="append",
        default=[],
        choices=(*HEALTH, DAEMON),
        metavar="ID",
        help=f"checks that must have a result: {', '.join(HEALTH)}, or {DAEMON}; repeatable",
    )
    parser.add_argument(
        "--state", default=state.PATH, metavar="FILE", help=f"state file of the daemon (default: {state.PATH})"
    )
    parser.add_argument(
        "--ask",
        choices=("livez", "readyz"),
        help="ask the daemon only: is it alive (livez), are the NPUs healthy (readyz)",
    )
    parser.add_argument(
        "--socket", default=asking.SOCKET, metavar="PATH", help=f"socket of the daemon (default: {asking.SOCKET})"
    )
    parser.add_argument("--no-daemon", action="store_true", help="ignore the daemon and check here")
    parser.add_argument("--config", metavar="FILE", help="configuration file (default: the site's)")
    parser.add_argument("--root", metavar="DIR", help="use the files and tools below DIR, as `sim tools` writes them")
    parser.add_argument("--simulate", metavar="SCENARIO", help="a simulated node; see `npudoctor sim list`")


def run(args: argparse.Namespace) -> int:
    """Print the line; 0 where the NPUs are healthy."""
    fit, line = _answer(args)
    write(f"{_cut(escape(line), LINE_BYTES)}\n")
    return 0 if fit else 1


def _cut(line: str, limit: int) -> str:
    text = line.encode()
    return line if len(text) < limit else text[: limit - 4].decode(errors="ignore") + "..."


def _line_with_count(line: str, more: int) -> str:
    """The line with how many problems more there are, which stays where the line is cut."""
    rest = f" and {more} more" if more else ""
    return _cut(escape(line), LINE_BYTES - len(rest)) + rest


def _answer(args: argparse.Namespace) -> tuple[bool, str]:
    try:
        if not 0 < args.timeout < 86400:
            raise UsageError("--timeout: expected seconds above 0")
        if args.ask:
            return _ask_daemon(args)
        if not args.simulate and (why := hands_off.reason((args.root or "") + hands_off.PATH)):
            return False, f"unhealthy: {why}"
        said = "--no-daemon" if args.no_daemon else _from_daemon(args)
        if isinstance(said, str) and DAEMON in args.require:
            return False, f"unhealthy: no answer of the daemon: {said}"
        if isinstance(said, str):
            with args.limit(args.timeout):
                said = _from_here(args)
        return said
    except UsageError as problem:
        return False, f"unhealthy: {problem}"
    except Exception as problem:
        if args.debug:
            raise
        from npudoctor.host.shortage import what_ran_out

        if reason := what_ran_out(problem):
            return False, f"unhealthy: {reason}"
        return False, f"unhealthy: internal error: {type(problem).__name__}: {problem}"


# From the daemon itself


def _ask_daemon(args: argparse.Namespace) -> tuple[bool, str]:
    try:
        yes, said = asking.ask(args.socket, args.ask, timeout_s=args.timeout)
    except asking.NoAnswer as problem:
        return False, f"unhealthy: {problem}"
    if yes:
        return True, "healthy: daemon is alive" if args.ask == "livez" else "healthy: daemon is ready"
    return False, f"unhealthy: {said.get('reason') or said.get('error') or 'daemon is not ready'}"


# From the daemon's state


def _from_daemon(args: argparse.Namespace) -> tuple[bool, str] | str:
    """The daemon's verdict on the NPUs mapped in here; the reason where it has none for this machine."""
    try:
        known = state.read(args.state)
    except state.Untrusted as problem:
        return False, f"unhealthy: the daemon's state {problem}"
    if known is None:
        return f"{args.state} does not exist"
    if known.boot_id != state.boot_id():
        return False, f"unhealthy: state file {args.state} is of another machine or from before a reboot"
    if not known.is_fresh:
        return False, f"unhealthy: stale: last daemon run {known.age_s:.0f} s ago, interval {known.interval_s:g} s"
    here = _devices(args.root or "")
    states = {card.device: card.problem for card in known.cards}
    mine = [device for device in here if device in states]
    if not here:
        return f"no NPU device in {args.root or ''}/dev that {args.state} could speak of"
    if len(mine) < len(here):
        return f"{args.state} has no davinci{next(device for device in here if device not in states)}"
    troubled = [(device, states[device]) for device in mine if states[device]]
    if troubled:
        return False, _line_with_count(f"unhealthy: davinci{troubled[0][0]}: {troubled[0][1]}", len(troubled) - 1)
    if known.undetermined:
        return False, f"unhealthy: daemon could not determine: {known.undetermined}"
    if known.problem:
        return False, f"unhealthy: {known.problem}"
    return True, f"healthy: {_cards(len(mine))}, checked by the daemon {known.age_s:.0f} s ago"


def _devices(root: str) -> list[int]:
    """The N of /dev/davinciN here, including vNPUs (100 and above)."""
    try:
        names = os.listdir(f"{root}/dev")
    except OSError:
        return []
    return sorted(int(name[7:]) for name in names if name.startswith("davinci") and name[7:].isdecimal())


# From a run of our own


def _from_here(args: argparse.Namespace) -> tuple[bool, str]:
    from npudoctor import engine, plugins
    from npudoctor.cli import node
    from npudoctor.findings import Severity, Status
    from npudoctor.selection import Selection

    told = argparse.Namespace(
        config=args.config, root=args.root, simulate=args.simulate, replay=None, python=None, environment="process"
    )
    if args.simulate:
        told.environment = None
    told.role, told.expect_idle, told.profile = None, None, "quick"
    catalog = plugins.load()
    config = node.load_config(told, catalog)
    selection = Selection(
        names=("health",),
        options=node.options(told, config),
        severities=config.severity,
        silenced=config.silences_on(),
        deadline_s=args.timeout,
    )
    with node.open_node(told, config) as host:
        for event in engine.run(catalog, host, selection):
            if isinstance(event, engine.Done):
                done = event
    results = {result.check: result for result in done.report.results}
    errors = [
        (result.check, finding)
        for result in results.values()
        for finding in result.open_findings
        if finding.severity is Severity.ERROR
    ]
    if errors:
        from npudoctor.report import cause  # loads pydantic, which an answer of the daemon does without

        check, finding = errors[0]
        about = cause.with_subject(finding) if finding.chips else finding.summary
        return False, _line_with_count(f"unhealthy: {about} ({check})", len(errors) - 1)
    for check in (check for check in args.require if check != DAEMON):
        if results[check].status is Status.SKIPPED:
            why = results[check].reason or ""
            return False, f"unhealthy: {check} is required but unknown: {why}"
    unseen = [result for result in results.values() if result.leaves_undetermined or result.blocked_by]
    if not unseen:
        return True, f"healthy: {_cards(_count(done))}"
    limited = _substitute(done, unseen)
    if limited and not any(result.leaves_undetermined for result in unseen):
        return True, f"healthy (limited): {limited}"
    first = unseen[0]
    behind = f"{first.blocked_by} has an error; run `npudoctor check {first.blocked_by}`"
    return False, f"unhealthy: could not determine: {behind if first.blocked_by else first.reason} ({first.check})"


def _substitute(done: Any, unseen: list[Any]) -> str | None:
    """The substitute for npu-smi in a container without it; None where its absence does not explain the unknown."""
    from npudoctor.facts.node.container import Container
    from npudoctor.facts.node.device_nodes import DeviceNodes
    from npudoctor.facts.npu_smi.probes import NpuSmiAnswer

    facts = {probe.provides: value for probe, value in done.facts.items()}
    answer, nodes, container = facts.get(NpuSmiAnswer), facts.get(DeviceNodes), facts.get(Container)
    absent = isinstance(answer, NpuSmiAnswer) and not answer.found
    inside = isinstance(container, Container) and container.runtime is not None
    behind = all(result.blocked_by == "driver.npu-smi" for result in unseen)
    if not (absent and inside and behind and isinstance(nodes, DeviceNodes) and nodes.cards):
        return None
    return f"{_cards(len(nodes.cards))} by device nodes; npu-smi is missing in this container"


def _count(done: Any) -> int:
    from npudoctor.facts.node.chips import Chips

    return next((fact.count for fact in done.facts.values() if isinstance(fact, Chips)), 0)


def _cards(count: int) -> str:
    return "1 chip" if count == 1 else f"{count} chips"


def give_up(_: argparse.Namespace, reason: str) -> int:
    """The result of a run that did not end."""
    return refuse(f"could not determine: {reason}")


def refuse(problem: str) -> int:
    """The result of a mistake on the command line: one line, and unhealthy."""
    write(f"unhealthy: {problem}"[:LINE_BYTES] + "\n")
    return 1
