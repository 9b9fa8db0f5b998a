"""`wds split`, `wds reshard`."""

from __future__ import annotations

from typing import Any

import click

from . import _options
from ._output import verb


@verb()
@_options.inputs
@_options.writing
@_options.sizes
@click.option(
    "-p",
    "--post",
    metavar="COMMAND",
    help="Run a shell command after each shard; every %s is its name. A command that fails stops the verb.",
)
def command(inputs: tuple[str, ...], output: str, *, post: str | None, **options: Any) -> None:
    """Write the samples of all INPUTs to shards of another size, in order.

    Example: wds split -n 1000 -o 'new-%06d.tar' old.tar
    """
    from webdataset.tools import split

    options["post"] = PostCommand(post) if post else None
    _options.run_and_show(split, options, inputs, output)


class PostCommand:
    """A shell command that is run after each shard; every `%s` in it is the shard's address."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __call__(self, url: str) -> None:
        """Run it; an error if it fails."""
        import shlex

        from webdataset.errors import CommandFailed, Where
        from webdataset.lifetime import run_shell

        text = self._text.replace("%s", shlex.quote(url))
        status = run_shell(text, stdout=2)
        if status:
            raise CommandFailed(f"{text!r} ended with status {status}", Where(shard=url), hint="the shard is kept")
