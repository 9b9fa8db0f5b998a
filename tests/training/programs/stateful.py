"""torchdata's StatefulDataLoader: batches are made in the dataset, so that steps stay whole."""

import json
from pathlib import Path

from common import BATCH, PHASE, RANK, STOP, WORKERS, Model, dataset_of, start_group, tell
from leaving import leave
from torch.nn.parallel import DistributedDataParallel
from torchdata.stateful_dataloader import StatefulDataLoader


def main():
    start_group()
    model = Model()
    wrapped = DistributedDataParallel(model)
    loader = StatefulDataLoader(dataset_of().batched(BATCH), batch_size=None, num_workers=WORKERS)
    state = Path(f"state-{RANK}.json")
    if PHASE == "rest":
        loader.load_state_dict(json.loads(state.read_text()))
    for step, batch in enumerate(loader, start=1):
        wrapped(*batch).backward()
        if PHASE == "first" and step == STOP:
            state.write_text(json.dumps(loader.state_dict()))
            break
    tell(model.seen)
    leave()


main()
