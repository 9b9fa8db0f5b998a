"""Ten kinds of small pictures, drawn from a random generator: the data of the examples."""

import numpy as np

NAMES = "disc ring square frame triangle cross bars columns diagonals checks".split()


def draw(rng, label, size=48):
    """A picture (uint8, size × size × 3) of one kind, in random colours, at a random place, under noise."""
    unit = rng.uniform(0.22, 0.4) * size
    middle = size / 2 + rng.uniform(-0.1, 0.1, 2) * size
    y, x = (np.mgrid[:size, :size] - middle[:, None, None]) / unit
    stripe = rng.uniform(0.35, 0.6)
    inside = {
        "disc": x**2 + y**2 < 1,
        "ring": (x**2 + y**2 < 1) & (x**2 + y**2 > 0.4),
        "square": np.maximum(abs(x), abs(y)) < 0.9,
        "frame": (np.maximum(abs(x), abs(y)) < 0.9) & (np.maximum(abs(x), abs(y)) > 0.6),
        "triangle": (y < 0.8) & (y > 2 * abs(x) - 1),
        "cross": (np.minimum(abs(x), abs(y)) < 0.3) & (np.maximum(abs(x), abs(y)) < 1),
        "bars": y % (2 * stripe) < stripe,
        "columns": x % (2 * stripe) < stripe,
        "diagonals": (x + y) % (2.8 * stripe) < 1.4 * stripe,
        "checks": (x % (2 * stripe) < stripe) ^ (y % (2 * stripe) < stripe),
    }[NAMES[label]]
    paper, ink = rng.uniform(0, 255, 3), rng.uniform(0, 255, 3)
    while abs(paper - ink).max() < 80:
        ink = rng.uniform(0, 255, 3)
    picture = np.where(inside[..., None], ink, paper) + rng.normal(0, 20, (size, size, 3))
    return picture.clip(0, 255).astype(np.uint8)


def samples(count, seed=0, size=48):
    """`count` samples as a writer takes them: a JPEG, its class, and what is known about it."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        label = int(rng.integers(len(NAMES)))
        yield {
            "__key__": f"{number:06d}",
            "jpg": draw(rng, label, size),
            "cls": label,
            "json": {"shape": NAMES[label], "number": number},
        }
