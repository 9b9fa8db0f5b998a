"""Lightning: its checkpoint holds the position of the loader."""

import os

import lightning as L
import torch
from common import PHASE, STOP, Model, loader_of, tell

RANKS = int(os.environ.get("WORLD_SIZE", 1))


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
            os._exit(0)


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
    trainer.fit(module, loader_of(), ckpt_path="first.ckpt" if PHASE == "rest" else None, weights_only=False)
    tell(module.model.seen)


main()
