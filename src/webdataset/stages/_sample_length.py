"""How long a sample is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from webdataset.arguments import is_integer
from webdataset.errors import SpecError

from ._field_names import getfirst


def length_by(spec: Any) -> Callable[[Any], int]:
    """A function that measures samples: by a field's name, by a position in a tuple, or as the user says.

    >>> length_by("txt")({"txt": "hello"}), length_by(0)(("hello", 1))
    (5, 5)
    """
    if isinstance(spec, str):
        return lambda sample: len(_field(sample, spec))
    if is_integer(spec):
        return lambda sample: len(sample[spec])
    if callable(spec):
        return spec  # type: ignore[no-any-return]  # whatever it returns is compared with numbers
    raise SpecError(f"{spec!r} does not say how long a sample is", hint="name a field, a position, or give a function")


def _field(sample: Any, name: str) -> Any:
    if not isinstance(sample, Mapping):
        raise SpecError(
            f"the sample is a {type(sample).__name__}, which has no field {name!r}",
            hint="give the position of the value, as in length=0, or a function",
        )
    return getfirst(sample, [name])
