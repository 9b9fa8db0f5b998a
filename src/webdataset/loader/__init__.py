"""Batches. A dataset comes in, its items go out, brought by worker processes or threads.

This room knows processes, threads and queues, and nothing of samples, shards or tar.

* `_loader.py`: `WebLoader`
* `_inside.py`: batches made inside a planned dataset
"""

from ._loader import WebLoader

__all__ = ["WebLoader"]
