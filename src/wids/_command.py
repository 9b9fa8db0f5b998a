"""`widsindex`: descriptions of datasets on the command line. Reads arguments, calls functions, prints."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from webdataset.cli import printing
from webdataset.errors import WebDatasetError
from webdataset.index import read_description

from ._descriptions import Json, create, listed, move_shards, update
from ._shard_list_dataset import ShardListDataset


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the result is the exit status.

    >>> main(["info", "memory://wids/none.json"])
    1
    """
    try:
        try:
            options = _parser().parse_args(arguments)
            options.run(options)
        finally:
            with printing():
                sys.stdout.flush()
    except (WebDatasetError, OSError, LookupError) as error:
        print(f"widsindex: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("widsindex", description="Describe datasets of tar shards.")
    verbs = parser.add_subparsers(required=True, metavar="create | update | info | sample")
    for add in (_add_create, _add_update, _add_info, _add_sample):
        add(verbs)
    return parser


def _add_create(verbs: Any) -> None:
    verb = verbs.add_parser("create", help="read shards and write their description")
    verb.add_argument("files", nargs="+", help="shards, with braces; '-' reads a list from standard input")
    verb.add_argument("-o", "--output", default="shardindex.json")
    verb.add_argument("-n", "--name", help="the dataset's name; by default that of the first shard, without its number")
    verb.add_argument("-i", "--info", type=Path, help="a file with a text about the dataset")
    verb.add_argument("-b", "--base", help="the location that the shards' names are relative to")
    verb.add_argument("-x", "--index", action="store_true", help="also store the index of each shard beside it")
    verb.set_defaults(run=_create)


def _create(options: argparse.Namespace) -> None:
    description = create(
        listed(options.files, sys.stdin),
        options.output,
        name=options.name,
        info=options.info and options.info.read_text(),
        base=options.base,
        store=options.index,
    )
    print(f"{options.output}: {description.nsamples} samples in {len(description.shards)} shards")


def _add_update(verbs: Any) -> None:
    verb = verbs.add_parser("update", help="change a description in place; the old one stays as .bak")
    verb.add_argument("file")
    verb.add_argument("-n", "--name", help="the dataset's name")
    verb.add_argument("-i", "--info", type=Path, help="a file with a text about the dataset")
    keep = verb.add_mutually_exclusive_group()
    keep.add_argument("-k", "--keep", action="store_true", default=None, help="mark the shards as to be kept")
    keep.add_argument("-K", "--nokeep", action="store_false", dest="keep", help="take that mark away")
    verb.add_argument("-D", "--nodir", action="store_true", help="name the shards without their directories")
    verb.add_argument("-d", "--dir", help="put this directory before the shards' names, in place of any other")
    verb.add_argument("-b", "--base", help="record the location that the shards' names are relative to")
    verb.add_argument("-B", "--rebase", help="put this before the shards' relative names")
    verb.set_defaults(run=lambda options: update(options.file, partial(_changed, options=options)))


def _changed(content: Json, options: argparse.Namespace) -> Json:
    content = move_shards(content, nodir=options.nodir, folder=options.dir, base=options.rebase)
    info = options.info and options.info.read_text()
    content |= {
        key: value
        for key, value in (("name", options.name), ("info", info), ("base", options.base))
        if value is not None
    }
    if options.keep is not None:
        content.pop("keep", None)
        content |= {"keep": True} if options.keep else {}
    return content


def _add_info(verbs: Any) -> None:
    verb = verbs.add_parser("info", help="totals and means of descriptions")
    verb.add_argument("files", nargs="+")
    verb.add_argument("-t", "--table", action="store_true", help="one line per description, separated by tabs")
    verb.set_defaults(run=_info)


def _info(options: argparse.Namespace) -> None:
    for path in options.files:
        description = read_description(path)
        sizes = [shard.filesize for shard in description.shards]
        size = None if None in sizes else sum(each or 0 for each in sizes)
        name, shards, samples = description.name or path, len(sizes), description.nsamples
        if options.table:
            print(path, name, shards, samples, "" if size is None else size, sep="\t")
            continue
        print(f"name:               {name}")
        print(f"shards:             {shards:,}")
        print(f"samples:            {samples:,}")
        print(f"samples per shard:  {samples / shards:,.1f}")
        if size is not None:
            print(f"bytes:              {size:,}")
        if size is not None and samples:
            print(f"bytes per sample:   {size / samples:,.1f}")


def _add_sample(verbs: Any) -> None:
    verb = verbs.add_parser("sample", help="show one sample")
    verb.add_argument("file", help="a description, or shards")
    verb.add_argument("index", type=int)
    verb.add_argument("-r", "--raw", action="store_true", help="do not decode")
    verb.add_argument("-c", "--cat", metavar="KEY", help="write the bytes of this field and nothing else")
    verb.add_argument("-w", "--width", type=int, default=250, help="most characters per field")
    verb.set_defaults(run=_sample)


def _sample(options: argparse.Namespace) -> None:
    raw = options.raw or options.cat is not None
    with ShardListDataset(options.file, transformations=None if raw else "PIL") as dataset:
        sample = dataset[options.index]
    if options.cat is not None:
        name = options.cat if options.cat in sample else f".{options.cat}"
        value = sample[name]
        sys.stdout.buffer.write(value.getvalue() if hasattr(value, "getvalue") else str(value).encode())
        return
    for name, value in sample.items():
        shown = repr(value.getvalue() if hasattr(value, "getvalue") else value)
        print(f"{name}: {shown if len(shown) <= options.width else shown[: options.width] + ' …'}")


if __name__ == "__main__":
    sys.exit(main())
