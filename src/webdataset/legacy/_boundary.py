"""The item between two shards in a stream of members.

The public library ends every shard with an empty dict, and groupers written for it compare with `{}`. Groupers
written before that read `["fname"]` of everything that comes. This object satisfies both: it is an empty dict, and the
name that it answers with belongs to no sample.
"""

from __future__ import annotations

from typing import Any


class EndOfShard(dict[str, Any]):
    """An empty dict that can be asked for a member's name and data.

    >>> end = EndOfShard()
    >>> end == {}, bool(end), end["fname"], end["data"]
    (True, False, '', b'')

    Args:
        broken: the shard could not be read to its end, so its last sample is incomplete.
    """

    def __init__(self, *, broken: bool = False) -> None:
        super().__init__()
        self.broken = broken

    def __missing__(self, key: str) -> Any:
        try:
            return {"fname": "", "data": b""}[key]
        except KeyError:
            raise KeyError(key) from None
