"""The glyphs and the styles of states: colour is never the only signal."""

from __future__ import annotations

from npudoctor.tui.model.diagnosis import State

GLYPHS = {
    State.PENDING: "·",
    State.RUNNING: "…",
    State.OK: "✔",
    State.WARNING: "!",
    State.ERROR: "✖",
    State.SKIPPED: "–",
    State.CRASHED: "?",
    State.WAITING: "↻",
}
STYLES = {
    State.PENDING: "$muted",
    State.RUNNING: "$accent",
    State.OK: "$success",
    State.WARNING: "bold $warning",
    State.ERROR: "bold $error",
    State.SKIPPED: "$muted",
    State.CRASHED: "bold $secondary",
    State.WAITING: "bold $accent",
}
