"""What a place in a document may hold, in words, read off a model's JSON schema.

Not validation: pydantic has refused the value already, this only tells a person what to write
instead. A field's own ``description`` wins over what is derived here.
"""

from typing import Any, Final

Schema = dict[str, Any]

_NOUNS: Final = {
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
}


def narrowed(schema: Schema, root: Schema) -> Schema:
    """Follow a reference into ``root``, and look through "or null"."""
    if "$ref" in schema:
        definition: Schema = root["$defs"][schema["$ref"].rsplit("/", 1)[-1]]
        return definition
    members = [member for member in schema.get("anyOf", []) if member.get("type") != "null"]
    return narrowed(members[0], root) if len(members) == 1 else schema


def allowed(schema: Schema) -> str:
    """Return what a narrowed schema lets through, as the end of a sentence."""
    if "properties" in schema:
        return f"a mapping of {', '.join(schema['properties'])}"
    if "description" in schema:
        return str(schema["description"])
    if "discriminator" in schema:
        tags = schema["discriminator"]
        return f"a mapping whose {tags['propertyName']} is {_one_of(sorted(tags['mapping']))}"
    if "anyOf" in schema:
        return " or ".join(allowed(member) for member in schema["anyOf"])
    if "const" in schema or "enum" in schema:
        return _one_of(schema.get("enum") or [schema["const"]])
    return _by_type(schema)


def _one_of(values: list[str]) -> str:
    *most, last = [f'"{value}"' for value in values]
    return f"{', '.join(most)} or {last}" if most else last


def _by_type(schema: Schema) -> str:
    kind = schema.get("type")
    if kind == "object":
        return "a mapping"
    if kind == "array":
        members = list(dict.fromkeys(allowed(member) for member in schema["prefixItems"]))
        return f"a list of {schema['minItems']}, each {' or '.join(members)}"
    if kind == "string":
        return (
            f"text that matches {schema['pattern']}" if "pattern" in schema else "text, not empty"
        )
    return f"{_NOUNS[str(kind)]}{_bounds(schema)}"


def _bounds(schema: Schema) -> str:
    # pydantic writes gt and lt where a bound stands on a member of a union.
    above = schema.get("exclusiveMinimum", schema.get("gt"))
    below = schema.get("exclusiveMaximum", schema.get("lt"))
    least, most = schema.get("minimum", schema.get("ge")), schema.get("maximum", schema.get("le"))
    if above is not None and below is not None:
        return f" between {above} and {below} (exclusive)"
    if least is not None and most is not None:
        return f" from {least} to {most}"
    words = {"above": above, "of at least": least, "below": below, "of at most": most}
    found = [f"{word} {bound}" for word, bound in words.items() if bound is not None]
    return f" {' and '.join(found)}" if found else ""
