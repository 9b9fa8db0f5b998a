"""`accelerate`: a torch DataLoader that is prepared (accelerate splits), or a WebLoader that is not (we split)."""

import json
import sys
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration, InitProcessGroupKwargs
from common import BATCH, PHASE, STOP, WORKERS, Model, dataset_of, loader_of, tell
from leaving import leave
from torch.utils.data import DataLoader

SPLITTER = sys.argv[4]  # "dispatch", "shard" or "ours"


def main():
    settings = DataLoaderConfiguration(dispatch_batches=SPLITTER == "dispatch")
    group = InitProcessGroupKwargs(backend="gloo")  # not MPI, where torch has it
    accelerator = Accelerator(cpu=True, dataloader_config=settings, kwargs_handlers=[group])
    model = Model()
    wrapped, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), 0.01))
    state = Path("state.json")
    if SPLITTER == "ours":
        loader = batches = loader_of()
        if PHASE == "rest":
            loader.load_state_dict(json.loads(state.read_text()))
    else:
        loader = accelerator.prepare(DataLoader(dataset_of(), batch_size=BATCH, num_workers=WORKERS))
        batches = accelerator.skip_first_batches(loader, STOP) if PHASE == "rest" else loader
    for step, batch in enumerate(batches, start=1):
        accelerator.backward(wrapped(*batch))
        optimizer.step()
        if PHASE == "first" and step == STOP:
            if SPLITTER == "ours" and accelerator.is_main_process:
                state.write_text(json.dumps(loader.state_dict()))
            break
    tell(model.seen, kind=type(loader).__name__)
    accelerator.end_training()
    leave()


main()
