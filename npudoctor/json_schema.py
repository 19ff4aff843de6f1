"""The JSON Schema (draft 2020-12) of a model, from its annotations and docstrings."""

from __future__ import annotations

import dataclasses
import datetime
import inspect
from collections.abc import Mapping
from enum import Enum
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from npudoctor.data import Model, hints_of, plain, written_fields


def of(kind: type[Model]) -> dict[str, Any]:
    """The schema of what `data.plain` makes of a model."""
    definitions: dict[str, Any] = {}
    whole = _of_record(kind, definitions)
    return {"$defs": dict(sorted(definitions.items())), **whole} if definitions else whole


def _of_record(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    hints, properties, required = hints_of(kind), {}, []
    fields = {one.name: one for one in dataclasses.fields(kind)}
    for name, key, _ in written_fields(kind):
        one = _of_type(hints[name], definitions)
        if fields[name].default is not dataclasses.MISSING:
            one = {**one, "default": plain(fields[name].default)}
        elif fields[name].default_factory is dataclasses.MISSING:
            required.append(key)
        properties[key] = one if "$ref" in one else {**one, "title": key.replace("_", " ").title()}
    said: dict[str, Any] = {"title": kind.__name__, "type": "object", "properties": properties}
    if not getattr(kind, "ignores_unknown", False):
        said["additionalProperties"] = False
    return {**_description(kind), **said, **({"required": required} if required else {})}


def _description(kind: Any) -> dict[str, str]:
    return {"description": text} if (text := inspect.getdoc(kind)) else {}


def _of_type(hint: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _of_type(inner[0], definitions)
    if origin in (Union, UnionType):
        return {"anyOf": [_of_type(one, definitions) for one in inner]}
    if origin is Literal:
        return {"const": inner[0], "type": "string"} if len(inner) == 1 else {"enum": list(inner), "type": "string"}
    if origin in (tuple, list):
        return {"type": "array", "items": _of_type(inner[0], definitions)}
    if origin is dict or hint is dict or (isinstance(origin, type) and issubclass(origin, Mapping)):
        one = _of_type(inner[1], definitions) if inner else {}
        return {"type": "object", "additionalProperties": one or True}
    if isinstance(hint, type) and (issubclass(hint, Enum) or dataclasses.is_dataclass(hint)):
        if hint.__name__ not in definitions:
            definitions[hint.__name__] = {}  # before its fields, which may refer to it
            definitions[hint.__name__] = (
                {**_description(hint), "title": hint.__name__, "type": "string", "enum": [one.value for one in hint]}
                if issubclass(hint, Enum)
                else _of_record(hint, definitions)
            )
        return {"$ref": f"#/$defs/{hint.__name__}"}
    if hint is datetime.date:
        return {"type": "string", "format": "date"}
    names = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
    return {"type": names[hint]} if hint in names else {}
