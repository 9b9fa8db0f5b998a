"""An address, and where it comes from: written by the user, or read from data.

A plain `str` was written by the user, in code, on the command line or in the environment. Everything that was read
from data is an `Address`: a `str` that also knows its `birth` and its `home`. It behaves as text everywhere
(`sample["__url__"]`, dictionary keys, JSON, logging) but for its `repr`, which has no secrets, and survives pickling
and copying. `str(address)` and every other operation on text returns plain text; `like` makes an address of it again.
The text alone makes no command either, because an address is checked when it is read, not only when it is opened.

`webdataset.stores` decides, by one table, who may open what (`stores/_trust.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum
from typing import Any, Self
from weakref import WeakValueDictionary

from webdataset.redact import redacted

# Ten times the largest public dataset. "{0..999999999}" would otherwise fill the memory without an error.
MAX_SHARDS = 10_000_000


class Birth(Enum):
    """Where an address was read."""

    USER = "written by the user"
    FILE = "a local path"  # a path object, or a file found in a local directory: never parsed
    MAPPING = "a description that a program passed as a dict"
    DESCRIPTION = "a dataset description"
    SPEC = "a spec, list or table"
    LISTING = "a remote listing"
    REDIRECT = "an HTTP redirect"
    CONTENT = "the contents of a shard"
    CHECKPOINT = "a checkpoint"  # and not in the list of a dataset here


class Address(str):
    """An address with its birth, and with its home: the folder, bucket or host of the document it was read from.

    Addresses of one list that differ in their secrets only have different numbers, from 0 on.

    >>> shard = Address("https://h/a.tar", Birth.DESCRIPTION, home="https://h/")
    >>> shard == "https://h/a.tar", shard.birth.name
    (True, 'DESCRIPTION')
    """

    __slots__ = ("__weakref__", "birth", "home", "number")
    birth: Birth
    home: str
    number: int

    def __new__(cls, text: str, birth: Birth | None = None, home: str = "", number: int = 0) -> Self:
        """An address made of another one keeps its birth, home and number unless others are given."""
        self = super().__new__(cls, text)
        if birth is None:
            birth, home, number = birth_of(text), home_of(text), number or number_of(text)
        self.birth, self.home, self.number = birth, home, number
        return self

    def __repr__(self) -> str:
        return redacted(super().__repr__())  # of whatever contains it as well: samples, lists, results

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return restored, (str.__str__(self), self.birth.name, self.home, self.number)


def restored(text: str, birth: str, home: str, number: int = 0) -> Address | str:
    """An address out of a pickle: a process that gets a dataset knows its addresses.

    >>> restored("a.tar", "FILE", "").birth.name
    'FILE'
    """
    return _remembered(Address(text, Birth[birth], home, number), redacted(text))


def birth_of(url: str) -> Birth:
    """Where an address was read; a plain string was written by the user.

    >>> birth_of("a.tar").name
    'USER'
    """
    return url.birth if isinstance(url, Address) else Birth.USER


def home_of(url: str) -> str:
    """The folder, bucket or host of the document that an address was read from.

    >>> home_of("a.tar")
    ''
    """
    return url.home if isinstance(url, Address) else ""


def number_of(url: str) -> int:
    """The number of an address among those of its list that differ from it in their secrets only.

    >>> number_of("a.tar")
    0
    """
    return url.number if isinstance(url, Address) else 0


def is_from_data(url: str) -> bool:
    """Whether the text of an address was not written by the user.

    >>> is_from_data("a.tar"), is_from_data(Address("a.tar", Birth.FILE)), is_from_data(Address("a", Birth.CONTENT))
    (False, False, True)
    """
    return birth_of(url) not in {Birth.USER, Birth.FILE}


def like(url: str, text: str) -> str:
    """Return a text made of an address, such as that of its index, with the birth and home of the address.

    >>> like("a.tar", "a.idx"), like(Address("b.tar", Birth.CONTENT), "b.idx").birth.name
    ('a.idx', 'CONTENT')
    """
    return Address(text, url.birth, url.home) if isinstance(url, Address) else text


_in_use: WeakValueDictionary[str, Address] = WeakValueDictionary()
# Addresses that are opened for a user and not for a checkpoint: commands and standard input.
_FOR_USERS = re.compile(r"-$|[A-Za-z][A-Za-z0-9+.\-]+:(?!//)")


def in_use(urls: Iterable[str], *, rewritten: bool = False) -> list[str]:
    """Return the addresses of a list, remembered by their text in checkpoints as long as a dataset has them.

    A checkpoint contains redacted addresses. `from_checkpoint` finds the address again, with its secrets and its birth;
    of several that differ only in their secrets, each has a number. Ordinary addresses, of which a list may have many,
    need not be remembered.

    >>> shards = in_use(["https://me:secret@h/a.tar", "https://you:secret@h/a.tar"])
    >>> [as_checkpoint(shard) for shard in shards]
    ['https://***@h/a.tar', 'https://***@h/a.tar #1']
    >>> from_checkpoint("https://***@h/a.tar #1") == shards[1]
    True

    Args:
        urls: the addresses.
        rewritten: whether another address, such as a command, may be opened in place of an address.
    """
    found: list[str] = []
    alike: dict[str, dict[str, int]] = {}
    for url in urls:
        clean, address = redacted(url), url
        if clean != url:
            numbers = alike.setdefault(clean, {})
            address = Address(url, number=numbers.setdefault(url, len(numbers)))
        found.append(_remembered(address, clean, rewritten=rewritten))
    return found


def _remembered(url: str, clean: str, *, rewritten: bool = False) -> Address | str:
    is_path = birth_of(url) is Birth.FILE
    if not (rewritten or clean != url or (not is_path and (isinstance(url, Address) or _FOR_USERS.match(url)))):
        return url
    address = url if isinstance(url, Address) else Address(url)
    _in_use[_numbered(clean, address.number)] = address
    return address


def as_checkpoint(url: str) -> str:
    """Return the text of an address for a checkpoint, without secrets.

    >>> as_checkpoint("https://h/a.tar?token=abc")
    'https://h/a.tar?token=***'
    """
    return _numbered(redacted(str(url)), number_of(url))


def _numbered(clean: str, number: int) -> str:
    return f"{clean} #{number}" if number else clean  # a secret ends at a blank: this can be redacted again


def from_checkpoint(text: str) -> Address:
    """Return the address that a checkpoint means; one that no dataset of this process has is data, and runs no command.

    >>> from_checkpoint("a.tar"), from_checkpoint("pipe:cat a.tar").birth.name
    ('a.tar', 'CHECKPOINT')
    """
    return _own_addresses.get()().get(text) or _in_use.get(text) or Address(text, Birth.CHECKPOINT)


@contextmanager
def own_addresses(addresses: Callable[[], Mapping[str, Address]]) -> Iterator[None]:
    """Look up addresses of a checkpoint first among these: another dataset may have addresses with the same text.

    >>> with own_addresses(lambda: {"https://***@h/a.tar": Address("https://me:secret@h/a.tar")}):
    ...     print(from_checkpoint("https://***@h/a.tar"))
    https://me:secret@h/a.tar

    Args:
        addresses: called when an address is looked up.
    """
    token = _own_addresses.set(addresses)
    try:
        yield
    finally:
        _own_addresses.reset(token)


_own_addresses: ContextVar[Callable[[], Mapping[str, Address]]] = ContextVar("own_addresses", default=dict)
