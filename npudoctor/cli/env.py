"""Print the environment that a job needs on this node: CANN's set_env.sh and corrected variables.

  eval "$(npudoctor env)"              in bash, zsh or sh; `source <(npudoctor env)` does the same
  npudoctor env --shell fish | source
  npudoctor env --systemd > /etc/npu.env     for EnvironmentFile= of a unit
  npudoctor env --check                check this shell's environment: 0 correct, 1 not

Nothing changes; `npudoctor fix env.profile` writes the same into a profile script.
"""

from __future__ import annotations

import argparse

from npudoctor import plugins
from npudoctor.cli import node
from npudoctor.cli.output import UsageError, say, write
from npudoctor.config import Config
from npudoctor.findings import Severity
from npudoctor.fixer import plan
from npudoctor.fixer.plan import Request
from npudoctor.host import Refused
from npudoctor.steps.files import WriteFile

FIX = "env.profile"
NOWHERE = "/proc/npudoctor-env"
"""A path that cannot exist: the plan for it is only printed."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of `npudoctor env`."""
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--shell", choices=("sh", "bash", "zsh", "fish", "csh"), default="sh", help="shell syntax")
    form.add_argument("--systemd", action="store_true", help="print a systemd EnvironmentFile with all values")
    form.add_argument("--check", action="store_true", help="check the current environment; exit 0 if correct")
    parser.add_argument(
        "--timeout", type=node.seconds, metavar="S", help="end after S seconds, whatever the tools do (default: 300)"
    )
    node.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print the environment, or check the current one."""
    config = node.load_config(args)
    with args.limit(args.timeout or config.timeout_s):
        code, text = _find_environment(args, config)
    write(text)
    return code


def _find_environment(args: argparse.Namespace, config: Config) -> tuple[int, str]:
    """The exit code, and what to print."""
    catalog = plugins.load(args.plugin)
    if FIX not in catalog.fixes:
        raise UsageError("the fix env.profile did not load; run `npudoctor check` for the reason")
    told = node.options(args, config)
    with node.open_node(args, config) as host:
        report, _ = plan.run_checks(catalog, host, plan.provers(catalog, catalog.fixes[FIX]), told)
        offered = [pair for pair in plan.offers(report).get(FIX, ()) if pair[1].severity >= Severity.WARNING]
        if args.check:
            lines = [f"{finding.summary} ({result.check})\n" for result, finding in offered]
            return (1 if offered else 0), "".join(lines)
        params = plan.merge_params(offer for _, finding in offered if (offer := finding.fix))
        params.pop("remove", None)  # this shell has run those lines already
        shell = "systemd" if args.systemd else "sh" if args.shell in ("bash", "zsh") else args.shell
        planned = plan.make(
            catalog, host, Request(FIX, {**params, "scope": "file", "path": NOWHERE, "shell": shell}), told
        )
    if isinstance(planned.refused, Refused):
        say(f"npudoctor: {planned.refused.reason}")
        return 1, ""
    text = "".join(one.step.content for one in planned.steps if isinstance(one.step, WriteFile))
    return 0, "# Environment for jobs on this node, by `npudoctor env`.\n" + text.partition("\n")[2]


give_up = node.give_up
