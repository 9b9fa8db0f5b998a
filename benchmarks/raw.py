"""How fast are images that were decoded beforehand? 256 × 256 raw pixels (PPM in tar) → crop 224 + flip → batch of 64."""

import lab

if __name__ == "__main__":
    lab.answer(__doc__, ["raw"])
