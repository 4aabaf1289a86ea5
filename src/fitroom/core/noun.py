"""A noun's JSON: frozen dataclass → text → the same dataclass, or a clear error.

The text carries ``"schema": "fitroom/<Noun>/<version>"``. A field or version that this release does not know is
refused rather than guessed at. Only JSON is read: nothing is ever unpickled or executed.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from enum import Enum
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar, Union

from fitroom.errors import SchemaError

Scalar: TypeAlias = str | int | float | bool | None
N = TypeVar("N", bound="Noun")


class Noun:
    """What the seven nouns have in common: a schema version and the JSON round trip."""

    VERSION: ClassVar[int] = 1

    def to_json(self) -> str:
        """One line of JSON, with the schema inside."""
        return dump(to_dict(self))

    @classmethod
    def from_json(cls: type[N], text: str) -> N:
        """The noun that `text` holds.

        Raises:
            SchemaError: if it is not JSON, not this noun, from another version, or has wrong fields.
        """
        return from_dict(cls, parse(text))


def dump(value: object) -> str:
    """Compact JSON on one line; NaN and infinity, which JSON does not have, are refused."""
    import json

    return json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))


def parse(text: str) -> dict[str, Any]:
    """The JSON object in `text`."""
    import json

    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SchemaError("Not JSON", received=repr(text[:60]), expected="a JSON object") from error
    if not isinstance(value, dict):
        raise SchemaError("Not a JSON object", received=repr(text[:60]))
    return value


def to_dict(noun: Noun) -> dict[str, Any]:
    """The noun as plain dicts, lists and scalars, with its schema first."""
    return {"schema": schema_of(type(noun)), **_encode(noun)}


def from_dict(cls: type[N], values: dict[str, Any]) -> N:
    """The noun that `values` describes, checked field by field."""
    values = dict(values)
    schema = values.pop("schema", None)
    if schema != schema_of(cls):
        raise SchemaError(
            f"Cannot read this {cls.__name__}",
            received=f"schema {schema!r}",
            expected=schema_of(cls),
            hint="the release of fitroom that wrote it",
        )
    noun: N = decode(cls, values, cls.__name__)
    return noun


def schema_of(cls: type[Noun]) -> str:
    """The schema that a noun of this release carries."""
    return f"fitroom/{cls.__name__}/{cls.VERSION}"


def _encode(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {field.name: _encode(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple):
        return [_encode(item) for item in value]
    if isinstance(value, dict):
        return {key: _encode(item) for key, item in value.items()}
    return value


def decode(hint: Any, value: Any, where: str) -> Any:
    """`value` as the type `hint`; `where` names the place for the error."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Union, types.UnionType):
        return _decode_union(arguments, value, where)
    if origin is tuple and isinstance(value, list):
        item_hints = [arguments[0]] * len(value) if arguments[-1] is Ellipsis else list(arguments)
        if len(item_hints) == len(value):
            pairs = zip(item_hints, value, strict=True)
            return tuple(decode(item, v, f"{where}[{i}]") for i, (item, v) in enumerate(pairs))
    elif origin is dict and isinstance(value, dict):
        return {key: decode(arguments[1], item, f"{where}.{key}") for key, item in value.items()}
    elif origin is Literal and any(value == one and type(value) is type(one) for one in arguments):
        return value
    elif dataclasses.is_dataclass(hint) and isinstance(value, dict):
        return _decode_dataclass(hint, value, where)
    elif isinstance(hint, type):
        if issubclass(hint, Enum) and any(value == member.value for member in hint):
            return hint(value)
        if hint is float and type(value) is int:
            return float(value)
        if type(value) is hint:
            return value
    raise SchemaError(f"Wrong value in {where}", received=repr(value)[:60], expected=_name(hint))


def _decode_union(arms: tuple[Any, ...], value: Any, where: str) -> Any:
    if value is None and type(None) in arms:
        return None
    arms = tuple(arm for arm in arms if arm is not type(None))
    # An int must stay an int where the union has one, though float would take it too.
    for arm in sorted(arms, key=lambda arm: arm is not type(value)):
        try:
            return decode(arm, value, where)
        except SchemaError:
            if len(arms) == 1:
                raise
    raise SchemaError(
        f"Wrong value in {where}", received=repr(value)[:60], expected=" or ".join(_name(arm) for arm in arms)
    )


def _decode_dataclass(cls: Any, values: dict[str, Any], where: str) -> Any:
    hints = typing.get_type_hints(cls)
    fields = {field.name: field for field in dataclasses.fields(cls)}
    if unknown := sorted(set(values) - set(fields)):
        raise SchemaError(
            f"Unknown field in {where}",
            received=", ".join(unknown),
            expected=", ".join(fields) or "no fields",
        )
    required = [name for name, field in fields.items() if not _has_default(field)]
    if missing := [name for name in required if name not in values]:
        raise SchemaError(f"Missing field in {where}", expected=", ".join(missing))
    decoded = {name: decode(hints[name], value, f"{where}.{name}") for name, value in values.items()}
    try:
        return cls(**decoded)
    except SchemaError:
        raise
    except ValueError as error:
        raise SchemaError(f"Impossible {where}", received=str(error)) from error


def _has_default(field: dataclasses.Field[Any]) -> bool:
    return not (field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING)


def _name(hint: Any) -> str:
    if typing.get_origin(hint) is Literal:
        return " or ".join(repr(one) for one in typing.get_args(hint))
    if isinstance(hint, type) and issubclass(hint, Enum):
        return " or ".join(repr(member.value) for member in hint)
    return hint.__name__ if isinstance(hint, type) else str(hint)
