"""What a fix says of itself, and the page of all of them, docs/fixes.md: `npudoctor list --fixes --format markdown`."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator, Mapping
from typing import Any

from npudoctor.plugins import Catalog
from npudoctor.sdk import Effect, Fix, Risk

_HEAD = """\
# The fixes

Written by `npudoctor list --fixes --format markdown` from the fixes themselves.

`npudoctor fix` says which of them would help here. `npudoctor fix ID --dry-run` shows the exact change, and
`npudoctor fix ID` makes it after a question: journalled before each step, proved by running the checks again that it
should mend, and undone if they still fail. `npudoctor undo` takes it back. What is promised, and which tests hold it,
stands in [safety.md](safety.md).

*Safe* fixes are reversible and harm no one else's work: only these are applied by `fix --all-safe` and `setup`.
Parameters come from the findings, or from `--set name=value`: `a,b` is a list, `--set name.KEY=value` an entry of a
table.
"""
_EFFECTS = {
    Effect.NOW: "at once",
    Effect.NEW_LOGIN: "at a new login",
    Effect.REBOOT: "at the next boot",
}


def of_fix(fix: Fix, catalog: Catalog) -> dict[str, Any]:
    """What there is to say of a fix."""
    offered = [id for id, check in catalog.checks.items() if check.fix == fix.id]
    return {
        "id": fix.id,
        "title": fix.title,
        "why": fix.why or None,
        "mends": list(dict.fromkeys([*fix.resolves, *offered])),
        "safe": fix.risk is Risk.SAFE,
        "effect": fix.effect.value,
        "root": fix.root,
        "about_parameters": " ".join(inspect.cleandoc(fix.parameters.__doc__ or "").split()) or None,
        "parameters": [{"name": one.name, "default": _default(one)} for one in dataclasses.fields(fix.parameters)],
    }


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default is not dataclasses.MISSING:
        return list(field.default) if isinstance(field.default, tuple) else field.default
    return field.default_factory() if field.default_factory is not dataclasses.MISSING else None


def page(catalog: Catalog) -> str:
    """The page."""
    told = [of_fix(fix, catalog) for fix in catalog.fixes.values()]
    lines = [_HEAD, "| fix | what it does | safe | needs |", "| --- | --- | --- | --- |"]
    for one in told:
        safe, root = "yes" if one["safe"] else "asks", "root" if one["root"] else ""
        lines.append(f"| [`{one['id']}`](#{one['id'].replace('.', '')}) | {one['title']} | {safe} | {root} |")
    lines += ["", *(line for one in told for line in _section(one))]
    return "\n".join(lines).rstrip() + "\n"


def _section(one: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"## {one['id']}", "", f"{one['title']}.", "")
    if one["why"]:
        yield from (" ".join(one["why"].split()), "")
    if one["mends"]:
        yield "- resolves " + ", ".join(f"[`{id}`](checks.md#{id.replace('.', '')})" for id in one["mends"])
    risk = "safe" if one["safe"] else "asks a person each time"
    yield f"- {risk}; takes effect {_EFFECTS[Effect(one['effect'])]}{'; needs root' if one['root'] else ''}"
    if one["parameters"]:
        names = ", ".join(f"`{shown(parameter)}`" for parameter in one["parameters"])
        yield f"- parameters {names}: {one['about_parameters']}"
    yield ""


def shown(parameter: Mapping[str, Any]) -> str:
    """A parameter with its default, as it would be set."""
    default = parameter["default"]
    if isinstance(default, bool):
        return f"{parameter['name']}={str(default).lower()}"
    if isinstance(default, Mapping):
        return f"{parameter['name']}.NAME="
    return f"{parameter['name']}={','.join(map(str, default)) if isinstance(default, list) else default}"
