"""Print the JSON Schema of what `npudoctor check --json` prints."""

from __future__ import annotations

import argparse

from npudoctor.cli import write


def configure(_: argparse.ArgumentParser) -> None:
    """Take no options of its own."""


def run(_: argparse.Namespace) -> int:
    """Print the schema."""
    from npudoctor.report import json

    write(json.schema())
    return 0
