"""The packages of the extra `serve`, imported when they are needed."""

from __future__ import annotations

from typing import Any

from webdataset.errors import MissingDependency


def load_zmq() -> Any:
    """The package pyzmq."""
    try:
        import zmq
    except ImportError as error:
        raise MissingDependency("zmq", extra="serve", why="to serve items and to connect to workers") from error
    return zmq


def load_msgpack() -> Any:
    """The package msgpack."""
    try:
        import msgpack
    except ImportError as error:
        raise MissingDependency("msgpack", extra="serve", why="to serve items and to connect to workers") from error
    return msgpack
