"""The packages of the extra `serve`, imported when they are needed."""

from __future__ import annotations

from typing import Any

from webdataset.optional import require


def load_zmq() -> Any:
    """The package pyzmq."""
    return require("zmq", extra="serve", why="to serve items and to connect to workers")


def load_msgpack() -> Any:
    """The package msgpack."""
    return require("msgpack", extra="serve", why="to serve items and to connect to workers")
