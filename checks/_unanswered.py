"""Facts that are known for some of the chips only."""

from __future__ import annotations

from collections.abc import Collection

from npudoctor.sdk import Because, Unavailable


def tell_unanswered(why: Unavailable | None, failed: Collection[str] = (), silent: Collection[str] = ()) -> None:
    """Raise why the main question of a check has no answer for some; one that does not arise there is no reason.

    Where all that `failed` are `silent` chips, npu.health has said so.
    """
    if failed and set(failed) <= set(silent):
        raise Unavailable("see npu.health", blocked_by="npu.health")
    if why is not None and why.because is not Because.NOT_APPLICABLE:
        raise why
