"""All actions by name, for the command palette."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from textual.app import App, SystemCommand
from textual.binding import Binding
from textual.command import Hit, Hits, Provider
from textual.screen import Screen

from npudoctor.tui import themes
from npudoctor.tui.model import environment, explaining

if TYPE_CHECKING:
    from npudoctor.tui.app import DoctorApp

EVIDENCE_LETTERS = 200
"""A piece of evidence is searched and shown up to here."""


class Codes(Provider):
    """Any code that `npudoctor explain` knows, when it is typed whole; those of findings are listed anyway."""

    async def search(self, query: str) -> Hits:
        """One entry where the code is known."""
        app, name = cast("DoctorApp", self.app), query.strip()
        spelled_like_one = name.isalnum() and not name.isalpha() and name.upper() not in app.diagnosis.codes()
        if spelled_like_one and await asyncio.to_thread(explaining.is_known, app.session, name):
            yield Hit(1, f"explain {name}", partial(app.explain, name), help="code or known issue")


def commands(app: DoctorApp, screen: Screen[Any]) -> Iterator[SystemCommand]:
    """The actions of the screen, then the global ones."""
    seen = set()
    for binding in [*keys(screen), *keys(app)]:
        if binding.description and binding.description not in seen:
            seen.add(binding.description)
            about = f"key {binding.key_display or binding.key}"
            where = screen if binding in keys(screen) else app
            yield SystemCommand(binding.description, about, partial(where.run_action, binding.action))
    yield from (one._replace(discover=False) for one in _contents(app))
    for name in themes.NAMES:
        yield SystemCommand(
            f"Theme: {name.removeprefix('npudoctor-')}", "change the theme", partial(app.choose_theme, name)
        )


def _contents(app: DoctorApp) -> Iterator[SystemCommand]:
    """Checks, findings, codes, fixes and variables: what a person may look for by name."""
    diagnosis, seen = app.diagnosis, set()
    for row in diagnosis.rows():
        show, about = partial(app.look_at, row.check), f"check, {row.state.value}"
        yield SystemCommand(f"{row.check}: {row.title}", about, show)
        if row.state.broken:
            yield SystemCommand(f"{row.check}: {row.summary}", about, show)
        for source, actual in diagnosis.evidence_of(row.check):
            yield SystemCommand(f"{source}: {actual}"[:EVIDENCE_LETTERS], f"evidence of {row.check}", show)
        for fix in sorted(diagnosis.fixes_of(row.check)):
            if fix not in seen and app.offers("fix"):
                seen.add(fix)
                yield SystemCommand(f"fix {fix}", f"fix of {row.check}", partial(app.preview_fix, row.check))
    for code, check in diagnosis.codes().items():
        yield SystemCommand(f"explain {code}", f"named by {check}", partial(app.explain, code))
    for one in environment.variables(app.session, diagnosis).rows:
        value = "not set" if one.value is None else one.value
        about = f"variable, {value}"[:60]
        yield SystemCommand(one.meaning, about, partial(app.show_variable, one.name))


def keys(owner: Screen[Any] | App[Any]) -> list[Binding]:
    """The keys that a screen or the application defines itself, without those that a read-only session refuses.

    A key that a subclass defines anew is listed once.
    """
    found = [one for base in type(owner).__mro__ for one in vars(base).get("BINDINGS", ()) if _ours(base)]
    app = cast("DoctorApp", owner.app)
    first = {one.key: one for one in reversed(found) if isinstance(one, Binding)}
    own = [one for one in found if isinstance(one, Binding) and first[one.key] is one]
    return [one for one in own if app.offers(one.action.partition("(")[0])]


def _ours(base: type) -> bool:
    return base.__module__.startswith("npudoctor.")
