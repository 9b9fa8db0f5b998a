"""How fast do fixed-shape arrays become batches? 512 tokens of 2 bytes each, batches of 256, out of indexed shards."""

import lab

if __name__ == "__main__":
    lab.answer(__doc__, ["tokens"])
