"""A training loop in plain PyTorch: DistributedDataParallel and a WebLoader; one checkpoint for all ranks."""

import json
from pathlib import Path

from common import PHASE, RANK, STOP, Model, loader_of, start_group, tell
from leaving import leave
from torch.nn.parallel import DistributedDataParallel


def main():
    start_group()
    model = Model()
    wrapped = DistributedDataParallel(model)
    loader = loader_of()
    state = Path("state.json")
    if PHASE == "rest":
        loader.load_state_dict(json.loads(state.read_text()))
    for step, batch in enumerate(loader, start=1):
        wrapped(*batch).backward()
        if PHASE == "first" and step == STOP:
            if RANK == 0:
                state.write_text(json.dumps(loader.state_dict()))
            break
    tell(model.seen)
    leave()


main()
