"""Serve: workers make the items of an indexed pipeline on request, trainers get them in the pipeline's own order.

In: a pipeline, and addresses. Out: a dataset that yields what the pipeline would yield here, bit for bit, while workers
come and go. There is no coordinator and no shared state: an item is determined by seed, epoch, rank and step.

    _make_steps         the items of any steps          _serve_worker       answers requests, on threads
    _item_cache         items shared by several jobs    _served_pipeline    what a worker serves, as trainers compare it
    _messages           the messages                    _item_frames        items as frames, without pickle
    _message_parts      large frames, in parts          _batch_memory       memory for them, which is reused
    _curve_keys         who may connect                 _serve_packages     the packages that this needs
    _fleet              answers of workers, in order    _remote_worker      one worker, as a trainer sees it
    _worker_roster      which workers are connected and alive
    _connected_dataset  `connect`                       _ray_workers        workers as actors of Ray
    _shard_pipeline     the usual pipeline over shards  _watch_workers      what workers do, for a monitor
Streams of arrays in the format of tensorcom, without order and checkpoints:
    _tensorcom_connection   `Connection`, `TensorcomDataset`, `zconnect`, and conversions of arrays
    _stream_contents        statistics and images of them   _message_rates  counts and rates
"""

from ._connected_dataset import ConnectedDataset, connect
from ._curve_keys import Keys, write_keys
from ._fleet import Fleet
from ._item_frames import WireOptions, decode_item, encode_item
from ._message_rates import Statistics
from ._ray_workers import RayWorkers, serve_on_ray
from ._serve_worker import Worker
from ._shard_pipeline import shard_pipeline
from ._stream_contents import array_statistics, as_image, imagenet_batches
from ._tensorcom_connection import Connection, TensorcomDataset, zconnect
from ._watch_workers import WorkerRates, bottleneck, look, rates
from ._worker_roster import FleetOptions, options_from

__all__ = [
    "ConnectedDataset",
    "Connection",
    "Fleet",
    "FleetOptions",
    "Keys",
    "RayWorkers",
    "Statistics",
    "TensorcomDataset",
    "WireOptions",
    "Worker",
    "WorkerRates",
    "array_statistics",
    "as_image",
    "bottleneck",
    "connect",
    "decode_item",
    "encode_item",
    "imagenet_batches",
    "look",
    "options_from",
    "rates",
    "serve_on_ray",
    "shard_pipeline",
    "write_keys",
    "zconnect",
]
