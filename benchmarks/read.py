"""How fast are samples read, as bytes, one process? 1 kB (json + npy), 100 kB (JPEG) and 4 MB, beside the page cache.

    python benchmarks/read.py [--rounds 3] [--peers ours webdataset] [--rows "small bytes" views …]

The column `first ms` is a cold start: from the start of the process, through the import, to the first samples. The rows
`gzip` read the first shard packed by `gzip -1`. The row `views` compares `copy=False` with copies, for bytes that are used
or not, and with sketches of readers that take new windows or map the file.
"""

import lab

if __name__ == "__main__":
    lab.answer(
        __doc__,
        ["small bytes", "photo bytes", "blobs", "small bytes, gzip", "photo bytes, gzip", "views", "index text"],
    )
