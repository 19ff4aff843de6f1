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


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    import shtab

    whole = Parser(prog="npudoctor")
    whole.add_argument("--version", action="store_true", help="print the version")
    commands = whole.add_subparsers(dest="command")
    for name, (_, about) in COMMANDS.items():
        commands.add_parser(name, parents=[parser_of(name)], add_help=False, help=about)
    write(shtab.complete(whole, shell=args.shell) + "\n")
    return 0
