"""Batches. A dataset comes in, its items go out, made by worker processes or threads.

This package knows processes, threads, queues and shared memory; it does not know samples, shards or tar. Each item is
queued with the cursor of the dataset after it, so a loader can be saved and resumed whatever it has prefetched.

* `_loader.py`: `WebLoader`
* `_item_state.py`: the state attached to each item
* `_threads.py`: a dataset read by threads
* `_thread_pool.py`: functions of one item on threads, in order
* `_thread_choice.py`: how many threads run them, and why
* `_prefetch.py`: a thread that prefetches items
* `_item_sizes.py`: how many bytes an item holds
* `_processes.py`: a dataset read by torch's worker processes
* `_start_worker.py`: the first call in a worker process, and the errors about one that did not start or that died
* `_worker.py`: the dataset that torch reads in a worker process
* `_message_groups.py`: several messages of a worker in one
* `_worker_cursors.py`: the cursors of the dataset in all workers
* `_transfer.py`: how a batch is sent between processes
* `_shared_memory.py`: shared memory without names
* `_collate_shared.py`: torch's collation, in that memory
* `_pin_memory.py`: memory that a device can copy from
* `_device.py`: batches on a device, copied ahead
* `_meter.py`: counts and seconds of every part and stage
* `_stats.py`: what the bottleneck is and what to do about it
* `_profile.py`: `profile` and `progress`
* `_move_batching.py`: batching moved from the loader into the dataset
"""

from ._loader import WebLoader
from ._profile import profile, progress
from ._stats import Part, Stats

__all__ = ["Part", "Stats", "WebLoader", "profile", "progress"]
