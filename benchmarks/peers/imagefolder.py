"""Files in folders, as torchvision's ImageFolder + DataLoader read them: PIL, two worker processes.

The dataset and the transform are written out here with their semantics, so that torchvision is not needed.
"""

import os

import data

VERSIONS = ["torch", "pillow"]
PREPARED = {"antialiased": "imagefolder", "float": "imagefolder"}


def prepare(row, folder):
    place = folder / "imagefolder.part"
    for number, (jpeg, label) in enumerate(data.pairs(folder)):
        path = place / f"{label:04d}" / f"{number:08d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(jpeg)
    place.rename(folder / "imagefolder")


class ImageFolder:
    def __init__(self, root, transform):
        names = sorted(os.listdir(root))
        self.files = [
            (os.path.join(root, name, file), label)
            for label, name in enumerate(names)
            for file in sorted(os.listdir(os.path.join(root, name)))
        ]
        self.transform = transform

    def __len__(self):
        return len(self.files)

    def __getitem__(self, number):
        path, label = self.files[number]
        with open(path, "rb") as file:
            return self.transform(file), label


def loader(folder, transform):
    import torch

    torch.set_num_threads(1)
    dataset = ImageFolder(folder / "imagefolder", transform)
    return torch.utils.data.DataLoader(dataset, 64, shuffle=True, num_workers=2)


def pillow(folder):
    import crops

    return loader(folder, crops.with_pillow)


def floats(folder):
    import crops

    return loader(folder, crops.with_pillow_as_floats)


ROWS = {
    "antialiased": {"ImageFolder + DataLoader, PIL, 2 processes": pillow},
    "float": {"ImageFolder + DataLoader, PIL, 2 processes": floats},
}
