"""Print the JSON Schema of a report, or of an answer of the daemon: `npudoctor schema issues`."""

from __future__ import annotations

import argparse
from json import dumps

from npudoctor.cli.output import write
from npudoctor.models import adapter

REPORTS = ("check", "smoke")
ANSWERS = ("live", "ready", "issues", "history", "cards", "problem")
"""Answers of the daemon; /v1/report is the report of a check."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the choice of the document."""
    parser.add_argument("report", nargs="?", choices=(*REPORTS, *ANSWERS), default="check", help="default: check")


def run(args: argparse.Namespace) -> int:
    """Print the schema."""
    if args.report == "smoke":
        from npudoctor.smoke.events import SmokeReport

        write(dumps(adapter(SmokeReport).json_schema(mode="serialization"), indent=2) + "\n")
    elif args.report in ANSWERS:
        from npudoctor.daemon import answers

        write(dumps(answers.schema(args.report), indent=2) + "\n")
    else:
        from npudoctor.report import json

        write(json.schema())
    return 0
