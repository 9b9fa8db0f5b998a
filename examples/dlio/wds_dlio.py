"""A data loader for DLIO, the engine of MLPerf Storage: the images that DLIO generated, read from shards.

    dlio_benchmark ... ++workload.reader.data_loader_classname=wds_dlio.WebDatasetLoader \
                       ++workload.reader.data_loader_sampler=iterative

DLIO's `read_threads` are worker processes here too, or threads with WDS_DLIO_WORKERS=threads. Under `mpirun` every rank
reads its own part. Unlike DLIO's own readers, which read a sample and hand on one constant array, this loader hands on
the decoded images.
"""

import os
from pathlib import Path

from dlio_benchmark.common.enumerations import DataLoaderType, Shuffle
from dlio_benchmark.data_loader.base_data_loader import BaseDataLoader

import webdataset as wds


class WebDatasetLoader(BaseDataLoader):
    def __init__(self, format_type, dataset_type, epoch_number):
        super().__init__(format_type, dataset_type, epoch_number, DataLoaderType.PYTORCH)
        self._loader = None

    def read(self):
        """Make the loader; `pack.py` has written the shards beside DLIO's files."""
        folder = Path(self._args.data_folder) / "shards" / str(self.dataset_type)
        urls = [str(path) for path in sorted(folder.glob("*.tar"))]
        if not urls:
            raise SystemExit(f"no shards found in {folder}; run pack.py first")
        shuffled = self._args.sample_shuffle is not Shuffle.OFF
        dataset = wds.WebDataset(
            urls,
            index=True,
            seed=self._args.seed,
            order="random" if shuffled else None,
            shardshuffle=False,
            uneven="pad",
        )
        if len(dataset) != -(-self.num_samples // self._args.comm_size):
            raise SystemExit(
                f"expected {self.num_samples} samples, got {len(dataset)} on each of {self._args.comm_size}"
            )
        images = dataset.decode("l8").to_tuple("jpg;png").map(lambda sample: sample[0])
        workers, kind = self._args.read_threads, os.environ.get("WDS_DLIO_WORKERS", "processes")
        # DLIO asks this loader for all epochs: workers that live on are started once.
        settings = {"persistent_workers": True} if kind == "processes" and workers > 0 else {}
        self._loader = wds.WebLoader(images, batch_size=self.batch_size, num_workers=workers, workers=kind, **settings)

    def next(self):
        """The batches of an epoch; DLIO calls this for each, and the loader counts them."""
        yield from self._loader

    def finalize(self):
        """DLIO calls this after every epoch, and then `next` again."""
