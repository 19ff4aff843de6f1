"""Writes what is made from other files: `python -m tools.pages`.

docs/checks.md, docs/fixes.md and the pages in docs/checks from the catalogue; docs/simulated-nodes.md from the records
of a scenario; npudoctor/knowledge/tables/words.json, the words by which logs are sifted, from the expressions of the
known issues.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from npudoctor import knowledge, plugins
from npudoctor.explain import fixes, pages, patterns, prefilter
from npudoctor.sim import scenario
from npudoctor.sim.products import PRODUCTS
from npudoctor.sim.releases import SYSTEMS

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
_WORDS_OF_TYPES = {str: "text", int: "whole number", float: "number", bool: "true or false"}
WORDS = ROOT / "npudoctor" / "knowledge" / "tables" / "words.json"


def made() -> dict[str, str]:
    """Each page below docs, by its path there; of the built-in checks and fixes only."""
    catalog = plugins.load(folder="")
    each = {f"checks/{check.id}.md": pages.page(check, catalog) for check in catalog.checks.values()}
    of_scenarios = "\n".join(_keys_of_scenarios()) + "\n"
    return {
        "checks.md": pages.catalogue(catalog),
        "fixes.md": fixes.page(catalog),
        "simulated-nodes.md": of_scenarios,
        **each,
    }


def _keys_of_scenarios() -> Iterator[str]:
    """The page of all keys of a scenario: its tables, what each key takes, and its default."""
    yield from (
        "# Keys of a simulated node",
        "",
        "`npudoctor check --simulate FILE.toml` examines a node that a TOML file describes: it says what differs from",
        "a healthy node. `product` is the only key that it needs. `npudoctor sim list` names those that are built in,",
        "in `npudoctor/sim/scenarios`. A key that is not below is refused. Without a default, a key is as on a healthy",
        "node of the product.",
        "",
        "```toml",
        'product = "atlas-800t-a2-910b3"',
        'cann = { version = "8.3.RC1" }',
        "",
        "[python]",
        'torch = "2.8.0"',
        'torch_npu = "2.8.0.post2"',
        'packages = { "vllm" = "0.13.0", "vllm-ascend" = "0.13.0" }',
        "",
        "[[card]]",
        "id = 3",
        'health = "Alarm"',
        "```",
        "",
        f"Products: {', '.join(sorted(PRODUCTS))}. Systems: {', '.join(sorted(SYSTEMS))}.",
    )
    yield from _keys_of("The node", scenario.Scenario)
    for name, kind in get_type_hints(scenario.Scenario).items():
        for table in _records_in(kind):
            yield from _keys_of(f"`{name}`", table)


def _records_in(kind: Any) -> list[Any]:
    return [kind] if dataclasses.is_dataclass(kind) else [one for part in get_args(kind) for one in _records_in(part)]


def _keys_of(title: str, kind: Any) -> Iterator[str]:
    """A table of keys; what one chip takes beside the keys of all chips is short."""
    bases = [one for one in kind.__mro__ if dataclasses.is_dataclass(one)]
    about = " ".join(" ".join((inspect.getdoc(one) or "").split()) for one in bases)
    keys = dataclasses.fields(kind)
    if kind is scenario.OneCard:
        about, keys = f"{inspect.getdoc(kind)} All keys of `cards` but `count`, and:", keys[-2:]
    yield from ("", f"## {title}", "", about, "", "| Key | Takes | Default |", "| --- | --- | --- |")
    hints = get_type_hints(kind)
    for key in keys:
        if key.default is dataclasses.MISSING:
            default = "required" if key.default_factory is dataclasses.MISSING else ""
        else:
            default = "" if key.default in (None, "", ()) else json.dumps(key.default)
        yield f"| `{key.name}` | {_values_of(hints[key.name])} | {default} |"


def _values_of(kind: Any) -> str:
    """What a key of this type takes, in words."""
    inner = [_values_of(one) for one in get_args(kind) if one not in (type(None), ...) and not isinstance(one, str)]
    if get_origin(kind) is Literal:
        return ", ".join(json.dumps(one) for one in get_args(kind))
    if get_origin(kind) is tuple:
        return f"list of {inner[0]}"
    if get_origin(kind) is dict:
        return f"table of names, each with {inner[1]}"
    if len(inner) == 2 and inner[1] == f"list of {inner[0]}":
        return f"{inner[0]}, or a list with one for each chip"
    return " or ".join(inner) or _WORDS_OF_TYPES.get(kind, "table")


def words() -> dict[str, Any]:
    """The words of each expression, by its key; the keys are in order, so that a change shows as few lines."""
    found = {patterns.key_of(one): sorted(prefilter.words_of(one) or ()) for _, _, one in patterns.expressions()}
    return {"schema": 1, "as_of": knowledge.pitfalls().as_of, "words": dict(sorted(found.items()))}


def main() -> None:
    """Write them, and remove the pages of checks that are gone."""
    folder = DOCS / "checks"
    folder.mkdir(exist_ok=True)
    found = made()
    for old in folder.glob("*.md"):
        if f"checks/{old.name}" not in found:
            old.unlink()
    for name, text in found.items():
        (DOCS / name).write_text(text, encoding="utf-8")
    WORDS.write_text(_lines(words()), encoding="utf-8")


def _lines(table: dict[str, Any]) -> str:
    """A table as JSON, with one expression a line."""
    head = json.dumps({name: value for name, value in table.items() if name != "words"}).removesuffix("}")
    rows = [f'"{key}": {json.dumps(each, ensure_ascii=False)}' for key, each in table["words"].items()]
    return head + ', "words": {\n' + ",\n".join(rows) + "\n}}\n"


if __name__ == "__main__":
    main()
