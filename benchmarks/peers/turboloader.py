"""TurboLoader: the same tar shards, read by its C++ loader. From tar it makes floats only, and reads no labels."""

import data

VERSIONS = ["turboloader", "numpy"]


def photos(folder, *, antialias, **options):
    """One shard after the other: a loader takes one tar file."""
    import turboloader

    for path in data.shards(folder, "photos"):
        loader = turboloader.DataLoader(
            path, batch_size=64, num_workers=2, image_size=224, train_aug=True, antialias=antialias, **options
        )
        yield from ([images] for images, _ in loader)


def normalised(folder):
    import turboloader

    transform = turboloader.ImageNetNormalize()
    return photos(folder, antialias=True, output_format="pytorch", transform=transform)


ROWS = {
    "antialiased": {
        "TurboLoader, antialiased, floats": lambda folder: photos(folder, antialias=True, output_format="numpy")
    },
    "plain": {"TurboLoader, floats": lambda folder: photos(folder, antialias=False, output_format="numpy")},
    "float": {"TurboLoader, antialiased": normalised},
}
