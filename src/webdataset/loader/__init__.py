"""Batches. A dataset comes in, its items go out, brought by worker processes or threads.

This room knows processes, threads, queues and shared memory, and nothing of samples, shards or tar. Beside every item
rides the place of the dataset after it, so a loader can be saved and resumed whatever it has made ahead.

* `_loader.py`: `WebLoader`
* `_place.py`: where a dataset was after an item
* `_threads.py`: a dataset read by threads
* `_pool.py`: functions of one item on threads, in order
* `_ahead.py`: a thread that works ahead
* `_sizes.py`: how many bytes an item holds
* `_processes.py`: a dataset read by torch's worker processes
* `_posted.py`: what runs in such a process
* `_parcel.py`: a batch on its way between processes
* `_segments.py`: shared memory without names
* `_stacked.py`: torch's collation, in that memory
* `_pin.py`: memory that a device can copy from
* `_device.py`: batches on a device, copied ahead
* `_meter.py`, `_watch.py`: who was busy for how long; in parts, and in every stage
* `_parts.py`, `_stats.py`, `_advice.py`: what follows from it
* `_profile.py`, `_progress.py`: ways to look at it
* `_inside.py`: batches made inside a planned dataset
"""

from ._loader import WebLoader
from ._profile import profile
from ._progress import progress
from ._stats import Part, Stats

__all__ = ["Part", "Stats", "WebLoader", "profile", "progress"]
