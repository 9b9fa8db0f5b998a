"""`wds grep`."""

from __future__ import annotations

from typing import Any

import click

from webdataset import tools

from ._output import console, echo, echo_json, echo_line, verb

_LONGEST = 400


@verb()
@click.argument("pattern")
@click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")
@click.option("-f", "--fields", help="Search these fields; by default those that hold text by their name.")
@click.option("-i", "--ignore-case", is_flag=True, help="Upper and lower case are the same.")
@click.option("-F", "--fixed", is_flag=True, help="PATTERN is plain text.")
@click.option("-l", "--keys", is_flag=True, help="Print each key once: a list for `wds select --keys`.")
@click.option("-c", "--count", is_flag=True, help="Print the number of samples that match.")
@click.option("--in-keys", is_flag=True, help="Search the keys instead of fields.")
def command(pattern: str, inputs: tuple[str, ...], fields: str | None, keys: bool, count: bool, **options: Any) -> None:
    """Print the lines of text fields that match the regular expression PATTERN; the exit code is 1 if none does.

    Example: wds grep -l 'text 3' train-*.tar
    """
    wanted = None if fields is None else fields.replace(",", " ").split()
    samples, last = 0, None
    for match in tools.grep(pattern, inputs, fields=wanted, **options):
        fresh = (match.shard, match.key) != last
        samples, last = samples + fresh, (match.shard, match.key)
        if count:
            continue
        if keys:
            if fresh:
                echo_line(match.key)
        elif console().as_json:
            echo_json(match)
        else:
            echo_line(f"{match.key}.{match.field}:{match.line}: {match.text[:_LONGEST]}")
    if count:
        echo(samples)
    click.get_current_context().exit(0 if samples else 1)
