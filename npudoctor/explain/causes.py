"""The known causes in what a command of a fix, or an installer, has printed."""

from __future__ import annotations

from npudoctor.explain.diagnosis import diagnose
from npudoctor.explain.scan import Scanner

_MOST = 3


def causes_in(output: str) -> list[str]:
    """A line for each likely cause, the likeliest first; empty where no known issue shows."""
    scanner = Scanner()
    scanner.read("log", [output.encode("utf-8", "replace")])
    return [
        f"cause: {one.pitfall.cause} ({one.pitfall.id}; npudoctor explain {one.pitfall.id})"
        for one in diagnose(scanner).suspects[:_MOST]
    ]
