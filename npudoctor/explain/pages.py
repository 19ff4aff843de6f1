"""The page of all checks, docs/checks.md, written from the checks themselves: `npudoctor list --format markdown`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any

from npudoctor.explain import documents
from npudoctor.plugins import Catalog

_HEAD = """\
# The checks

Written by `npudoctor list --format markdown` from the checks themselves; `npudoctor explain ID` says the same of one.

Ids are contracts: silence them, link them, alert on them. A check of a profile also runs in the dearer ones: `quick`
(no import of torch, npu-smi once), `standard` (the default; adds the import of torch and the per-card tools), `full`
(touches the cards). A check is skipped behind an error of one that it stands after. Limits are set by name in
`[thresholds]` of the [configuration](configuration.md); P-numbers are pitfalls, which `npudoctor explain P001` tells.
"""


def catalogue(catalog: Catalog) -> str:
    """The page."""
    lines = [_HEAD]
    for group, checks in groupby(catalog.checks.values(), key=lambda check: check.group):
        told = [documents.of_check(check, catalog) for check in checks]
        lines += [f"## {group}", "", "| check | profile | holds when |", "| --- | --- | --- |"]
        lines += [
            f"| [`{one['id']}`](#{_anchor(one['id'])}) | {one['profile']} | {_cell(one['title'])} |" for one in told
        ]
        lines += ["", *(line for one in told for line in _section(one))]
    return "\n".join(lines).rstrip() + "\n"


def _section(check: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"### {check['id']}", "", f"{check['title']}.", "")
    if check["why"]:
        yield from (" ".join(check["why"].split()), "")
    yield f"- profile {check['profile']}, tags {_names(check['tags'])}"
    if check["facts"]:
        yield f"- judges {_names(check['facts'])}"
    if check["after"]:
        yield f"- skipped behind an error of {_names(check['after'])}"
    if check["fix_title"]:
        yield f"- mended by `npudoctor fix {check['fix']}`: {check['fix_title'][0].lower()}{check['fix_title'][1:]}"
    for limit in check["thresholds"]:
        yield f"- limit `{limit['name']}`, {limit['default']:g} {limit['unit']}: {limit['reason']}"
    for found in check["findings"]:
        yield f"- finds `{found['code']}` ({found['severity']}): {found['summary']}"
    for pitfall in check["pitfalls"]:
        yield f"- {pitfall['id']} {pitfall['title']}: {_mend(pitfall['mend'])}"
    yield ""


def _mend(steps: Iterable[Mapping[str, Any]]) -> str:
    return "; ".join(f"`{step['step']}`" if step["command"] else step["step"] for step in steps)


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _anchor(id: str) -> str:
    """What a heading is called in a link: letters, digits and dashes stay."""
    return id.replace(".", "")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
