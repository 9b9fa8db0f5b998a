"""The `repr` of a stage: the call that makes it, without memory addresses, so that equal stages have equal texts."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from dataclasses import MISSING, Field, fields
from typing import Any, ClassVar

from webdataset.redact import redacted

identifies: ContextVar[bool] = ContextVar("webdataset_identifies", default=False)  # the text is for a checkpoint
# The `repr` of a string, and of a set of strings.
_WORD = r"'(?:[^'\\]|\\.)*'" r'|"(?:[^"\\]|\\.)*"'
_SET = rf"\{{((?:{_WORD})(?:, (?:{_WORD}))+)\}}"


class Described:
    """A dataclass whose `repr` is the call that would make it: the public name and what differs from the defaults."""

    verb: ClassVar[str]
    args_field: ClassVar[str] = ""  # the field that holds the positional arguments, if there is one
    kwargs_field: ClassVar[str] = ""  # the field that holds keyword arguments of any name, if there is one

    def __repr__(self) -> str:
        changed = {field.name: getattr(self, field.name) for field in fields(self) if _changed(self, field)}  # type: ignore[arg-type]  # a mix-in for dataclasses
        args, kwargs = changed.pop(self.args_field, ()), dict(changed.pop(self.kwargs_field, ()))
        return call(self.verb, *args, **changed, **kwargs)

    def _set(self, **values: Any) -> None:
        """Set fields of a frozen dataclass: only its constructor calls this."""
        for name, value in values.items():
            object.__setattr__(self, name, value)


def call(name: str, /, *args: Any, **kwargs: Any) -> str:
    """Return the text of a call.

    >>> call("map", len, handler=print)
    'map(len, handler=print)'
    """
    words = [shown(value) for value in args] + [f"{key}={shown(value)}" for key, value in kwargs.items()]
    return f"{name}({', '.join(words)})"


def shown(value: Any) -> str:
    """Return a value as written in a call: functions by their names, and no memory addresses.

    >>> shown(functools.partial(int, base=2))
    'partial(int, base=2)'
    """
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        value = value.item()  # NumPy's scalars have another repr in each of its versions
    if isinstance(value, functools.partial):
        return call("partial", value.func, *value.args, **value.keywords)
    if type(value) in {list, tuple}:
        words = ", ".join(map(shown, value))
        return f"[{words}]" if isinstance(value, list) else f"({words}{',' * (len(value) == 1)})"
    if type(value) is dict:
        return f"{{{', '.join(f'{shown(key)}: {shown(each)}' for key, each in value.items())}}}"
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    if name is not None:
        return str(name).replace("<locals>.", "")
    if getattr(type(value), "__repr__") is object.__repr__:  # noqa: B009 – mypy takes the method for bound
        return f"<{type(value).__qualname__}>"
    return redacted(same_everywhere(repr(value)))


def counted(number: int, noun: str) -> str:
    """A number with its noun in the singular or the plural.

    >>> counted(1, "shard"), counted(1200, "sample")
    ('1 shard', '1,200 samples')
    """
    return f"{number:,} {noun}{'s' * (number != 1)}"


def did_you_mean(given: Iterable[str], known: Iterable[str]) -> str:
    """Return the end of a message about unknown names: the known names that are nearly the same.

    >>> did_you_mean(["shardshufle"], ["shardshuffle", "seed"]), did_you_mean(["xyz"], ["seed"])
    ('; did you mean shardshuffle?', '')
    """
    import difflib  # only after a mistake

    known = list(known)
    near = [match for name in sorted(given) for match in difflib.get_close_matches(name, known, n=1)]
    return f"; did you mean {', '.join(near)}?" if near else ""


def refuse_unknown(what: str, given: Iterable[str], *takers: Callable[..., Any]) -> None:
    """Refuse keywords that none of these functions takes, as Python does, and name those that are nearly the same.

    >>> refuse_unknown("print", ["ends"], print)
    Traceback (most recent call last):
    TypeError: print has no parameter ends; did you mean end?
    """
    known = {name for taker in takers for name in inspect.signature(taker).parameters}
    if unknown := sorted(set(given) - known):
        method = next((name for name in unknown if any(callable(getattr(each, name, None)) for each in takers)), None)
        advice = (
            did_you_mean(unknown, known) if method is None else f"; {method} is a method: {what}(...).{method}(...)"
        )
        raise TypeError(f"{what} has no parameter {', '.join(unknown)}{advice}")


def same_everywhere(text: str) -> str:
    """Return a text without memory addresses of functions and objects, and with sorted sets: the same in every process.

    >>> same_everywhere("Decoder(<function decode at 0x7f00>, <a.B object at 0x7f01>, {'b', 'a'})")
    "Decoder(decode, <a.B object>, {'a', 'b'})"
    """
    text = re.sub(_SET, lambda found: f"{{{', '.join(sorted(re.findall(_WORD, found[1])))}}}", text)
    text = re.sub(
        r"<(?:bound method|built-in function|built-in method|function|class) ([\w.<>]+)[^<>]* at 0x[0-9a-f]+>",
        r"\1",
        text,
    )
    return re.sub(r" at 0x[0-9a-f]+", "", text).replace("<locals>.", "")


def _changed(stage: Any, field: Field[Any]) -> bool:
    if not field.repr:
        return False
    value = getattr(stage, field.name)
    return field.default is MISSING or not (value is field.default or value == field.default)


def as_html(name: str, stages: Iterable[str]) -> str:
    """A pipeline for a notebook.

    >>> as_html("Data", ["a<b"])
    '<strong>Data</strong><ol><li><code>a&lt;b</code></li></ol>'
    """
    import html  # rarely needed

    rows = "".join(f"<li><code>{html.escape(stage)}</code></li>" for stage in stages)
    return f"<strong>{html.escape(name)}</strong><ol>{rows}</ol>"
