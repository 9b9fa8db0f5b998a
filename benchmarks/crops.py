"""The same work for every peer that leaves it to the user: random-resized crop, flip, as torchvision does them.

With Pillow the crop is antialiased, as torchvision's on Pillow images; with OpenCV it is plain bilinear.
"""

import io
import math
import random

SIZE = 224
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def random_box(width, height):
    """torchvision's RandomResizedCrop: scale 0.08 to 1, ratio 3/4 to 4/3, ten tries."""
    area, low, high = width * height, math.log(3 / 4), math.log(4 / 3)
    for _ in range(10):
        target, ratio = area * random.uniform(0.08, 1.0), math.exp(random.uniform(low, high))
        w, h = round(math.sqrt(target * ratio)), round(math.sqrt(target / ratio))
        if 0 < w <= width and 0 < h <= height:
            return random.randint(0, width - w), random.randint(0, height - h), w, h
    side = min(width, height)
    return (width - side) // 2, (height - side) // 2, side, side


def with_pillow(encoded):
    """C × H × W uint8 tensor: Pillow decodes and resizes, as torchvision's transforms on Pillow images."""
    import numpy as np
    import torch
    from PIL import Image

    image = Image.open(io.BytesIO(encoded) if isinstance(encoded, bytes) else encoded).convert("RGB")
    x, y, w, h = random_box(*image.size)
    image = image.crop((x, y, x + w, y + h)).resize((SIZE, SIZE), Image.Resampling.BILINEAR)
    if random.random() < 0.5:
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous()


def with_pillow_as_floats(encoded):
    """The same, to tensor and normalised."""
    import torch

    mean, std = torch.tensor(MEAN).view(3, 1, 1), torch.tensor(STD).view(3, 1, 1)
    return with_pillow(encoded).float().div_(255).sub_(mean).div_(std)


def with_opencv(encoded):
    """H × W × C uint8 array: simplejpeg decodes, OpenCV resizes without antialiasing."""
    import cv2
    import simplejpeg

    pixels = simplejpeg.decode_jpeg(encoded)
    x, y, w, h = random_box(pixels.shape[1], pixels.shape[0])
    pixels = cv2.resize(pixels[y : y + h, x : x + w], (SIZE, SIZE), interpolation=cv2.INTER_LINEAR)
    return cv2.flip(pixels, 1) if random.random() < 0.5 else pixels
