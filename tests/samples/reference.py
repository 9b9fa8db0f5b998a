"""Members → samples, one by one: what `samples/_gather_samples.py` does for many at once."""

from itertools import groupby
from operator import itemgetter

from webdataset.handlers import reraise_exception
from webdataset.names import OWN_FIELDS, is_meta, split_name
from webdataset.samples._sample_errors import duplicate_field, split_sample


def group_members(
    members, *, url=None, keys=split_name, lcase=True, suffixes=None, allow_split=False, handler=reraise_exception
):
    """The samples of one shard: consecutive members with the same key."""
    seen = set()
    for key, together in groupby(_named(members, keys), key=itemgetter(0)):
        if key in seen and not allow_split:
            back = next(together)[2]
            if not handler(split_sample(key, back.name, url, back.offset)):
                return
            continue
        seen.add(key)
        sample = {"__key__": key, "__url__": url}
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


def _named(members, keys):
    """Key, field and member, for members that belong to a sample."""
    for member in members:
        key, field = (None, None) if is_meta(member.name) else keys(member.name)
        if key is not None and field is not None:
            yield key, field, member
