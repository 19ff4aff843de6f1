"""Print a completion script for your shell.

examples:
  source <(npudoctor completion bash)
  npudoctor completion zsh > ~/.zfunc/_npudoctor
  npudoctor completion fish > ~/.config/fish/completions/npudoctor.fish
"""

from __future__ import annotations

import argparse

from npudoctor.cli.output import write
from npudoctor.cli.parsing import COMMANDS, Parser, parser_of


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the shell."""
    parser.add_argument("shell", choices=("bash", "zsh", "fish", "tcsh"))


_FILES = frozenset({"FILE", "PATH", "BUNDLE", "NODE", "NODE|FILE", "RUN|FILE", "FILE.tar.gz", "NODE.tar.gz|FOLDER"})
_FOLDERS = frozenset({"DIR", "FOLDER"})


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    import shtab

    whole = Parser(prog="npudoctor")
    whole.add_argument("--version", action="store_true", help="print the version")
    commands = whole.add_subparsers(dest="command")
    for name, (_, about) in COMMANDS.items():
        parser = parser_of(name)
        _complete(parser, name)
        commands.add_parser(name, parents=[parser], add_help=False, help=about)
    write(shtab.complete(whole, shell=args.shell) + "\n")
    return 0


def _complete(parser: argparse.ArgumentParser, command: str) -> None:
    """Say what can follow the parser's options: files, folders, and the names that npudoctor knows."""
    import shtab

    from npudoctor import plugins, sim

    catalog = plugins.load()
    names = {
        ("fix", "ids"): list(catalog.fixes),
        ("check", "names"): [*catalog.checks, *sorted({tag for one in catalog.checks.values() for tag in one.tags})],
        ("explain", "ids"): [*catalog.checks, *catalog.fixes],
    }
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, inner in action.choices.items():
                _complete(inner, f"{command} {name}")
        elif action.metavar in _FILES | _FOLDERS:
            action.complete = shtab.DIRECTORY if action.metavar in _FOLDERS else shtab.FILE  # type: ignore[attr-defined]
        elif action.metavar == "SCENARIO":
            action.choices = list(sim.scenarios())
        elif known := names.get((command, action.dest)):
            action.choices = known
