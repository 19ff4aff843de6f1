"""The commands, and how their arguments and help texts are parsed and printed."""

from __future__ import annotations

import argparse
import importlib
from typing import Any, NoReturn, Protocol

from npudoctor.cli.output import UsageError

COMMANDS = {
    "tui": ("npudoctor.cli.tui", "open the terminal interface (default on a terminal)"),
    "check": ("npudoctor.cli.check", "diagnose this node, a recording, or a simulated node"),
    "web": ("npudoctor.cli.web", "serve the terminal interface to a browser (loopback only)"),
    "explain": ("npudoctor.cli.explain", "explain a check, a fix, a known issue, an error code, or a failing log"),
    "setup": ("npudoctor.cli.setup", "check, apply all safe fixes, and list what needs manual action"),
    "packages": ("npudoctor.cli.packages", "identify package files in a folder, and what fits this node"),
    "fix": ("npudoctor.cli.fix", "preview, apply and verify fixes"),
    "undo": ("npudoctor.cli.undo", "undo a fix"),
    "history": ("npudoctor.cli.history", "list changes made by npudoctor on this node"),
    "smoke": ("npudoctor.cli.smoke", "train a tiny model on all NPUs and name the failing rank"),
    "env": ("npudoctor.cli.env", "print the environment variables a job needs"),
    "facts": ("npudoctor.cli.facts", "print collected facts, or why a fact is unknown"),
    "list": ("npudoctor.cli.listing", "list all checks: id, title, profile, fix"),
    "report": ("npudoctor.cli.report", "write one page about this node for an issue or a ticket"),
    "record": ("npudoctor.cli.record", "record this node for offline diagnosis"),
    "validate": ("npudoctor.cli.validate", "compare npudoctor with this node's tools, for the project"),
    "knowledge": ("npudoctor.cli.knowledge", "print knowledge tables, or find matching releases"),
    "compare": ("npudoctor.cli.compare", "compare nodes and name the outliers"),
    "node": ("npudoctor.cli.node_digest", "describe this node in one line, for fleet"),
    "fleet": ("npudoctor.cli.fleet", "check many nodes and say what is wrong across them"),
    "parse": ("npudoctor.cli.parse", "parse a tool's output and print it as JSON"),
    "healthcheck": ("npudoctor.cli.healthcheck", "one-line health status for containers, exit 0 or 1"),
    "daemon": ("npudoctor.cli.daemon", "run continuously; read-only HTTP API and metrics"),
    "demo": ("npudoctor.cli.demo", "diagnose a simulated, newly installed node"),
    "service": ("npudoctor.cli.service", "install or remove the daemon as a systemd service"),
    "self": ("npudoctor.cli.self_uninstall", "uninstall: remove services and state of npudoctor"),
    "sim": ("npudoctor.cli.sim", "list simulated nodes, or write them to a folder"),
    "schema": ("npudoctor.cli.schema", "print the JSON Schema of the report"),
    "completion": ("npudoctor.cli.completion", "print a completion script for your shell"),
}


ALIKE = 0.65
"""How alike the words of an unknown and a known option must be for a question; `json` and `version` are 0.55."""
LEAST_BESIDE = 24
"""A description with fewer columns than this beside its command is printed below it."""


class OptionGroup(Protocol):
    """A parser, or a group of its options."""

    def add_argument(self, *names: str, **how: Any) -> argparse.Action:
        """Add an option, as argparse does."""

    def add_mutually_exclusive_group(self) -> OptionGroup:
        """A group of options of which one may be given."""


def fold_text(text: str, width: int) -> str:
    """Wrap paragraphs at a width; in lists of commands a long description moves to its own line."""
    import textwrap

    blocks = []
    for block in text.strip("\n").split("\n\n"):
        lines = block.splitlines()
        if any(line.startswith("  ") for line in lines):
            blocks.append("\n".join(piece for line in lines for piece in _example(line, width)))
        else:
            blocks.append(textwrap.fill(" ".join(lines), width, break_on_hyphens=False))
    return "\n\n".join(blocks)


def _columns() -> int:
    import shutil

    return min(shutil.get_terminal_size((80, 24)).columns or 80, 80) - 2


def _example(line: str, width: int) -> list[str]:
    """A line `  command   what it does`, split in two where it is too long."""
    import re
    import textwrap

    if len(line) <= width:
        return [line]
    if two := re.fullmatch(r"(  \S.*?)\s{2,}(\S.*)", line):
        beside = two.start(2) if width - two.start(2) >= LEAST_BESIDE else 6
        about = textwrap.wrap(two[2], width, initial_indent=" " * beside, subsequent_indent=" " * beside)
        return [two[1] + about[0][len(two[1]) :], *about[1:]] if beside > 6 else [two[1], *about]
    return textwrap.wrap(line, width, subsequent_indent=" " * 6, break_long_words=False)


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line that names the help option.

    Its help keeps paragraphs and examples of the description, and is wrapped at 80 columns.
    """

    def __init__(self, **how: Any) -> None:
        def formatter(prog: str) -> argparse.HelpFormatter:
            return argparse.RawDescriptionHelpFormatter(prog, width=_columns())

        super().__init__(**how, formatter_class=formatter, allow_abbrev=False)

    def format_help(self) -> str:
        """What --help prints."""
        self.description = fold_text(self.description or "", _columns())
        return super().format_help()

    def error(self, message: str) -> NoReturn:
        """Raise UsageError; the exit code is 2."""
        raise UsageError(f"{message}; {self._nearest(message)}see {self.prog} --help")

    def _nearest(self, message: str) -> str:
        """A question that names the option which an unknown one resembles, else nothing."""
        _, is_unknown, words = message.partition("unrecognized arguments: ")
        if not is_unknown or not words.startswith("--"):
            return ""
        import difflib
        import re

        known = ["version", *re.findall(r"--([a-z][a-z-]+)", self.format_help())]
        given = words.split()[0].partition("=")[0].removeprefix("--")
        begun = sorted({name for name in known if len(given) > 1 and name.startswith(given)})
        near = begun or difflib.get_close_matches(given, known, n=1, cutoff=ALIKE)
        return f"did you mean {' or '.join(f'--{name}' for name in near)}? " if near else ""


def parser_of(name: str) -> Parser:
    """The parser of one command."""
    module = importlib.import_module(COMMANDS[name][0])
    parser = Parser(prog=f"npudoctor {name}", description=module.__doc__)
    module.configure(parser)
    add_common(parser)
    parser.set_defaults(run=module.run, give_up=getattr(module, "give_up", None))
    return parser


def add_common(parser: argparse.ArgumentParser) -> None:
    """The options that every command takes."""
    group = parser.add_argument_group("common options")
    group.add_argument("--no-color", action="store_true", help="disable colours (also: environment variable NO_COLOR)")
    group.add_argument("--debug", action="store_true", help="show the traceback of an internal error")


def overview() -> str:
    """What `npudoctor --help` prints."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {about}" for name, (_, about) in COMMANDS.items()]
    text = "\n".join(
        [
            "usage: npudoctor [COMMAND] [OPTIONS]",
            "",
            "Finds out what is wrong with a Huawei Ascend NPU node, why, and what to fix first.",
            "Without a command it opens the terminal interface; without a terminal it runs",
            "`npudoctor check`.",
            "",
            "commands:",
            *lines,
            "",
            "start here:",
            "  npudoctor check                 find out what is wrong and what to fix first",
            "  npudoctor check --json          the same for scripts; check the exit code",
            "  npudoctor demo                  the same on a simulated node",
            "",
            "exit codes of check: 0 no error, 1 findings, 2 usage, 3 could not determine,",
            "4 internal error, 130 interrupted. See `npudoctor COMMAND --help` for each command.",
            "",
        ]
    )
    return fold_text(text, 80) + "\n"
