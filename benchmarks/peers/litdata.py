"""litdata: its optimized chunks on local disk, StreamingDataset under StreamingDataLoader with two workers."""

import data

VERSIONS = ["litdata", "torch", "pillow"]
PREPARED = {"antialiased": "litdata"}


def prepare(row, folder):
    import litdata

    samples = list(data.pairs(folder))
    litdata.optimize(
        fn=samples.__getitem__,
        inputs=list(range(len(samples))),
        output_dir=str(folder / "litdata.part"),
        chunk_bytes="64MB",
        num_workers=1,
    )
    (folder / "litdata.part").rename(folder / "litdata")


def pillow(folder):
    import crops
    import litdata
    import torch

    torch.set_num_threads(1)

    class Photos(litdata.StreamingDataset):
        def __getitem__(self, number):
            jpeg, label = super().__getitem__(number)
            return crops.with_pillow(bytes(jpeg)), label

    return litdata.StreamingDataLoader(Photos(str(folder / "litdata"), shuffle=False), batch_size=64, num_workers=2)


ROWS = {"antialiased": {"litdata, PIL, 2 processes": pillow}}
