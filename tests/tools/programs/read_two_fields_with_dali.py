"""Run by a Python that has DALI: print class and size of the picture of every sample of a shard, through its index."""

import json
import sys


def main(shard, _cache):
    from nvidia.dali import fn, pipeline_def

    @pipeline_def(batch_size=1, num_threads=1, device_id=None)
    def read():
        index = shard.removesuffix(".tar") + ".idx"
        cls, jpg = fn.readers.webdataset(paths=[shard], index_paths=[index], ext=["cls", "jpg"], name="reader")
        return cls, jpg

    running = read()
    running.build()
    for _ in range(running.epoch_size("reader")):
        cls, jpg = running.run()
        print(json.dumps([bytes(cls.at(0)).decode(), len(bytes(jpg.at(0)))]))


if __name__ == "__main__":
    main(*sys.argv[1:])
