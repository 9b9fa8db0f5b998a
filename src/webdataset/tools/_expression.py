"""A small, safe expression language over samples: `json.width > 256 and cls in [1, 2]`.

An expression is parsed by Python's own parser and compiled node by node; other nodes than those listed here are
refused. There is no assignment, no import, no attribute of Python objects, no power, no repetition of strings, and no
loop, so an expression ends, uses little memory, and reads nothing but its sample. It may come from a file that is not
trusted.

Names: `key` and `shard`, else fields. Fields of JSON are parsed (`json.size.width`, `json["a b"]`, `meta.json.x`),
`txt` is text, `cls` a number, everything else bytes. A missing field or entry is `None`; `<` and `>` with `None` are
false.
"""

from __future__ import annotations

import ast
import fnmatch
import json
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from webdataset.errors import SpecError, Where
from webdataset.flow import digest

_OWN_NAMES = {"key": "__key__", "__key__": "__key__", "shard": "__url__", "__url__": "__url__"}
_LONGEST = 2000
_MOST_NODES = 500

Sample = dict[str, Any]
Evaluate = Callable[["_Scope"], Any]


@dataclass(frozen=True)
class Expression:
    """An expression over samples.

    >>> wide = Expression("json.width > 256 and startswith(key, 'train/')")
    >>> wide({"__key__": "train/1", "json": b'{"width": 300}'})
    True
    >>> Expression("key.__class__")
    Traceback (most recent call last):
    webdataset.errors.SpecError: the expression 'key.__class__' may not use '__class__' – ...
    """

    source: str

    def __post_init__(self) -> None:
        _ = self._evaluate  # what cannot be compiled fails here

    @cached_property
    def _evaluate(self) -> Evaluate:
        return _compile(self.source)

    def __call__(self, sample: Sample) -> Any:
        """The value of the expression for one sample."""
        try:
            return self._evaluate(_Scope(sample))
        except SpecError:
            raise
        except (TypeError, ValueError, ArithmeticError, LookupError, RecursionError) as error:
            raise SpecError(
                f"the expression {self.source!r} cannot be computed: {error}",
                Where(key=sample.get("__key__"), shard=sample.get("__url__")),
                hint="test for missing values first: has(json) and ..., json.width != None and ...",
            ) from error

    def __reduce__(self) -> tuple[type[Expression], tuple[str]]:
        return Expression, (self.source,)


class _Scope:
    """The names of one sample, decoded when they are used."""

    def __init__(self, sample: Sample) -> None:
        self._sample = sample
        self._decoded: dict[str, Any] = {}

    def has(self, field: str) -> bool:
        return field in self._sample

    def raw(self, field: str) -> Any:
        return self._sample.get(field)

    def fields(self) -> list[str]:
        return [field for field in self._sample if not field.startswith("__")]

    def value(self, field: str) -> Any:
        if field not in self._decoded:
            self._decoded[field] = decode_plain(field, self._sample.get(field))
        return self._decoded[field]


# Extensions of fields that hold JSON, integers, text; and of all fields that are readable text.
JSON = frozenset({"json", "jsn"})
NUMBERS = frozenset({"cls", "cls2", "index", "inx", "id"})
TEXTS = frozenset({"txt", "text", "transcript"})
READABLE = JSON | NUMBERS | TEXTS | {"jsonl", "csv", "tsv", "yaml", "yml"}


def decode_plain(field: str, data: Any) -> Any:
    """The value of a field that is JSON, text or a number; other fields stay bytes.

    >>> decode_plain("meta.json", b"[1]"), decode_plain("cls", b"7"), decode_plain("txt", b"a"), decode_plain("x", b"a")
    ([1], 7, 'a', b'a')
    """
    if not isinstance(data, bytes):
        return data
    kind = field.rpartition(".")[2].lower()
    if kind in JSON:
        return json.loads(data)
    if kind in NUMBERS:
        return int(data)
    return data.decode() if kind in TEXTS else data


def _compile(source: str) -> Evaluate:
    if not isinstance(source, str) or len(source) > _LONGEST:
        raise SpecError(f"an expression is text of at most {_LONGEST} characters")
    try:
        tree = ast.parse(source.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        reason = getattr(error, "msg", None) or str(error)
        raise SpecError(
            f"the expression {source!r} cannot be read: {reason}", hint="write it as in json.width > 256"
        ) from error
    if sum(1 for _ in ast.walk(tree)) > _MOST_NODES:
        raise SpecError(f"the expression is too large: {_MOST_NODES} parts are the limit", hint="use a key list")
    return _Compiler(source).compile(tree.body)


def _number(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """An operation that accepts numbers only: on text, `*` and `%` could fill the memory."""

    def apply(left: Any, right: Any) -> Any:
        if left is None or right is None:
            return None
        if not isinstance(left, int | float) or not isinstance(right, int | float):
            raise TypeError(f"expected numbers, got {type(left).__name__} and {type(right).__name__}")
        return function(left, right)

    return apply


def _add(left: Any, right: Any) -> Any:
    if isinstance(left, str) and isinstance(right, str):
        return left + right
    return _number(operator.add)(left, right)


def _ordered(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], bool]:
    return lambda left, right: left is not None and right is not None and bool(function(left, right))


def _contains(collection: Any, item: Any) -> bool:
    return collection is not None and item in collection


_BINARY: Final[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: _add,
    ast.Sub: _number(operator.sub),
    ast.Mult: _number(operator.mul),
    ast.Div: _number(operator.truediv),
    ast.FloorDiv: _number(operator.floordiv),
    ast.Mod: _number(operator.mod),
}
_COMPARE: Final[dict[type[ast.cmpop], Callable[[Any, Any], bool]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.Lt: _ordered(operator.lt),
    ast.LtE: _ordered(operator.le),
    ast.Gt: _ordered(operator.gt),
    ast.GtE: _ordered(operator.ge),
    ast.In: lambda item, collection: _contains(collection, item),
    ast.NotIn: lambda item, collection: not _contains(collection, item),
}
_UNARY: Final[dict[type[ast.unaryop], Callable[[Any], Any]]] = {
    ast.Not: operator.not_,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}


def _text(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of text; None if the text is missing."""

    def apply(text: Any, *rest: Any) -> Any:
        if text is None:
            return None
        if not isinstance(text, str):
            raise TypeError(f"expected text, got {type(text).__name__}")
        return function(text, *rest)

    return apply


def _if_given(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function of one value; None if the value is missing."""
    return lambda value: None if value is None else function(value)


_length = _if_given(len)
FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "abs": abs,
    "bool": bool,
    "contains": _contains,
    "endswith": _text(str.endswith),
    "float": _if_given(float),
    "hash": lambda value: digest(str(value)) / 2**64,
    "int": _if_given(int),
    "len": _length,
    "lower": _text(str.lower),
    "matches": _text(fnmatch.fnmatchcase),
    "max": max,
    "min": min,
    "round": round,
    "startswith": _text(str.startswith),
    "str": str,
    "strip": _text(str.strip),
    "upper": _text(str.upper),
}


class _Compiler:
    """Compiles each node of the syntax tree to a function of the scope."""

    def __init__(self, source: str) -> None:
        self._source = source

    def compile(self, node: ast.AST) -> Evaluate:
        name = type(node).__name__.lower()
        method: Callable[[ast.AST], Evaluate] | None = getattr(self, f"_{name}", None)
        if method is None:
            raise self._refused(name)
        return method(node)

    def _refused(self, what: str) -> SpecError:
        return SpecError(
            f"the expression {self._source!r} may not use {what!r}",
            hint=f"comparisons, and/or/not, + - * / // %, fields, and {', '.join(FUNCTIONS)}, has, size, field, fields",
        )

    def _constant(self, node: ast.Constant) -> Evaluate:
        value = node.value
        if not isinstance(value, str | int | float | bool | bytes | None):
            raise self._refused(repr(value))
        return lambda _scope: value

    def _name(self, node: ast.Name) -> Evaluate:
        return self._path([node.id])

    def _attribute(self, node: ast.Attribute) -> Evaluate:
        parts = [node.attr]
        inner: ast.expr = node.value
        while isinstance(inner, ast.Attribute):
            parts.insert(0, inner.attr)
            inner = inner.value
        if isinstance(inner, ast.Name):
            return self._path([inner.id, *parts])
        base = self.compile(inner)
        self._check_names(parts)
        return lambda scope: _look_up(base(scope), parts)

    def _path(self, parts: list[str]) -> Evaluate:
        """A dotted name: the longest beginning that is a field, then entries of its JSON."""
        own = _OWN_NAMES.get(parts[0])
        if own is not None:
            self._check_names(parts[1:])
            return lambda scope: _look_up(scope.raw(own), parts[1:])
        self._check_names(parts)
        prefixes = [(".".join(parts[:count]), parts[count:]) for count in range(len(parts), 0, -1)]

        def evaluate(scope: _Scope) -> Any:
            for name, rest in prefixes:
                if scope.has(name):
                    return _look_up(scope.value(name), rest)
            return None

        return evaluate

    def _check_names(self, parts: list[str]) -> None:
        for part in parts:
            if part.startswith("_"):
                raise self._refused(part)

    def _subscript(self, node: ast.Subscript) -> Evaluate:
        base, index = self.compile(node.value), self.compile(node.slice)

        def evaluate(scope: _Scope) -> Any:
            value, key = base(scope), index(scope)
            if isinstance(value, dict):
                return value.get(key)
            if isinstance(value, list | str) and isinstance(key, int):
                return value[key] if -len(value) <= key < len(value) else None
            if value is None:
                return None
            raise TypeError(f"expected an object, a list or text before [...], got {type(value).__name__}")

        return evaluate

    def _boolop(self, node: ast.BoolOp) -> Evaluate:
        values = [self.compile(value) for value in node.values]
        if isinstance(node.op, ast.And):
            return lambda scope: all(value(scope) for value in values)
        return lambda scope: any(value(scope) for value in values)

    def _find_operator(self, table: Mapping[type, Callable[..., Any]], kind: type) -> Callable[..., Any]:
        if kind not in table:
            raise self._refused(kind.__name__.lower())
        return table[kind]

    def _unaryop(self, node: ast.UnaryOp) -> Evaluate:
        apply = self._find_operator(_UNARY, type(node.op))
        operand = self.compile(node.operand)
        return lambda scope: apply(operand(scope))

    def _binop(self, node: ast.BinOp) -> Evaluate:
        apply = self._find_operator(_BINARY, type(node.op))
        left, right = self.compile(node.left), self.compile(node.right)
        return lambda scope: apply(left(scope), right(scope))

    def _compare(self, node: ast.Compare) -> Evaluate:
        operands = [self.compile(operand) for operand in (node.left, *node.comparators)]
        tests = [_COMPARE[type(op)] for op in node.ops]

        def evaluate(scope: _Scope) -> bool:
            left = operands[0](scope)
            for test, operand in zip(tests, operands[1:], strict=True):
                right = operand(scope)
                if not test(left, right):
                    return False
                left = right
            return True

        return evaluate

    def _ifexp(self, node: ast.IfExp) -> Evaluate:
        test, yes, no = self.compile(node.test), self.compile(node.body), self.compile(node.orelse)
        return lambda scope: yes(scope) if test(scope) else no(scope)

    def _list(self, node: ast.List | ast.Tuple | ast.Set) -> Evaluate:
        entries = [self.compile(entry) for entry in node.elts]
        return lambda scope: [entry(scope) for entry in entries]

    _tuple = _set = _list

    def _call(self, node: ast.Call) -> Evaluate:
        name = node.func.id if isinstance(node.func, ast.Name) else None
        if name is None or node.keywords or any(isinstance(argument, ast.Starred) for argument in node.args):
            raise self._refused(ast.unparse(node.func))
        if name in {"has", "size", "field"}:
            return self._field_function(name, node)
        if name == "fields" and not node.args:
            return lambda scope: scope.fields()
        function = FUNCTIONS.get(name)
        if function is None:
            raise self._refused(name)
        arguments = [self.compile(argument) for argument in node.args]
        return lambda scope: function(*[argument(scope) for argument in arguments])

    def _field_function(self, name: str, node: ast.Call) -> Evaluate:
        """`has(jpg)`, `size("seg.png")`, `field("seg.png")`: the argument is the name of a field, not its value."""
        if len(node.args) != 1:
            raise self._refused(ast.unparse(node))
        argument = node.args[0]
        field = argument.value if isinstance(argument, ast.Constant) else ast.unparse(argument)
        if not isinstance(field, str) or field.startswith("_"):
            raise self._refused(ast.unparse(node))
        if name == "has":
            return lambda scope: scope.has(field)
        if name == "size":
            return lambda scope: _length(scope.raw(field))
        return lambda scope: scope.value(field)


def _look_up(value: Any, path: list[str]) -> Any:
    """An entry of parsed JSON; never an attribute of an object."""
    for part in path:
        if not isinstance(value, dict):
            return None
        value = value.get(part)
    return value
