"""What torchvision offers, in small: a ResNet, an ImageFolder and two transforms. torchvision is used when it is there."""

import random
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import nn

MEAN, STD = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])


class Block(nn.Module):
    """Two convolutions around a shortcut."""

    def __init__(self, inside, outside, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inside, outside, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outside),
            nn.ReLU(),
            nn.Conv2d(outside, outside, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outside),
        )
        same = stride == 1 and inside == outside
        self.shortcut = nn.Identity() if same else nn.Conv2d(inside, outside, 1, stride, bias=False)

    def forward(self, images):
        return torch.relu(self.body(images) + self.shortcut(images))


class SmallResNet(nn.Module):
    """For images of some 32 pixels."""

    def __init__(self, classes, width=16):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, width, 3, 1, 1),
            nn.ReLU(),
            Block(width, width, 2),
            Block(width, 2 * width, 2),
            Block(2 * width, 4 * width, 2),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(4 * width, classes),
        )

    def forward(self, images):
        return self.body(images)


def make_model(arch, classes):
    if arch == "small":
        return SmallResNet(classes)
    import torchvision.models

    return torchvision.models.get_model(arch, num_classes=classes)


def as_tensor(image):
    pixels = (np.asarray(image.convert("RGB"), np.float32) / 255 - MEAN) / STD
    return torch.from_numpy(np.ascontiguousarray(pixels.transpose(2, 0, 1)))


class Augment:
    """A random crop of 60 to 100 % of the image, resized, and a flip in half of the cases."""

    def __init__(self, size):
        self.size = size

    def __call__(self, image):
        side = random.uniform(0.6, 1) ** 0.5
        width, height = (max(1, round(side * length)) for length in image.size)
        left, top = random.randint(0, image.width - width), random.randint(0, image.height - height)
        image = image.resize((self.size, self.size), Image.Resampling.BILINEAR, (left, top, left + width, top + height))
        return as_tensor(image.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if random.random() < 0.5 else image)


class Centre:
    """The whole image, resized."""

    def __init__(self, size):
        self.size = size

    def __call__(self, image):
        return as_tensor(image.resize((self.size, self.size), Image.Resampling.BILINEAR))


class ImageFolder(torch.utils.data.Dataset):
    """FOLDER/CLASS/image."""

    def __init__(self, folder, transform):
        self.classes = sorted(path.name for path in Path(folder).iterdir() if path.is_dir())
        self.images = [
            (path, number)
            for number, name in enumerate(self.classes)
            for path in sorted((Path(folder) / name).iterdir())
        ]
        self.transform = transform

    def __len__(self):
        return len(self.images)

    def __getitem__(self, number):
        path, label = self.images[number]
        with Image.open(path) as image:
            return self.transform(image), label
