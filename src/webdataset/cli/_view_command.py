"""`wds view`."""

from __future__ import annotations

import click

from webdataset import tools
from webdataset.errors import SpecError

from . import _options
from ._output import console, verb


@verb()
@_options.inputs
@click.option("--port", type=click.IntRange(0, 65535), default=0, show_default=True, help="Port; 0 takes a free one.")
@click.option("--browser/--no-browser", default=True, show_default=True, help="Open the page in a browser.")
@click.option("--index", help="Where index files are; by default beside the shards.")
@click.option("--compare", multiple=True, metavar="INPUT", help="Another version of the dataset, to compare by key.")
@click.option("--pipeline", metavar="MODULE:FUNCTION", help="A function that makes your dataset: show its items.")
@click.option("--checkpoint", metavar="FILE", help="state_dict() of the pipeline as JSON: steps count from there.")
@click.option("--idle", type=click.FloatRange(0), metavar="SECONDS", help="End after so long without a request.")
def command(
    inputs: tuple[str, ...],
    port: int,
    browser: bool,
    index: str | None,
    compare: tuple[str, ...],
    pipeline: str | None,
    checkpoint: str | None,
    idle: float | None,
) -> None:
    """Look at a dataset in the browser: a grid of samples, filters, problems, and what the model sees.

    The page is for this machine alone: it listens on the loopback interface, and its address works once. On a remote
    machine, forward the port: ssh -L 8000:127.0.0.1:8000 HOST wds view --port 8000 --no-browser ... Ctrl-C ends it.
    Needs the extra `view`.

    Example: wds view --no-browser --idle 1 train-*.tar
    """
    from webdataset.viewer import ModelInput, ViewServer, read_checkpoint

    if checkpoint is not None and pipeline is None:
        raise SpecError("--checkpoint belongs to a pipeline", hint="give --pipeline MODULE:FUNCTION")
    model = None
    if pipeline is not None:
        model = ModelInput(tools.load_function(pipeline), None if checkpoint is None else read_checkpoint(checkpoint))
    server = ViewServer(list(inputs), port=port, index=index, compare=list(compare) or None, model=model)
    with server:
        address = server.new_address()
        console().page(address)
        if browser:
            click.launch(address)
        server.join(lambda: idle is not None and server.idle_seconds > idle)
