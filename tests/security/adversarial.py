"""Every regular expression of the product, and texts on which one that is not linear shows it.

The expressions are found in the source: the first argument of each call of `re`, evaluated among the names of its
module; compiled ones with the methods that are called on them; and those of the knowledge base. The texts are made
from the parsed expression: for each of its repetitions, what leads up to it, then its own characters many times, then
what it does not accept.
"""

from __future__ import annotations

import ast
import importlib
import itertools
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

try:
    from re import _parser  # type: ignore[attr-defined]
except ImportError:  # Python 3.10
    import sre_parse as _parser

ROOT = Path(__file__).resolve().parents[2]
GENERIC = "aA0 -./:=\"'[(_,\n\t%*+"
ANCHORED = ("match", "fullmatch")
CALLS = ("compile", "search", "match", "fullmatch", "sub", "subn", "split", "findall", "finditer")
LONG = 64
"""A repetition of at most so many does not grow with the text."""


class Expression(NamedTuple):
    """One expression: where it stands, and how it is applied (search where anything but an anchored call is made)."""

    where: str
    text: str
    flags: int
    how: str


class Unresolved(NamedTuple):
    """A call of `re` whose expression is only known at run time."""

    where: str
    code: str


def sources() -> Iterator[tuple[Path, str]]:
    for folder in ("npudoctor", "checks", "fixes"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            parts = ("npudoctor", *parts) if folder != "npudoctor" else parts
            yield path, ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def in_code() -> tuple[list[Expression], list[Unresolved]]:
    """The expressions of all modules, and the calls that must be told some other way."""
    found: list[Expression] = []
    unresolved: list[Unresolved] = []
    for path, module in sources():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if not any(isinstance(node, ast.Attribute) and _of_re(node) for node in ast.walk(tree)):
            continue
        names = _names(path, module, tree)
        applied = _applied(tree)
        for owner, call in _calls(tree):
            where = f"{path.relative_to(ROOT)}:{call.lineno}"
            how = call.func.attr  # type: ignore[attr-defined]
            if how == "compile":
                methods = applied.get(owner, {"search"})
                how = min(methods) if methods <= set(ANCHORED) else "search"
            texts = _values(call.args[0], names, tree)
            if texts is None:
                unresolved.append(Unresolved(where, ast.unparse(call.args[0])))
                continue
            flags = _flags(call, names)
            found += [Expression(where, text, flags, how if how in ANCHORED else "search") for text in texts]
    return found, unresolved


def _of_re(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id == "re"


def _calls(tree: ast.Module) -> Iterator[tuple[str, ast.Call]]:
    """The calls of `re`, each with the name that its result is given."""
    owners = {
        node.value: target.id
        for node in ast.walk(tree)
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not _of_re(node.func):
            continue
        if node.func.attr in CALLS:
            yield owners.get(node, ""), node


def _applied(tree: ast.Module) -> dict[str, set[str]]:
    """By name of a compiled expression, the methods that are called on it; other uses count as a search."""
    found: dict[str, set[str]] = {}
    called = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found.setdefault(node.value.id, set()).add(node.attr)
            called.add(node.value)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node not in called and node.id in found:
            found[node.id].add("search")
    return found


def _names(path: Path, module: str, tree: ast.Module) -> dict[str, Any]:
    """The names of a module; a script that runs in another Python is not imported, its constants are evaluated."""
    if "in_target" not in path.parts and path.name != "worker.py":
        return dict(vars(importlib.import_module(module)))
    names: dict[str, Any] = {"re": re}
    for node in tree.body:
        if isinstance(node, ast.Assign):
            try:
                value = eval(compile(ast.Expression(node.value), str(path), "eval"), names)
            except Exception:  # it is none of the constants
                continue
            names.update({target.id: value for target in node.targets if isinstance(target, ast.Name)})
    return names


def _values(node: ast.expr, names: dict[str, Any], tree: ast.Module) -> list[str] | None:
    """What an expression of Python may be, as far as the module's own names tell."""
    if isinstance(node, ast.Name) and node.id not in names:
        for loop in ast.walk(tree):  # for expression in TABLE
            if isinstance(loop, (ast.For, ast.comprehension)) and isinstance(loop.target, (ast.Name, ast.Tuple)):
                place = _place(loop.target, node.id)
                if place is not None and (rows := _evaluated(loop.iter, names)) is not None:
                    rows = list(rows.items()) if isinstance(rows, dict) and len(place) else list(rows)
                    return [text for row in rows if isinstance(text := _at(row, place), str)]
        return None
    value = _evaluated(node, names)
    if isinstance(value, re.Pattern):
        value = value.pattern
    return [value if isinstance(value, str) else value.decode("latin-1")] if isinstance(value, (str, bytes)) else None


def _place(target: ast.expr, name: str) -> tuple[int, ...] | None:
    if isinstance(target, ast.Name):
        return () if target.id == name else None
    if isinstance(target, ast.Tuple):
        for number, inner in enumerate(target.elts):
            if (below := _place(inner, name)) is not None:
                return (number, *below)
    return None


def _at(row: Any, place: tuple[int, ...]) -> Any:
    for number in place:
        row = row[number]
    return row


def _evaluated(node: ast.expr, names: dict[str, Any]) -> Any:
    try:
        return eval(compile(ast.Expression(node), "expression", "eval"), dict(names))
    except Exception:  # it hangs on a local name
        return None


def _flags(call: ast.Call, names: dict[str, Any]) -> int:
    found = 0
    for node in [*call.args[1:], *(keyword.value for keyword in call.keywords if keyword.arg == "flags")]:
        value = _evaluated(node, names)
        if isinstance(value, re.RegexFlag):
            found |= int(value)
    return found


# Texts


def _sample(items: Any, least: int = 0) -> str:
    """A text that a parsed expression accepts, nearly: each repetition as short as it may be, and at least so long."""
    return "".join(_piece(operation, value, least) for operation, value in items)


def _piece(operation: Any, value: Any, least: int = 0) -> str:
    name = str(operation)
    if name == "LITERAL":
        return chr(value)
    if name == "NOT_LITERAL":
        return "a" if value != ord("a") else "b"
    if name == "ANY":
        return "a"
    if name == "IN":
        return _members(value)[:1]
    if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
        return _sample(value[2], least) * max(int(value[0]), min(least, int(value[1])))
    if name == "SUBPATTERN":
        return _sample(value[-1], least)
    if name == "ATOMIC_GROUP":
        return _sample(value, least)
    if name == "BRANCH":
        return _sample(value[1][0], least)
    return ""


def _members(value: Any) -> str:
    """A few characters that a class accepts."""
    negated = str(value[0][0]) == "NEGATE"
    accepted = ""
    for operation, what in value[negated:]:
        name, said = str(operation), str(what)
        if name == "LITERAL":
            accepted += chr(what)
        elif name == "RANGE":
            accepted += chr(what[0])
        elif name == "CATEGORY":
            accepted += {"CATEGORY_DIGIT": "0", "CATEGORY_SPACE": " \n", "CATEGORY_WORD": "a0_"}.get(said, "-a"[:1])
    if not negated:
        return accepted or "a"
    return "".join(one for one in "a0 -./:=_,[(" if not _is_in(one, value[1:])) or "é"


def _is_in(character: str, value: Any) -> bool:
    code = ord(character)
    for operation, what in value:
        name, said = str(operation), str(what)
        if name == "LITERAL" and what == code:
            return True
        if name == "RANGE" and what[0] <= code <= what[1]:
            return True
        if name == "CATEGORY":
            kind = {"DIGIT": r"\d", "SPACE": r"\s", "WORD": r"\w"}[said.rpartition("_")[2]]
            if (re.match(kind, character) is not None) != ("NOT_" in said):
                return True
    return False


def _repetitions(items: Any, before: str) -> Iterator[tuple[str, list[str]]]:
    """Each long repetition of an expression: what leads up to it, and texts that its body accepts."""
    for operation, value in items:
        name = str(operation)
        if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            if value[1] > LONG:
                body = list(value[2])
                kind = str(body[0][0]) if len(body) == 1 else ""
                bodies = list(_members(body[0][1])) if kind == "IN" else [_sample(body) or "a"]
                bodies += ["a", " ", ".", "0"] if kind == "ANY" else [_sample(body, 1)]
                yield before, [one for one in dict.fromkeys(bodies) if one][:5]
            yield from _repetitions(value[2], before)
        elif name == "SUBPATTERN":
            yield from _repetitions(value[-1], before)
        elif name == "BRANCH":
            for branch in value[1]:
                yield from _repetitions(branch, before)
        elif name in ("ASSERT", "ASSERT_NOT"):
            yield from _repetitions(value[1], before)
        before += _piece(operation, value)


def texts(expression: Expression, size: int, *, thorough: bool = False) -> Iterator[str]:
    """Texts of about that many characters that an expression may stumble over."""
    parsed: Any = _parser.parse(expression.text, expression.flags)
    whole = _sample(parsed) or "a"
    units = [*dict.fromkeys([*whole[:12], *(GENERIC if thorough else "a 0"), whole, whole[:-1] or "a"])]
    repetitions = list(_repetitions(parsed, ""))
    for before, bodies in repetitions:
        for body in bodies:
            yield before + body * (size // len(body)) + "\x01"
            units += [before + body, body]
    if thorough:
        short = [unit for unit in dict.fromkeys(units) if len(unit) == 1]
        units += ["".join(pair) for pair in itertools.permutations(short[:10], 2)]
        for before, bodies in repetitions:
            for one, other in itertools.permutations(bodies[:4], 2):
                yield before + one * (size // 2) + other * (size // 2) + "\x01"
    for unit in dict.fromkeys(units):
        yield unit * max(size // len(unit), 1) + "\x01"


# Times

FLOOR_S = 0.005
"""What takes less cannot be told from noise."""


def _took(expression: Expression, pattern: re.Pattern[str], text: str) -> float:
    began = time.process_time()
    if expression.how in ANCHORED:
        pattern.fullmatch(text)
        pattern.match(text)
    else:
        for _ in pattern.finditer(text):
            pass
    return time.process_time() - began


def worse_than_linear(expression: Expression, size: int, *, thorough: bool = False) -> str | None:
    """The text, cut, on which the time grows faster than the text; None where none was found."""
    pattern = re.compile(expression.text, expression.flags)
    sizes = [24, 72, 512, size, 4 * size]  # an exponential one takes long for 72, and for 512 does not end
    for *row, longer in zip(*(texts(expression, one, thorough=thorough) for one in sizes), strict=True):
        for number, text in enumerate(row):
            if min(_took(expression, pattern, text), _took(expression, pattern, text)) < FLOOR_S:
                continue
            if number < len(row) - 1:
                return str(text[:60])  # so much time for so little text
            if all(_grows_faster(expression, pattern, text, longer) for _ in range(3)):
                return str(text[:60])
    return None


def _grows_faster(expression: Expression, pattern: re.Pattern[str], text: str, longer: str) -> bool:
    """Whether four times the text takes more than eight times as long; a quadratic one takes 16 times."""
    short = min(_took(expression, pattern, text) for _ in range(5))
    return min(_took(expression, pattern, longer) for _ in range(2)) > 8 * short
