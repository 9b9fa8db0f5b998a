"""`wds grep`: samples whose text matches a pattern."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from webdataset.errors import SpecError
from webdataset.redact import hides_secrets
from webdataset.samples import OWN_FIELDS

from ._expression import READABLE
from ._read_inputs import Inputs, expand_inputs, read_samples, warning_of_lacking


@hides_secrets
@dataclass(frozen=True, slots=True)
class Match:
    """A line that matches: in which shard, sample and field, which line (from 1), and the line itself."""

    shard: str
    key: str
    field: str
    line: int
    text: str


def grep(
    pattern: str,
    inputs: Inputs,
    *,
    fields: Collection[str] | None = None,
    ignore_case: bool = False,
    fixed: bool = False,
    in_keys: bool = False,
) -> Iterator[Match]:
    """The lines of text fields that match a regular expression.

    >>> from webdataset.testing import make_shard
    >>> texts = ["a dog", "a cat"]
    >>> shard = make_shard("memory://doc-grep/a.tar", [{"__key__": f"{n}", "txt": texts[n]} for n in range(2)])
    >>> [match.key for match in grep("c.t", shard)]
    ['1']

    Args:
        pattern: a regular expression.
        inputs: shards.
        fields: search these fields; by default all that hold text by their name.
        ignore_case: take upper and lower case for the same.
        fixed: the pattern is plain text.
        in_keys: search the keys instead; the field of such a match is `__key__`.
    """
    try:
        search = re.compile(re.escape(pattern) if fixed else pattern, re.IGNORECASE if ignore_case else 0).search
    except re.error as error:
        raise SpecError(
            f"the pattern {pattern!r} is not a regular expression: {error}", hint="or use --fixed"
        ) from error
    for sample in warning_of_lacking(fields or (), read_samples(expand_inputs(inputs))):
        key, shard = sample["__key__"], str(sample.get("__url__", ""))
        if in_keys:
            if search(key):
                yield Match(shard, key, "__key__", 1, key)
            continue
        for name, data in sample.items():
            if name in OWN_FIELDS or not (name in fields if fields else name.rpartition(".")[2] in READABLE):
                continue
            for number, line in enumerate(data.decode("utf-8", "backslashreplace").splitlines(), 1):
                if search(line):
                    yield Match(shard, key, name, number, line)
