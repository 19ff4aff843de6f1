"""The checks of a run, for the list before the first result."""

from __future__ import annotations

from npudoctor.sdk import Check
from npudoctor.selection import select
from npudoctor.tui.model.session import Session


def checks(session: Session) -> tuple[Check, ...]:
    """The checks that a run would run; raises CannotOpen."""
    return select(session.node.catalog, session.node.selection)
