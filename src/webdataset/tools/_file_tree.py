"""Folders and archives of files → samples: files with the same path up to the first dot belong together."""

from __future__ import annotations

import os
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from webdataset import config, stores, tar
from webdataset.codecs import IMAGE_EXTENSIONS, read_member
from webdataset.decompress import find_compression
from webdataset.errors import FormatError, ShardNotFound, SpecError, Where, located
from webdataset.names import is_meta, split_name

from ._sample_sources import Entry, LocalFile, Source, group_entries
from ._temporary_files import fetch, scratch_folder


@dataclass(frozen=True)
class Files:
    """The samples of a folder or an archive, sorted by key, and the files that belong to none."""

    entries: list[Entry]
    ignored: list[str] = field(default_factory=list)


def read_folder(folder: str) -> Files:
    """The samples of a folder and all folders in it.

    >>> read_folder("/nowhere")
    Traceback (most recent call last):
    webdataset.errors.ShardNotFound: the folder was not found – /nowhere – check the name
    """
    prefix = _prefix(folder)
    return _grouped(((path.removeprefix(prefix), LocalFile(path)) for path in _walk(prefix)), folder)


def _prefix(folder: str) -> str:
    """The common beginning of the paths of all files in a folder."""
    if not os.path.isdir(folder):
        raise ShardNotFound("the folder was not found", Where(shard=folder), hint="check the name")
    return folder.rstrip("/") + "/"


def read_image_folder(folder: str) -> tuple[Files, list[str]]:
    """The samples of a folder with one folder for each class, and the classes.

    As for torchvision's `ImageFolder`, every image is a sample, also if there are dots in its name; they become
    underscores, since a key ends at the first dot. A sample has the number of its class as `cls`, and the files that
    differ from its image in the extension only.
    """
    prefix = _prefix(folder)
    named = sorted(os.path.splitext(path.removeprefix(prefix)) for path in _walk(prefix, links=True))  # noqa: PTH122 - both parts
    images = Counter(stem for stem, ending in named if _is_image(ending))
    classes = sorted({stem.partition("/")[0] for stem in images if "/" in stem})
    found: list[tuple[str, str, Source, str]] = []
    ignored, owners = [], dict[str, str]()
    for stem, ending in named:
        if ending and stem in images and (_is_image(ending) or images[stem] == 1):
            owner = stem if images[stem] == 1 else stem + ending
            key = _image_key(owner, folder)
            if owners.setdefault(key, owner) != owner:
                raise FormatError(
                    f"{stem}{ending} and {owners[key]} would both have the key {key!r}",
                    Where(shard=folder),
                    hint="rename one of them",
                )
            found.append((key, ending[1:], LocalFile(prefix + stem + ending), f"{folder}: {stem}{ending}"))
        else:
            ignored.append(stem + ending)
    numbers = {name: str(number).encode() for number, name in enumerate(classes)}
    labelled = []
    for entry in group_entries(sorted(found, key=lambda row: row[:2])):
        if "cls" in entry.fields:
            raise SpecError(
                f"{entry.key!r} has a 'cls' already",
                Where(shard=folder),
                hint="an image folder holds one folder for each class; use --format tree for other folders",
            )
        labelled.append(replace(entry, fields={**entry.fields, "cls": numbers[entry.key.partition("/")[0]]}))
    return Files(labelled, ignored), classes


def _is_image(ending: str) -> bool:
    return ending[1:].lower() in IMAGE_EXTENSIONS


def _image_key(stem: str, folder: str) -> str:
    where, slash, name = stem.rpartition("/")
    if not slash:
        raise SpecError(
            f"{stem!r} is not in the folder of a class",
            Where(shard=folder),
            hint="an image folder holds one folder for each class; use --format tree for other folders",
        )
    return f"{where}/{name.replace('.', '_')}"


def read_zip(url: str, stack: ExitStack) -> Files:
    """The samples of a zip archive; the stack keeps it open."""
    try:
        archive = stack.enter_context(zipfile.ZipFile(_local_copy(url, stack)))
    except zipfile.BadZipFile as error:
        raise FormatError(f"this is not a zip archive: {error}", Where(shard=url)) from error
    names = [info.filename for info in archive.infolist() if not info.is_dir()]
    return _grouped(((name, partial(read_member, archive, archive.getinfo(name))) for name in names), url)


def read_tar(url: str, stack: ExitStack) -> Files:
    """The samples of any tar archive, with its files in any order; the stack keeps a copy if one is needed."""
    path = _local_copy(url, stack)
    with stores.open_read(path) as stream:
        compressed = find_compression(stream.read(tar.BLOCK)) is not None
    members = []
    with located(shard=url):
        if compressed:
            path = _unpacked(path, stack.enter_context(scratch_folder()) / "unpacked.tar")
        with stores.open_read(path) as stream:
            for run in tar.read_runs(stream):
                for name, start, stop in zip(run.names, run.starts, run.stops, strict=True):
                    members.append((name, partial(stores.read_range, path, run.base + start, stop - start)))
    return _grouped(members, url)


def _unpacked(path: str, copy: Path) -> str:
    """A plain archive with the files of a compressed one, in a temporary file."""
    with stores.open_read(path) as stream, stores.open_write(str(copy)) as file:
        for member in tar.read_members(stream, limit=config.read("WDS_DECOMPRESS_LIMIT")):
            file.write(tar.encode_member(member.name, member.data))
        file.write(tar.END_OF_ARCHIVE)
    return str(copy)


def _local_copy(url: str, stack: ExitStack) -> str:
    path = stores.is_local(url)
    if path is not None:
        if not os.path.isfile(path):
            raise ShardNotFound("there is no such file", Where(shard=path), hint="check the name and the directory")
        return path
    return fetch(url, stack.enter_context(scratch_folder()) / "fetched")


def _walk(folder: str, *, links: bool = False) -> Iterator[str]:
    """All files under a folder; hidden ones are left out, links to files are followed, links to folders on request."""
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    yield from _walk(entry.path, links=links)
                elif links and entry.is_dir():
                    yield from _walk(entry.path)  # links below it are not followed: they may form a circle
                elif entry.is_file():
                    yield entry.path
                elif links and entry.is_symlink():
                    raise ShardNotFound(
                        "this link leads nowhere", Where(shard=entry.path), hint="remove it, or bring its file back"
                    )
    except PermissionError as error:
        raise SpecError("the folder cannot be read", Where(shard=folder), hint="check its mode") from error


def _grouped(members: Iterable[tuple[str, Source]], url: str) -> Files:
    found: list[tuple[str, str, str, Source]] = []
    ignored: list[str] = []
    for name, source in members:
        name = name.removeprefix("./")  # noqa: PLW2901 - as GNU tar writes it
        key, ending = (None, None) if is_meta(name) else split_name(name)
        if key is None or not ending:
            ignored.append(name)
        else:
            found.append((key, ending.lower(), name, source))
    found.sort(key=lambda row: row[:3])
    entries = list(group_entries((key, ending, source, f"{url}: {name}") for key, ending, name, source in found))
    return Files(entries, ignored)
