"""Folders of images, one folder per class: `root/cat/0001.jpg`."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from typing import Any, ClassVar

from webdataset import stores
from webdataset.address import like
from webdataset.codecs import IMAGE_EXTENSIONS, encode_field
from webdataset.errors import EncodingError, FormatError, SpecError, Where

from ._field_mapping import KEY, extension_of
from ._record_format import Format, IndexedFile, Part, Record, RecordFile, RecordSink
from ._staged_directory import StagedDirectory

CLASS = "class.txt"


@dataclass(frozen=True)
class ImageFolder(Format):
    """A directory with one folder per class, as torchvision's `ImageFolder` has it.

    A record has the image under its extension, the number of its class as `cls` (folders in sorted order), and the
    name of the folder as `class.txt`.

    Attributes:
        extensions: of the files that are images.
    """

    extensions: tuple[str, ...] = tuple(IMAGE_EXTENSIONS)

    name: ClassVar[str] = "imagefolder"
    by_extension: ClassVar[bool] = True
    directory: ClassVar[bool] = True

    def parts(self, source: Any) -> list[Part]:
        """One part: the whole tree, so that classes have the same numbers everywhere."""
        return [Part(like(source, stores.as_address(source).rstrip("/")))]

    def open(self, part: Part) -> RecordFile:
        """List the tree."""
        return _Folder(part.url, self.extensions)

    def create(self, url: str) -> RecordSink:
        """Begin to write a tree."""
        return _FolderSink(url)


class _Folder(IndexedFile):
    def __init__(self, root: str, extensions: tuple[str, ...]) -> None:
        self._root = self._url = root
        files: dict[str, list[str]] = {name: [] for name in _local_folders(root)}
        for url in stores.list_urls(like(root, f"{root}/**")):
            inner = url[len(root) + 1 :]
            folder, _, name = inner.partition("/")
            if name and not any(part.startswith(".") for part in inner.split("/")):
                files.setdefault(folder, [])
                if extension_of(name) in extensions and "." in name:
                    files[folder].append(inner)
        if not files:
            raise FormatError("there are no class folders", Where(shard=root), hint="expected images in root/CLASS/")
        for folder, found in files.items():
            if not found:
                raise FormatError(
                    f"the class folder {folder!r} has no images",
                    Where(shard=f"{root}/{folder}"),
                    hint="delete it, or name its extensions: ImageFolder(extensions=(...))",
                )
        self._classes = {folder: number for number, folder in enumerate(sorted(files))}
        self._files = [file for folder in sorted(files) for file in sorted(files[folder])]
        self._twice = {key for key, count in Counter(map(_key, self._files)).items() if count > 1}

    def __len__(self) -> int:
        return len(self._files)

    def record(self, number: int) -> Record:
        file = self._files[number]
        data = stores.read_bytes(like(self._root, f"{self._root}/{file}"))
        key, extension = _key(file), extension_of(file)
        folder = file.partition("/")[0]
        unique = f"{key}_{extension}" if key in self._twice else key
        return {KEY: unique, extension: data, "cls": b"%d" % self._classes[folder], CLASS: folder.encode()}


def _key(file: str) -> str:
    """The key of an image: its path without the extension, and without dots in its last part."""
    folder, _, base = file.rpartition("/")
    return f"{folder}/{base.rpartition('.')[0].replace('.', '_')}"


def _local_folders(root: str) -> list[str]:
    """The folders of a local tree, including empty ones; a store lists files only."""
    path = stores.is_local(root)
    if path is None:
        return []
    if not os.path.isdir(path):
        raise SpecError(f"{root} is not a directory", hint="give the directory with one folder per class")
    with stores.system_errors(path), os.scandir(path) as entries:
        return [entry.name for entry in entries if entry.is_dir() and not entry.name.startswith(".")]


class _FolderSink(RecordSink):
    """Writes a tree into a temporary folder, which is renamed when it is complete."""

    def __init__(self, root: str) -> None:
        path = stores.is_local(root)
        if path is None:
            raise SpecError("a folder of images can only be written to a local disk", Where(shard=root))
        self._staged = StagedDirectory(path)

    def write(self, sample: Record) -> int:
        key = str(sample[KEY])
        image = next((name for name in sample if extension_of(name) in IMAGE_EXTENSIONS), None)
        label = sample.get(CLASS, sample.get("cls"))
        if image is None or label is None:
            missing = "an image" if image is None else f"{CLASS} or cls"
            raise EncodingError(f"the sample has no {missing}: {sorted(sample)}", Where(key=key), hint="map a field")
        folder = label.decode("utf-8", "surrogateescape") if isinstance(label, bytes) else str(label)
        base = key.removeprefix(f"{folder}/").replace("/", "_")
        _check_component(folder, key)
        target = self._staged.work / folder / f"{base}.{image}"
        if os.path.exists(target):
            raise EncodingError(f"there is a {target.name} in {folder} already", Where(key=key))
        target.parent.mkdir(exist_ok=True)
        data = sample[image]
        return target.write_bytes(data if isinstance(data, bytes) else encode_field(image, data))

    def close(self) -> None:
        self._staged.publish()

    def abort(self) -> None:
        self._staged.discard()


def _check_component(name: str, key: str) -> None:
    if not name or name in {".", ".."} or "/" in name or "\0" in name:
        raise EncodingError(f"the class {name!r} cannot be a folder", Where(key=key))
