"""The types in a dataset as Hugging Face infers them: from the first five samples; later values are cast to them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from webdataset.codecs import decoders

from ._findings import Kind

Path = tuple[str, ...]  # ("json", ".boxes", "[]")
T = TypeVar("T")

# Hugging Face infers fields and types from so many samples.
HF_SAMPLES = 5
_NULL, _LARGE = "null", "int of more than 64 bits"


def value_types(name: str, data: bytes) -> Iterator[tuple[Path, str]]:
    """The paths in a field and the types of their values; only JSON and arrays have any.

    >>> list(value_types("json", b'{"a": [1]}'))
    [(('json',), 'dict'), (('json', '.a'), 'list'), (('json', '.a', '[]'), 'int')]
    """
    extension = name.rpartition(".")[2]
    try:
        if extension == "npy":
            yield (name,), f"array of {decoders['npy'](data).ndim} dimensions"
        elif extension in {"json", "jsn"}:
            yield from _json_types((name,), json.loads(data))
    except Exception:  # the decoding check reports what cannot be decoded
        return


def _json_types(path: Path, value: Any) -> Iterator[tuple[Path, str]]:
    large = type(value) is int and not -(1 << 63) <= value < 1 << 63
    yield path, _NULL if value is None else _LARGE if large else type(value).__name__
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _json_types((*path, f".{key}"), inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _json_types((*path, "[]"), inner)


def type_faults(first: Mapping[Path, set[str]], seen: Mapping[Path, Mapping[str, T]]) -> Iterator[tuple[Kind, str, T]]:
    """Find the values that `load_dataset` refuses or changes: (kind of the finding, description, where it is).

    >>> list(type_faults({("json",): {"int"}}, {("json",): {"int": 0, "str": 6}}))[0][1]
    'json is of type int first and of type str here, so load_dataset fails or changes the value'

    Args:
        first: the types at each path in the first samples, which Hugging Face infers the dataset's types from.
        seen: the types at each path in all samples, and where each is first.
    """
    for path, places in seen.items():
        name, known, parent = "".join(path), first.get(path, set()) - {_NULL}, first.get(path[:-1], set())
        others = [kind for kind in places if kind not in {*known, _NULL}]
        if _LARGE in places:
            yield Kind.HF_TYPE, f"{name} is an {_LARGE}, so load_dataset fails", places[_LARGE]
        elif len(known) > 1:
            inferred, other = sorted(known)[:2]
            what = f"the first {HF_SAMPLES} samples have {name} of type {inferred} and of type {other}"
            yield Kind.HF_TYPE, f"{what}, so load_dataset fails", places[other]
        elif known:
            (inferred,) = known
            for kind in others:
                if (inferred, kind) != ("float", "int"):  # the same number
                    what = f"{name} is of type {inferred} first and of type {kind} here"
                    yield Kind.HF_TYPE, f"{what}, so load_dataset fails or changes the value", places[kind]
        elif others and "dict" in parent and path not in first:
            what = f"none of the first {HF_SAMPLES} samples has {name}: it is dropped silently"
            yield Kind.HF_EXTRA_FIELD, what, places[others[0]]
        elif others and (path in first or "list" in parent):
            what = f"{name} has no value in the first {HF_SAMPLES} samples, so load_dataset fails here"
            yield Kind.HF_TYPE, what, places[others[0]]
