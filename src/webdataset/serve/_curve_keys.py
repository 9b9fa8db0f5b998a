"""Keys of CURVE, ZeroMQ's encryption, for workers and trainers.

A worker has a key pair of its own and the public key of its trainers; a trainer has a key pair and the public key of
its workers. Two files hold these: `worker.key` and `trainer.key`.
"""

from __future__ import annotations

import ipaddress
import json
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from webdataset.errors import SpecError, Where
from webdataset.stores import system_errors

from ._serve_packages import load_zmq

_KEY = re.compile(r"[0-9A-Za-z.\-:+=^!/*?&<>()\[\]{}@%$#]{40}")


@dataclass(frozen=True)
class Keys:
    """One side's key pair, and the public key of the other side.

    >>> Keys("p" * 40, "s" * 40, "o" * 40)
    Keys(public='pppppppppppppppppppppppppppppppppppppppp', other='oooooooooooooooooooooooooooooooooooooooo')
    """

    public: str
    secret: str = field(repr=False)
    other: str

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a file that `write_keys` wrote.

        Raises:
            SpecError: it is not one.
        """
        try:
            found = json.loads(Path(path).read_text())
            keys = cls(found["public"], found["secret"], found["other"])
            if not all(_KEY.fullmatch(key) for key in (keys.public, keys.secret, keys.other)):
                raise ValueError("a key has 40 characters of Z85")
        except (OSError, ValueError, KeyError, TypeError) as error:
            where = Where(shard=str(path))
            raise SpecError("this is not a file of keys", where, hint="wds serve --new-keys DIR writes two") from error
        return keys


def write_keys(folder: str | Path) -> tuple[Path, Path]:
    """Write new keys into a folder: `worker.key` and `trainer.key`, which only their owner can read."""
    zmq = load_zmq()
    worker, trainer = ([part.decode() for part in zmq.curve_keypair()] for _ in range(2))
    paths = Path(folder) / "worker.key", Path(folder) / "trainer.key"
    with system_errors(str(folder)):
        Path(folder).mkdir(parents=True, exist_ok=True)
        for path, mine, other in ((paths[0], worker, trainer), (paths[1], trainer, worker)):
            try:
                descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            except FileExistsError as error:
                raise SpecError(f"{path} exists already", hint="remove it, or choose another folder") from error
            with os.fdopen(descriptor, "w") as stream:
                json.dump({"public": mine[0], "secret": mine[1], "other": other[0]}, stream)
    return paths


def as_keys(keys: str | Path | Keys | None) -> Keys | None:
    """Keys, also from the name of a file."""
    return keys if keys is None or isinstance(keys, Keys) else Keys.load(keys)


def check_address(address: str, keys: Keys | None, *, insecure: bool) -> None:
    """Refuse malformed addresses, and those that other machines can reach without keys.

    >>> check_address("tcp://0.0.0.0:7880", None, insecure=False)
    Traceback (most recent call last):
    webdataset.errors.SpecError: tcp://0.0.0.0:7880 is not a loopback address, and there are no keys – ...
    """
    found = re.fullmatch(r"tcp://(\[[0-9a-fA-F:]+\]|[^:/\[\]]+):(\d+|\*)|ipc://.+", address)
    if found is None:
        raise SpecError("this is not an address", Where(shard=address), hint="for example tcp://127.0.0.1:7880")
    if keys is None and not insecure and found[1] is not None and not _is_loopback(found[1].strip("[]")):
        raise SpecError(
            f"{address} is not a loopback address, and there are no keys",
            hint="wds serve --new-keys DIR writes keys; give worker.key and trainer.key, or say insecure",
        )


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def as_worker(socket: Any, keys: Keys) -> None:
    """Set the keys of a socket that binds: it accepts connections with keys only."""
    socket.curve_server = True
    socket.curve_publickey, socket.curve_secretkey = keys.public.encode(), keys.secret.encode()
    socket.zap_domain = b"webdataset"


def as_trainer(socket: Any, keys: Keys) -> None:
    """Set the keys of a socket that connects: its own, and that which the worker must have."""
    socket.curve_serverkey = keys.other.encode()
    socket.curve_publickey, socket.curve_secretkey = keys.public.encode(), keys.secret.encode()


def answer_zap(socket: Any, keys: Keys) -> None:
    """Answer one request of ZeroMQ (RFC 27) whether a peer may connect: only with the trainers' key."""
    from zmq.utils import z85

    version, number, *_, credentials = socket.recv_multipart()
    allowed = z85.encode(credentials).decode() == keys.other if len(credentials) == 32 else False
    verdict = (b"200", b"OK") if allowed else (b"400", b"this key is not allowed")
    socket.send_multipart([version, number, *verdict, b"trainer" if allowed else b"", b""])
