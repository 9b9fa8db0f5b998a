"""`wds monitor`."""

from __future__ import annotations

import threading

import click

from . import _options
from ._output import console, verb


@verb()
@click.argument("addresses", nargs=-1, required=True, metavar="ADDRESS...")
@click.option("--keys", metavar="FILE", help="trainer.key; needed unless the addresses are loopback.")
@click.option("--insecure", is_flag=True, help="Connect without keys.")
@click.option("-r", "--interval", type=float, default=5.0, show_default=True, help="Seconds between two looks.")
@click.option("-c", "--count", type=_options.COUNT, help="End after so many reports; by default go on.")
@click.option("--timeout", type=float, default=5.0, show_default=True, help="Seconds that a worker has to answer.")
def command(
    addresses: tuple[str, ...], *, keys: str | None, insecure: bool, interval: float, count: int | None, timeout: float
) -> None:
    """Show what workers do: rates, queues, how busy they are, and which side is the bottleneck.

    Example: wds monitor tcp://127.0.0.1:7880 --interval 1 --count 1
    """
    from webdataset.serve import bottleneck, look, options_from, rates

    options = options_from(keys, insecure=insecure, patience=min(1.0, timeout), timeout=timeout)
    pause, before, reports = threading.Event(), look(addresses, options), 0
    while count is None or reports < count:
        pause.wait(interval)
        now = look(addresses, options)
        workers, before, reports = rates(before, now), now, reports + 1
        lines = [f"{'worker':<28} {'steps/s':>8} {'MB/s':>8} {'busy':>5} {'queue':>5} {'jobs':>4} {'shared':>6} failed"]
        for each in workers:
            row = (
                f"{each.items:>8.1f} {each.bytes / 1e6:>8.1f} {each.busy:>5.0%} {each.queue:>5} {each.trainers:>4} "
                f"{each.shared:>6.0%} {each.failures}"
            )
            lines.append(f"{each.address:<28} {each.problem or row}")
        console().result(
            {"workers": workers, "bottleneck": bottleneck(workers)}, "\n".join([*lines, bottleneck(workers)])
        )
