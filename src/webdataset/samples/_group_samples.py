"""Members → samples, one by one: the reference. `_gather_samples` does the same faster, and is tested against it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from webdataset.handlers import Handler, reraise_exception
from webdataset.names import OWN_FIELDS, is_meta, split_name

from ._sample_errors import duplicate_field, split_sample

if TYPE_CHECKING:
    from webdataset.tar import Member

Sample = dict[str, Any]
Keys = Callable[[str], tuple[str | None, str | None]]


def group_members(
    members: Iterable[Member],
    *,
    url: str | None = None,
    local_path: str | None = None,
    keys: Keys = split_name,
    lcase: bool = True,
    suffixes: Collection[str] | None = None,
    allow_split: bool = False,
    handler: Handler = reraise_exception,
) -> Iterator[Sample]:
    """The samples of one shard: consecutive members with the same key.

    >>> from webdataset.tar import Member
    >>> members = [Member("1.jpg", 0, 512, b"..."), Member("1.cls", 1024, 1536, b"7")]
    >>> list(group_members(members, url="a.tar"))
    [{'__key__': '1', '__url__': 'a.tar', 'jpg': b'...', 'cls': b'7'}]

    Args:
        members: those of one shard; the end of them is the end of the last sample.
        url: becomes `__url__`.
        local_path: becomes `__local_path__`, if there is one.
        keys: member name → (key, field), or (None, None) for a member that belongs to no sample.
        lcase: fields in lower case.
        suffixes: keep only these fields.
        allow_split: a key that comes back later in the shard starts another sample instead of being an error.
        handler: asked about a field that is there already (true: the first one stays), about a key that comes back
            (true: these members are left out) and when `keys` raises; a false answer ends the samples.
    """
    own: Sample = {"__url__": url} if local_path is None else {"__url__": url, "__local_path__": local_path}
    seen: set[str] = set()
    for key, together in groupby(_placed(members, keys, handler), key=itemgetter(0)):
        if key in seen and not allow_split:
            back = next(together)[2]
            if not handler(split_sample(key, back.name, url, back.offset)):
                return
            continue
        seen.add(key)
        sample: Sample = {"__key__": key, **own}
        for _, ending, member in together:
            field = ending.lower() if lcase else ending
            if field in OWN_FIELDS and field != "__key__":
                continue
            if field in sample:
                if not handler(duplicate_field(field, key, member.name, url, member.offset)):
                    return
            elif suffixes is None or field in suffixes:
                sample[field] = member.data
        yield sample


def _placed(members: Iterable[Member], keys: Keys, handler: Handler) -> Iterator[tuple[str, str, Member]]:
    """Key, field and member, for members that belong to a sample."""
    for member in members:
        try:
            key, field = (None, None) if is_meta(member.name) else keys(member.name)
        except Exception as error:  # `keys` may be the user's
            if not handler(error):
                return
            continue
        if key is not None and field is not None:
            yield key, field, member
