"""Pickled dates and times: made by the public constructors, which check their arguments, not from internal bytes."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

from webdataset.errors import UnsafeContent

from ._pickle_budget import Budget

_FOLD = 0x80  # a flag in the first byte of a time, and in the month of a date with time


def _make_date(budget: Budget, *args: Any) -> dt.date:
    high, low, month, day = _state(args, 4)
    return dt.date(256 * high + low, month, day)


def _make_time(budget: Budget, *args: Any) -> dt.time:
    hour, minute, second, *micro = _state(args, 6)
    when = hour % _FOLD, minute, second, int.from_bytes(micro)
    return dt.time(*when, tzinfo=_zone(args), fold=hour // _FOLD)


def _make_datetime(budget: Budget, *args: Any) -> dt.datetime:
    high, low, month, day, hour, minute, second, *micro = _state(args, 10)
    when = 256 * high + low, month % _FOLD, day, hour, minute, second, int.from_bytes(micro)
    return dt.datetime(*when, tzinfo=_zone(args), fold=month // _FOLD)


def _make_timedelta(budget: Budget, *args: Any) -> dt.timedelta:
    match args:
        case (int(days), int(seconds), int(micro)):
            return dt.timedelta(days, seconds, micro)
    raise _unusual()


def _make_timezone(budget: Budget, *args: Any) -> dt.timezone:
    match args:
        case (dt.timedelta() as offset,):
            return dt.timezone(offset)
        case (dt.timedelta() as offset, str(name)):
            return dt.timezone(offset, name)
    raise _unusual()


def _state(args: tuple[Any, ...], size: int) -> bytes:
    """The bytes in which Python stores a date; Python 2 wrote them as text."""
    match args:
        case (bytes(state), *_) if len(state) == size and len(args) <= 2:
            return state
        case (str(text), *_) if len(text) == size and len(args) <= 2:
            return text.encode("latin-1")
    raise _unusual()


def _zone(args: tuple[Any, ...]) -> dt.timezone | None:
    match args[1:]:
        case () | (None,):
            return None
        case (dt.timezone() as zone,):
            return zone
    raise _unusual()


def _unusual() -> UnsafeContent:
    return UnsafeContent("the pickle makes a date or time in an unusual way")


DATE_MAKERS: dict[Any, Callable[..., Any]] = {
    dt.date: _make_date,
    dt.time: _make_time,
    dt.datetime: _make_datetime,
    dt.timedelta: _make_timedelta,
    dt.timezone: _make_timezone,
}
