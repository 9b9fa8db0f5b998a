"""How fast are samples read, as bytes, one process? 1 kB (json + npy), 100 kB (JPEG) and 4 MB, beside the page cache.

The column `first ms` is a cold start: from the start of the process, through the import, to the first samples.
"""

import lab

if __name__ == "__main__":
    lab.answer(__doc__, ["small bytes", "photo bytes", "blobs"])
