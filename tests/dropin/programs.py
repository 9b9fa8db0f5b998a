"""What the programs' tests share."""

KEYS = [f"{shard}{number}" for shard in range(3) for number in range(4)]


def keys(samples):
    return [sample["__key__"] for sample in samples]
