"""What `-o` means: one archive, a numbered series, or one output shard per input shard."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from webdataset import stores
from webdataset.address import Address
from webdataset.errors import ShardNotFound, SpecError, StoreError, UnsafeContent, Where
from webdataset.index import Description, seen_from, write_description

from ._verb_options import Options

_NUMBER = re.compile(r"%0?\d*d")
_NAME = re.compile(r"\{(name|stem)\}")
_SUFFIX = re.compile(r"(\.tar(\.\w+)?|\.tgz)$")


@dataclass(frozen=True, slots=True)
class OneArchive:
    """Everything goes to one archive; `-` is standard output."""

    text: str


@dataclass(frozen=True, slots=True)
class Series:
    """Numbered archives: `out-%06d.tar`."""

    text: str


@dataclass(frozen=True, slots=True)
class PerShard:
    """One output for each input: `{name}` is the input's file name, `{stem}` the same without its extension."""

    text: str

    def names(self, inputs: Sequence[str]) -> list[str]:
        """The output of each input.

        >>> PerShard("out/{stem}-small.tar").names(["s3://b/a.tar", "b.tar.gz"])
        ['out/a-small.tar', 'out/b-small.tar']
        >>> PerShard("out/{name}").names(["x/a.tar", "y/a.tar"])
        Traceback (most recent call last):
        webdataset.errors.SpecError: x/a.tar and y/a.tar would both be written to out/a.tar – ...
        """
        outputs = [self._name(url) for url in inputs]
        if len(set(outputs)) != len(outputs):
            self._refuse(inputs, outputs)
        return outputs

    def _refuse(self, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        first: dict[str, str] = {}
        for url, output in zip(inputs, outputs, strict=True):
            other = first.setdefault(output, url)
            if other != url:
                raise SpecError(
                    f"{other} and {url} would both be written to {output}",
                    hint="process them in separate runs, or give inputs with different names",
                )
        raise SpecError("the same input is given twice", hint="give every shard once")

    def _name(self, url: str) -> str:
        name = (url.partition("?")[0] if "://" in url else url).rpartition("/")[2]
        if not name or is_stream(url):
            raise SpecError(
                f"{url!r} has no file name to name an output after", hint="write to one archive or to 'out-%06d.tar'"
            )
        output = self.text.replace("{name}", name)
        if "{stem}" in self.text:
            output = output.replace("{stem}", without_suffix(name))
        scheme = _scheme_of(self.text)
        if scheme == "pipe" and isinstance(url, Address):
            raise UnsafeContent(
                f"a file name that was read from data is not put into a command: {name!r}",
                Where(shard=url),
                hint="write to files, or name the inputs one by one",
            )
        # The name of a file may look like an address: "pipe:touch x".
        return output if _scheme_of(output) == scheme else stores.local_file(output)


Stream = OneArchive | Series


def parse_target(text: str | os.PathLike[str]) -> Stream | PerShard:
    """The kind of output that a user's text means.

    >>> parse_target("-"), parse_target("out-%06d.tar"), parse_target("out/")
    (OneArchive(text='-'), Series(text='out-%06d.tar'), PerShard(text='out/{name}'))
    """
    url = stores.as_address(text)
    if not url:
        raise SpecError("the output is empty", hint="give a path, a URL, 'out-%06d.tar', 'folder/', or - for stdout")
    if _NUMBER.search(url):
        return Series(url)
    if _NAME.search(url):
        return PerShard(url)
    path = stores.is_local(url)
    if url.endswith("/") or (path is not None and os.path.isdir(path)):
        return PerShard(f"{url.rstrip('/')}/{{name}}")
    return OneArchive(url)


def without_suffix(name: str) -> str:
    """The name of a shard without its extension.

    >>> without_suffix("out/a.tar.gz"), without_suffix("a.tgz"), without_suffix("a.b")
    ('out/a', 'a', 'a.b')
    """
    return _SUFFIX.sub("", name)


def _scheme_of(text: str) -> str:
    return "-" if text == "-" else stores.scheme_of(text, stores.schemes.keys())


def is_stream(url: str) -> bool:
    """Whether an address is a standard stream, a command, a device or a named pipe: what is read or written only once.

    >>> is_stream("-"), is_stream("pipe:cat a.tar"), is_stream("/dev/null"), is_stream("a.tar"), is_stream("/")
    (True, True, True, False, False)
    """
    if url == "-" or url.startswith("pipe:"):
        return True
    path = stores.is_local(url)
    return path is not None and os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path))


def make_folder(url: str) -> None:
    """Create the folder of a local output, if there is none."""
    path = stores.is_local(url)
    if path is not None and (folder := os.path.dirname(path)):  # noqa: PTH120 - an address, not a Path
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(
                f"the folder cannot be created: {error.strerror}", Where(shard=folder), hint="write elsewhere"
            ) from error


def store_description(description: Description, address: str) -> None:
    """Write a description, whose shards are named relative to it where that is possible."""
    shards = [entry._replace(url=seen_from(address, entry.url)) for entry in description.shards]
    make_folder(address)
    stores.write_bytes(address, write_description(replace(description, shards=shards)))


def parse_stream(text: str | os.PathLike[str]) -> Stream:
    """The kind of output for one stream of samples; `PerShard` is an error: there is no input to name an output after.

    >>> parse_stream("folder/")
    Traceback (most recent call last):
    webdataset.errors.SpecError: 'folder/' does not name archives – write -o 'out-%06d.tar' or -o out.tar
    """
    target = parse_target(text)
    if isinstance(target, PerShard):
        raise SpecError(f"{os.fspath(text)!r} does not name archives", hint="write -o 'out-%06d.tar' or -o out.tar")
    return target


def refuse_description(address: str | None, shards: Iterable[str]) -> None:
    """Raise if a description there could not name the shards: before the work, not after it."""
    if address is not None:
        for url in shards:
            seen_from(address, url)


def refuse_outputs(target: Stream, options: Options) -> None:
    """Raise if an archive or the description exists and may not be replaced, or the description could not name it."""
    refuse_description(options.description, [target.text])
    found = series_members(target.text) if isinstance(target, Series) else existing([target.text])
    refuse_existing([*found, *existing([options.description])], force=options.force)


def existing(urls: Iterable[str | None]) -> list[str]:
    """The addresses at which something is stored.

    >>> existing(["/nowhere/a.tar", None])
    []
    """
    return [url for url in urls if url is not None and exists(url)]


def series_members(pattern: str) -> list[str]:
    """The existing archives of a series, with any numbers.

    >>> series_members("/nowhere/out-%06d.tar")
    []
    """
    if pattern.startswith("pipe:"):
        return []
    try:
        found = stores.list_urls(_NUMBER.sub("*", pattern).replace("%%", "%"))
    except ShardNotFound:
        return []
    except StoreError:  # the store cannot list its objects: test for the first one
        return [pattern % 0] if exists(pattern % 0) else []
    before, _, after = _NUMBER.sub("\0", pattern).replace("%%", "%").partition("\0")
    named = re.compile(f"{re.escape(before)}(\\d+){re.escape(after)}")
    numbers = ((url, match[1]) for url in found if (match := named.fullmatch(url)))
    return [url for url, number in numbers if pattern % int(number) == url]


def exists(url: str) -> bool:
    """Whether something is stored at an address; False for streams, and for stores that cannot tell.

    >>> exists("/nowhere/a.tar"), exists("-")
    (False, False)
    """
    if is_stream(url):
        return False
    path = stores.is_local(url)
    if path is not None:
        return os.path.isfile(path)
    try:
        stores.stat(url)
    except StoreError:
        return False
    return True


def refuse_existing(outputs: Iterable[str], *, force: bool) -> None:
    """Raise if outputs exist and may not be replaced.

    >>> refuse_existing([], force=False)
    >>> refuse_existing(["out-000000.tar"], force=False)
    Traceback (most recent call last):
    webdataset.errors.SpecError: the output exists already – out-000000.tar – write elsewhere, or ...
    """
    found = list(outputs)
    if not found or force:
        return
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    raise SpecError(
        f"the output exists already{more and ','}{more}",
        Where(shard=found[0]),
        hint="write elsewhere, or replace it with --force",
    )
