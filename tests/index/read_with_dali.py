"""Run by a Python that has DALI: print the bytes of the jpg fields of a shard, read through an index."""

import sys


def main(shard, index):
    from nvidia.dali import fn, pipeline_def

    @pipeline_def(batch_size=1, num_threads=1, device_id=None)
    def read():
        return fn.readers.webdataset(paths=[shard], index_paths=[index], ext=["jpg"], name="reader")

    running = read()
    running.build()
    for _ in range(running.epoch_size("reader")):
        (batch,) = running.run()
        print(bytes(batch.at(0)).hex() or "-")


if __name__ == "__main__":
    main(*sys.argv[1:])
