"""How fast do JPEGs become training batches?

    python benchmarks/images.py [--rounds 3] [--peers ours webdataset …]

100 kB JPEG → random-resized crop 224 + flip → batch of 64, on two cores: antialiased uint8 (what torchvision users
get), plain bilinear uint8 (cheaper, aliases), antialiased and normalised float32.
"""

import lab

if __name__ == "__main__":
    lab.answer(__doc__, ["limits", "antialiased", "plain", "float"])
