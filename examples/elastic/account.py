"""What a training with train.py was made of: its runs, its loss, and how often each sample was trained on.

python account.py run
"""

import json
import sys
from collections import Counter
from pathlib import Path

import torch


def main():
    folder = Path(sys.argv[1])
    history = torch.load(folder / "checkpoint.pt", weights_only=True)["history"]
    epochs, losses = {}, {}
    for run in history:
        print(f"run {run['run']}: {run['ranks']} ranks, steps {run['first']} to {run['stop'] - 1}")
        for rank in range(run["ranks"]):
            for line in map(json.loads, (folder / f"journal-{run['run']}-{rank}.jsonl").open()):
                if run["first"] <= line["step"] < run["stop"]:  # later ones are not in any checkpoint
                    epochs.setdefault(line["epoch"], Counter()).update(line["samples"])
                    losses[line["step"]] = line["loss"]
    for step in sorted(losses):
        print(f"step {step:4d}  loss {losses[step]:7.3f}  {'#' * min(60, round(4 * losses[step]))}")
    for epoch, counted in sorted(epochs.items()):
        repeated = sum(1 for times in counted.values() if times > 1)
        print(f"epoch {epoch}: {len(counted)} samples, {repeated} repeated, numbers {min(counted)} to {max(counted)}")


if __name__ == "__main__":
    main()
