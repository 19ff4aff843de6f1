"""The selection of checks: ids, tags, profile, and the site's severities and silences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from npudoctor.findings import Severity, Silenced
from npudoctor.plugins import Catalog
from npudoctor.records import field, record
from npudoctor.sdk import ON_REQUEST, PROFILES, Check, Options


@record(frozen=True, kw_only=True)
class Selection:
    """Which checks to run and how to judge them.

    `names` and `skip` hold ids and tags. `severities` are the site's, for findings above info, by id;
    `silenced` the reasons of silences by id or tag. `deadline_s` bounds the whole run, in seconds.
    `known` are facts that are not obtained again.
    """

    names: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    options: Options = field(default_factory=Options)
    fail_on: Severity = Severity.ERROR
    severities: Mapping[str, Severity] = field(default_factory=dict)
    silenced: Mapping[str, Silenced] = field(default_factory=dict)
    deadline_s: float | None = None
    known: Mapping[type, Any] = field(default_factory=dict)


class UnknownName(ValueError):
    """A name that is neither a check nor a tag of this catalogue, with the nearest ones that are."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        self.name = name
        import difflib  # costs a millisecond that only a mistake should pay

        nearest = difflib.get_close_matches(name, known, n=2)
        hint = f"; did you mean {' or '.join(nearest)}?" if nearest else "; see npudoctor list"
        super().__init__(f"unknown check or tag {name!r}{hint}")


def select(catalog: Catalog, selection: Selection) -> tuple[Check, ...]:
    """The checks to run, in the order of the catalogue; one named by its id runs whatever the profile.

    Raises UnknownName.
    """
    tags = {tag for check in catalog.checks.values() for tag in check.tags}
    for name in (*selection.names, *selection.skip):
        if name not in catalog.checks and name not in tags:
            raise UnknownName(name, sorted(tags | set(catalog.checks)))
    affordable = PROFILES[: PROFILES.index(selection.options.profile) + 1]

    def is_chosen(check: Check) -> bool:
        if check.id in selection.skip or any(tag in selection.skip for tag in check.tags):
            return False
        if check.id in selection.names:
            return True
        named = any(tag in selection.names for tag in check.tags)
        if check.profile == ON_REQUEST:
            return named
        return (not selection.names or named) and check.profile in affordable

    return tuple(check for check in catalog.checks.values() if is_chosen(check))
