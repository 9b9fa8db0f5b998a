"""`webdataset.gopen`: open anything. The module itself can be called, like the function of the same name."""

from __future__ import annotations

from typing import Any

from webdataset.address import like
from webdataset.errors import UnknownScheme, Where
from webdataset.stores import Pipe, gopen, rewrite_url
from webdataset.stores import schemes as gopen_schemes

from ._live import make_callable

__all__ = [
    "Pipe",
    "gopen",
    "gopen_ais",
    "gopen_curl",
    "gopen_error",
    "gopen_file",
    "gopen_gsutil",
    "gopen_hf",
    "gopen_htgs",
    "gopen_pipe",
    "gopen_schemes",
    "info",
    "reader",
    "rewrite_url",
    "set_options",
]

info: dict[str, Any] = {}
"""Shown in verbose output by the public library; kept so that programs may write to it."""

make_callable(__name__, "gopen")


def reader(url: str, **kw: Any) -> Any:
    r"""Open for reading.

    >>> reader("pipe:echo hello").read()
    b'hello\n'
    """
    return gopen(url, "rb", **kw)


# The public library starts a program for most of these; here the scheme decides, and no program is needed.
gopen_ais = gopen_curl = gopen_file = gopen_gsutil = gopen_hf = gopen_pipe = gopen


def gopen_htgs(url: str, mode: str = "rb", bufsize: int = 8192) -> Any:
    """Open `htgs://bucket/object` as `gs://bucket/object`."""
    return gopen(like(url, url.replace("htgs://", "gs://", 1)), mode, bufsize)


def gopen_error(url: str, *args: Any, **kw: Any) -> Any:
    """Refuse an address with an unknown scheme.

    >>> gopen_error("x://y")
    Traceback (most recent call last):
    webdataset.errors.UnknownScheme: no gopen handler defined – x://y – add one to webdataset.gopen_schemes
    """
    raise UnknownScheme("no gopen handler defined", Where(shard=str(url)), hint="add one to webdataset.gopen_schemes")


def set_options(
    obj: Any,
    timeout: float | None = None,
    ignore_errors: bool | None = None,
    ignore_status: list[int] | None = None,
    handler: Any = None,
) -> bool:
    """Change the settings of a running `Pipe`; False if it is something else.

    >>> with Pipe("true", shell=True) as pipe:
    ...     set_options(pipe, ignore_errors=True), pipe.ignore_errors
    (True, True)
    >>> set_options("no pipe")
    False
    """
    if not isinstance(obj, Pipe):
        return False
    if timeout is not None:
        obj.timeout = timeout
    if ignore_errors is not None:
        obj.ignore_errors = ignore_errors
    if ignore_status is not None:
        obj.ignore_status = {0, *ignore_status}
    if handler is not None:
        obj.handler = handler  # type: ignore[attr-defined]  # read only by programs that set it
    return True
