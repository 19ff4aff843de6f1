"""What the vendor's installers and pip print when they fail, by install.json of ../shared/knowledge."""

import json
from pathlib import Path
from typing import Any

import pytest

TABLE = Path(__file__).resolve().parents[3] / "shared/knowledge/install.json"
HARMLESS = {"I035", "I048"}
"""The installer goes on after these."""


def examples(*stages: str) -> list[Any]:
    """The texts of each known failure of some stages."""
    if not TABLE.exists():
        return [pytest.param("", marks=pytest.mark.skip(reason="../shared/knowledge is not here"))]
    rows = json.loads(TABLE.read_text(encoding="utf-8"))["known_failures"]
    return [
        pytest.param(text, id=f"{row['id']}-{number}")
        for row in rows
        if row["id"] not in HARMLESS and row["stage"] in stages
        for number, text in enumerate(row["examples"])
    ]
