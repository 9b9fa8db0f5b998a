"""MosaicML streaming: MDS shards on local disk, its StreamingDataset under torch's DataLoader with two workers."""

import data

VERSIONS = ["mosaicml-streaming", "torch", "pillow"]
PREPARED = {"antialiased": "mds"}


def without_torchvision():
    """streaming imports torchvision, which does not load beside a CPU-only torch from PyPI; nothing here uses it."""
    import sys
    from importlib.machinery import ModuleSpec
    from types import ModuleType

    for name in ("torchvision", "torchvision.datasets", "torchvision.transforms", "torchvision.transforms.functional"):
        sys.modules[name] = ModuleType(name)
        sys.modules[name].__spec__ = ModuleSpec(name, None)
    sys.modules["torchvision.datasets"].VisionDataset = object
    sys.modules["torchvision.transforms.functional"].to_tensor = None


def prepare(row, folder):
    without_torchvision()
    from streaming import MDSWriter

    with MDSWriter(out=str(folder / "mds.part"), columns={"jpg": "bytes", "cls": "int"}) as sink:
        for jpeg, label in data.pairs(folder):
            sink.write({"jpg": jpeg, "cls": label})
    (folder / "mds.part").rename(folder / "mds")


def pillow(folder):
    import crops
    import torch

    without_torchvision()
    from streaming import StreamingDataset

    torch.set_num_threads(1)

    class Photos(StreamingDataset):
        def __getitem__(self, number):
            sample = super().__getitem__(number)
            return crops.with_pillow(sample["jpg"]), sample["cls"]

    dataset = Photos(local=str(folder / "mds"), shuffle=False, batch_size=64)
    return torch.utils.data.DataLoader(dataset, 64, num_workers=2)


ROWS = {"antialiased": {"MosaicML streaming (MDS), PIL, 2 processes": pillow}}
