"""Print the JSON Schema of what `npudoctor check --json` prints, or `npudoctor smoke --json`."""

from __future__ import annotations

import argparse

from npudoctor.cli import write


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the choice of the report."""
    parser.add_argument("report", nargs="?", choices=("check", "smoke"), default="check", help="default: check")


def run(args: argparse.Namespace) -> int:
    """Print the schema."""
    if args.report == "smoke":
        from json import dumps

        from npudoctor.smoke.events import SmokeReport

        write(dumps(SmokeReport.model_json_schema(by_alias=True, mode="serialization"), indent=2) + "\n")
        return 0
    from npudoctor.report import json

    write(json.schema())
    return 0
