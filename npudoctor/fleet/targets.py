"""Names of nodes: where they are read from, and how a long list of them is shown in a few characters."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence

from npudoctor.facts.network import rank_table
from npudoctor.host import ParseError
from npudoctor.host.live.safe_files import Unreadable, read_bounded

MOST_NODES = 100_000
MOST_WORDS = 20 * MOST_NODES
"""So many names are read of a list, in which a node may be named once for each of its ranks."""
MOST_RANGES = 16
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@%-]{0,252}")
_LAST_NUMBER = re.compile(r"(.*?)(\d{1,18})(\D*)", re.DOTALL)


class BadTargets(ValueError):
    """Targets that name no nodes; the text is one line."""


def expand(text: str) -> list[str]:
    """The names that `n[0001-0003,7]-ib,login1` stands for, in order; `@group` is resolved by ClusterShell."""
    found: list[str] = []
    for part in re.findall(r"(?:[^,\s\[]|\[[^\]]*\]?)+", text):
        if part.startswith("@"):
            found += _group(part)
        elif part:
            found += _expand(part)
        if len(found) > MOST_WORDS:
            raise _too_many()
    return check_names(found)


def _expand(text: str) -> Iterator[str]:
    if text.count("[") > MOST_RANGES:
        raise BadTargets(f"{text[:80]}: more than {MOST_RANGES} ranges")
    parts: list[Sequence[str]] = []
    bracket, rest = "[", text
    while bracket:
        head, bracket, rest = rest.partition("[")
        parts.append((head,))
        if bracket:
            inside, closed, rest = rest.partition("]")
            if not closed:
                raise BadTargets(f"{text[:80]}: the closing ] is missing")
            parts.append(_numbers(text, inside))
            if math.prod(map(len, parts)) > MOST_NODES:
                raise _too_many()
    return map("".join, itertools.product(*parts))


def _numbers(text: str, inside: str) -> list[str]:
    """The numbers in a pair of brackets."""
    numbers: list[str] = []
    for span in inside.split(","):
        if not (found := re.fullmatch(r"(\d{1,9})(?:[-:](\d{1,9}))?", span)):
            raise BadTargets(f"{text[:80]}: expected numbers such as 1-9 in [], found {span[:80]!r}")
        first, last = int(found[1]), int(found[2] or found[1])
        if len(numbers) + last - first >= MOST_NODES:
            raise _too_many()
        numbers += [f"{number:0{len(found[1])}}" for number in range(first, last + 1)]
    return numbers


def _group(name: str) -> list[str]:
    try:
        from ClusterShell.NodeSet import NodeSet, NodeSetException
    except ImportError:
        raise BadTargets(f"{name}: groups require ClusterShell: pip install 'npudoctor[fleet]'") from None
    try:
        return [str(node) for node in NodeSet(name)]
    except NodeSetException as problem:
        raise BadTargets(f"{name}: {problem}") from None


def check_names(names: Iterable[str]) -> list[str]:
    """Each name once, in order; raises BadTargets for one that no host can have, for too many, and for none."""
    found: dict[str, None] = {}
    for words, name in enumerate(names):
        if not is_name(name):
            raise BadTargets(f"expected a host name, found {name[:80]!r}")
        found[name] = None
        if len(found) > MOST_NODES or words >= MOST_WORDS:
            raise _too_many()
    if not found:
        raise BadTargets("no nodes named")
    return list(found)


def is_name(text: str) -> bool:
    """Whether a text can be the name of a node, and is no option, list or pattern of a program that is given it."""
    return _NAME.fullmatch(text) is not None and text.lower() != "all"


def _too_many() -> BadTargets:
    return BadTargets(f"more than {MOST_NODES:,} nodes")


def of_file(kind: str, path: str) -> list[str]:
    """The names in a hostfile, an Ansible inventory or a rank table; raises BadTargets."""
    try:
        text = read_bounded(path, 16 << 20).decode("utf-8", "replace")
        return check_names({"hostfile": _hostfile, "inventory": _inventory, "rank-table": _rank_table}[kind](text))
    except (Unreadable, ParseError) as problem:
        where = "" if str(problem).startswith(path) else f"{path}: "
        raise BadTargets(f"{where}{problem}") from None
    except BadTargets as problem:
        raise BadTargets(f"{path}: {problem}") from None


def _hostfile(text: str) -> Iterator[str]:
    """MPI and plain lists: `host`, `host slots=8`, `host:8`, ranges in brackets; # begins a comment."""
    for line in text.splitlines():
        if words := line.partition("#")[0].split():
            name = re.sub(r"^([^:\[\]]+):\d+$", r"\1", words[0])
            yield from expand(name)


_INI_LINE = re.compile(r"\[[\w.:-]+\]$|[\w.\[\]:-]+(?:$|\s+\w+=)")
_YAML_LINE = re.compile(r"---|\{|[\w-]+:(?:$|\s+(?:$|\{))")


def _inventory(text: str) -> Iterator[str]:
    """The hosts of an Ansible inventory: INI, or YAML and JSON."""
    lines = [line.strip() for line in text.splitlines()]
    if any(map(_INI_LINE.match, lines)) and not any(map(_YAML_LINE.match, lines)):
        section = ""
        for line in text.splitlines():
            words = re.sub(r"(?:^|\s)[#;].*", "", line).split()
            if words and words[0].startswith("["):
                section = words[0].strip("[]")
            elif words and not section.endswith((":vars", ":children")):
                yield from expand(words[0])
        return
    yield from _yaml_hosts(_yaml(text))


def _yaml(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        import yaml
    except ImportError:
        raise BadTargets("YAML requires PyYAML: pip install 'npudoctor[fleet]'") from None
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError):
        raise BadTargets("expected an Ansible inventory, found neither INI nor YAML") from None


def _yaml_hosts(said: object, depth: int = 0) -> Iterator[str]:
    if not isinstance(said, dict) or depth > 20:
        return
    for key, value in said.items():
        if key == "hosts" and isinstance(value, (dict, list)):
            for name in value:
                yield from expand(str(name))
        elif key not in ("vars", "_meta"):
            yield from _yaml_hosts(value, depth + 1)


def _rank_table(text: str) -> Iterator[str]:
    """The servers of a rank table, by their ids."""
    for server in rank_table.parse(text).servers:
        if server.id:
            yield server.id


def fold(names: Iterable[str]) -> str:
    """A list as `n[0017,0133-0140],login`: folded on the last number of each name, in order of appearance."""
    groups: dict[tuple[str, str, int], list[int]] = {}
    order: list[tuple[tuple[str, str, int] | None, str]] = []
    for name in dict.fromkeys(names):
        label, dot, domain = (name, "", "") if name.replace(".", "").isdigit() else name.partition(".")
        if not (found := _LAST_NUMBER.fullmatch(label)):
            order.append((None, name))
            continue
        head, number, tail = found[1], found[2], found[3] + dot + domain
        width = len(number) if number.startswith("0") and len(number) > 1 else 0
        key = (head, tail, width or _width_of(groups, head, tail, number))
        if key not in groups:
            order.append((key, name))
        groups.setdefault(key, []).append(int(number))
    return ",".join(name if key is None else _spans(key, groups[key]) for key, name in order)


def _width_of(groups: dict[tuple[str, str, int], list[int]], head: str, tail: str, number: str) -> int:
    """n1000 belongs to n[0001-1024] where that is there already."""
    return len(number) if (head, tail, len(number)) in groups else 0


def _spans(key: tuple[str, str, int], numbers: Sequence[int]) -> str:
    head, tail, width = key
    spans: list[list[int]] = []
    for number in sorted(set(numbers)):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    texts = [f"{first:0{width}}" if first == last else f"{first:0{width}}-{last:0{width}}" for first, last in spans]
    inside = ",".join(texts)
    return f"{head}{inside if len(spans) == 1 and '-' not in inside else f'[{inside}]'}{tail}"


def brief(names: Sequence[str], width: int = 60) -> str:
    """The folded list; of a long one the beginning and the number of all."""
    text = fold(names)
    return (
        text if len(text) <= width else f"{text[: width - 1].rpartition(',')[0] or text[: width - 1]},… ({len(names)})"
    )
