"""How fast do small samples become batches? About 1 kB of json + npy, decoded, batches of 256, one process."""

import lab

if __name__ == "__main__":
    lab.answer(__doc__, ["small"])
