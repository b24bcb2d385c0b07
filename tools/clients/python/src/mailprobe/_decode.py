"""From JSON to the data classes of models.py, by their type hints.

Unknown fields are not an error, because the API may add some: they are in `raw`. A missing field takes its default. A null for
a field that cannot be null takes its default too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping as AbstractMapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, Dict, Literal, Mapping, Type, TypeVar, Union, get_args, get_origin, get_type_hints

from .errors import UnexpectedAnswerError

T = TypeVar("T")

_FRACTION = re.compile(r"\.(\d{1,6})\d*")


def decode(kind: Type[T], data: Any) -> T:
    """Makes a data class from an object of JSON.

    Raises UnexpectedAnswerError if a required field is missing or a field has another type.
    """
    if not isinstance(data, dict):
        raise UnexpectedAnswerError(f"{kind.__name__}: an object was expected")
    values: Dict[str, Any] = {}
    hints = _hints(kind)  # type: ignore[arg-type]
    for field in fields(kind):  # type: ignore[arg-type]
        if field.name == "raw":
            values["raw"] = data
            continue
        has_default = field.default is not MISSING or field.default_factory is not MISSING
        value = data.get(field.name)
        if field.name not in data or (value is None and not _is_optional(hints[field.name])):
            if not has_default:
                raise UnexpectedAnswerError(f"{kind.__name__}: the field `{field.name}` is missing")
            continue
        values[field.name] = _value(hints[field.name], value, f"{kind.__name__}.{field.name}")
    return kind(**values)


@lru_cache(maxsize=None)
def _hints(kind: Type[Any]) -> Mapping[str, Any]:
    return get_type_hints(kind)


def _is_optional(hint: Any) -> bool:
    return get_origin(hint) is Union and type(None) in get_args(hint)


def _value(hint: Any, value: Any, place: str) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return value
    if origin is Union:
        if value is None:
            return None
        (inner,) = [argument for argument in arguments if argument is not type(None)]
        return _value(inner, value, place)
    if origin is Literal:
        hint = str
    if origin is tuple:
        if not isinstance(value, list):
            raise UnexpectedAnswerError(f"{place}: an array was expected")
        return tuple(_value(arguments[0], item, place) for item in value)
    if origin in (dict, AbstractMapping):
        if not isinstance(value, dict):
            raise UnexpectedAnswerError(f"{place}: an object was expected")
        return {key: _value(arguments[1], item, place) for key, item in value.items()}
    if is_dataclass(hint):
        return decode(hint, value)  # type: ignore[arg-type]
    if hint is datetime:
        return _time(value, place)
    return _plain(hint, value, place)


def _plain(hint: Any, value: Any, place: str) -> Any:
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, hint) or (hint is int and isinstance(value, bool)):
        raise UnexpectedAnswerError(f"{place}: {hint.__name__} was expected")
    return value


def _time(value: Any, place: str) -> datetime:
    """A time in RFC 3339. Before 3.11, Python reads neither `Z` nor fractions of other lengths than 3 and 6."""
    try:
        text = _FRACTION.sub(lambda found: "." + found[1].ljust(6, "0"), value)
        if text[-1:] in ("Z", "z"):
            text = text[:-1] + "+00:00"
        return datetime.fromisoformat(text)
    except (TypeError, ValueError) as error:
        raise UnexpectedAnswerError(f"{place}: a time in RFC 3339 was expected") from error
