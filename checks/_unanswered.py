"""Facts that are known for some of the chips only."""

from __future__ import annotations

from npudoctor.sdk import Because, Unavailable


def tell_unanswered(why: Unavailable | None) -> None:
    """Raise why the main question of a check has no answer for some; one that does not arise there is no reason."""
    if why is not None and why.because is not Because.NOT_APPLICABLE:
        raise why
