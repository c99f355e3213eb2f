"""A validator for the part of JSON Schema that describes amux's types: the second opinion."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


def violations(
    value: Any, schema: dict[str, Any], *, root: dict[str, Any], at: str = "$"
) -> Iterator[str]:
    """What is wrong with a decoded JSON value; nothing = it is valid. Unknown keys are refused."""
    if "$ref" in schema:
        name = str(schema["$ref"]).rsplit("/", 1)[-1]
        yield from violations(value, root["$defs"][name], root=root, at=at)
        return
    if "anyOf" in schema:
        if all(list(violations(value, one, root=root, at=at)) for one in schema["anyOf"]):
            yield f"{at}: {value!r} fits none of {schema['anyOf']}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{at}: {value!r} is none of {schema['enum']}"
    kind = schema.get("type")
    if kind is not None and not _is(value, str(kind)):
        yield f"{at}: {value!r} is no {kind}"
    elif kind == "object":
        yield from _object(value, schema, root=root, at=at)
    elif kind == "array" and isinstance(schema.get("items"), dict):
        for index, item in enumerate(value):
            yield from violations(item, schema["items"], root=root, at=f"{at}[{index}]")


def _is(value: Any, kind: str) -> bool:
    if isinstance(value, bool) and kind != "boolean":
        return False
    return isinstance(value, _TYPES[kind])


def _object(
    value: dict[str, Any], schema: dict[str, Any], *, root: dict[str, Any], at: str
) -> Iterator[str]:
    known: dict[str, Any] = schema.get("properties", {})
    yield from (
        f"{at}.{name} is missing" for name in schema.get("required", []) if name not in value
    )
    for name, inner in value.items():
        if name in known:
            yield from violations(inner, known[name], root=root, at=f"{at}.{name}")
        elif known:
            yield f"{at}.{name} is not in the schema"
        elif isinstance(schema.get("additionalProperties"), dict):
            rest = schema["additionalProperties"]
            yield from violations(inner, rest, root=root, at=f"{at}.{name}")
