"""Archives of every flavour, written by the standard library, for tests of the index."""

import io
import tarfile


def make(members, format=tarfile.USTAR_FORMAT):
    """Bytes of an archive of (name, payload) pairs; a payload of None is a directory."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=format) as archive:
        for name, payload in members:
            info = tarfile.TarInfo(name)
            if payload is None:
                info.type = tarfile.DIRTYPE
                archive.addfile(info)
            else:
                info.size = len(payload)
                archive.addfile(info, io.BytesIO(payload))
    return out.getvalue()


def many(count, start=0, fields=("jpg", "json")):
    """`count` samples with small payloads that differ from each other."""
    return [
        (f"dir/{number:06d}.{field}", f"{number}.{field}".encode() * (1 + number % 90))
        for number in range(start, start + count)
        for field in fields
    ]


def expected(members):
    """Samples as dicts, grouped the plain way."""
    samples = {}
    for name, payload in members:
        key, _, field = name.rpartition("/")[2].partition(".")
        samples.setdefault(name[: len(name) - len(field) - 1], {})[field.lower()] = payload
    return samples
