"""`serve_on_ray`: workers as actors of a Ray cluster."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from webdataset.optional import require
from webdataset.pipeline import DataPipeline
from webdataset.stores import Closing

from ._curve_keys import Keys, as_keys
from ._serve_worker import Worker


class RayWorkers(Closing):
    """Workers that Ray runs; `connect(workers.addresses)` reads from them.

    Ray restarts an actor that dies, at another port. `addresses` requests the ports again, so pass the method itself to
    `connect`, not its result.
    """

    def __init__(self, actors: list[Any]) -> None:
        self._actors = actors

    def addresses(self) -> list[str]:
        """The addresses of the workers that run now."""
        ray = _load_ray()
        asked = [actor.address.remote() for actor in self._actors]
        ready, _ = ray.wait(asked, num_returns=len(asked), timeout=30)
        found = []
        for each in ready:
            try:
                found.append(ray.get(each))
            except ray.exceptions.RayError:  # it is being restarted
                continue
        return found

    def close(self) -> None:
        """Stop the workers."""
        ray = _load_ray()
        for actor in self._actors:
            ray.kill(actor)
        self._actors = []


class _Actor:
    """A worker in a process of Ray."""

    def __init__(self, make: Callable[[], DataPipeline], keys: Keys | None, options: dict[str, Any]) -> None:
        ray = _load_ray()
        host = ray.util.get_node_ip_address()
        self._worker = Worker(make, f"tcp://{host}:*", keys=keys, **options).start()

    def address(self) -> str:
        """The address at which it listens."""
        return self._worker.address


def serve_on_ray(
    make: Callable[[], DataPipeline],
    workers: int = 1,
    *,
    threads: int = 1,
    keys: str | Path | Keys | None = None,
    insecure: bool = False,
    **resources: Any,
) -> RayWorkers:
    """Start workers on a Ray cluster.

    >>> with serve_on_ray(make, workers=8, keys="worker.key") as workers:  # doctest: +SKIP
    ...     dataset = wds.connect(workers.addresses, keys="trainer.key")

    Args:
        make: a function without arguments that makes the pipeline.
        workers: how many actors.
        threads: how many steps each makes at a time; Ray reserves as many CPUs.
        keys: the file `worker.key`, or its keys; needed unless Ray runs on this machine's loopback address only.
        insecure: listen without keys.
        resources: what `ray.remote` takes, such as `num_cpus` or `resources`.
    """
    ray = _load_ray()
    settings = {"num_cpus": threads, "max_restarts": -1, **resources}
    actor = ray.remote(**settings)(_Actor)
    options = {"threads": threads, "insecure": insecure}
    return RayWorkers([actor.remote(make, as_keys(keys), options) for _ in range(workers)])


def _load_ray() -> Any:
    return require("ray", extra="ray", why="to start workers on a Ray cluster")
