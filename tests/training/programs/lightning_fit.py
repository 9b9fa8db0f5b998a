"""Lightning: its checkpoint holds the position of the loader.

`lightning_fit.py SHARDS PHASE WORKERS [KIND]`. "indexed" has a length; "stream" has none, so Lightning fetches one batch ahead;
"declared" is the stream with a length that the user declares.
"""

import os
import sys

import lightning as L
import torch
from common import BATCH, PHASE, STOP, URLS, Model, loader_of, tell
from leaving import leave

import webdataset as wds

RANKS = int(os.environ.get("WORLD_SIZE", 1))


KIND = sys.argv[4] if len(sys.argv) > 4 else "indexed"


def make_loader():
    if KIND == "indexed":
        return loader_of()
    stream = wds.WebDataset(URLS, index=False, seed=3, shardshuffle=True).decode().to_tuple("npy", "cls")
    loader = wds.WebLoader(stream.map(lambda sample: (*sample, 0)), batch_size=BATCH, num_workers=0)
    return loader if KIND == "stream" else loader.with_length(26)


class Module(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = Model()

    def training_step(self, batch, number):
        return self.model(*batch)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.01)


class Kill(L.Callback):
    """Saves after some steps, in the middle of the epoch, and ends the process as a crash would."""

    def on_train_batch_end(self, trainer, module, outputs, batch, number):
        if PHASE == "first" and number + 1 == STOP:
            trainer.save_checkpoint("first.ckpt")
            tell(module.model.seen)
            leave()


def main():
    module = Module()
    trainer = L.Trainer(
        accelerator="cpu",
        devices=RANKS,
        strategy="ddp" if RANKS > 1 else "auto",
        max_epochs=1,
        callbacks=[Kill()],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(module, make_loader(), ckpt_path="first.ckpt" if PHASE == "rest" else None, weights_only=False)
    tell(module.model.seen)
    leave()


main()
