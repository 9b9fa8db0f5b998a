"""Hugging Face `Trainer`: given the dataset (accelerate splits), or a loader (we split)."""

import json
import sys
from pathlib import Path

import torch
from common import BATCH, PHASE, STOP, WORKERS, Model, dataset_of, loader_of, tell
from leaving import leave
from transformers import Trainer, TrainerCallback, TrainingArguments

SPLITTER = sys.argv[4]  # "dispatch", "shard" or "ours"


class Counted(Model):
    """The model as the Trainer calls it."""

    def forward(self, inputs, numbers, padding):
        return {"loss": super().forward(inputs, numbers, padding)}


def collate(samples):
    inputs, numbers, padding = zip(*samples, strict=True)
    return as_dict((torch.as_tensor(list(map(list, inputs))), torch.tensor(numbers), torch.tensor(padding)))


def as_dict(batch):
    inputs, numbers, padding = batch
    return {"inputs": inputs, "numbers": numbers, "padding": padding}


class LoaderTrainer(Trainer):
    """A Trainer that reads from a WebLoader, and keeps its position beside every checkpoint."""

    def get_train_dataloader(self):
        self.loader = loader_of()
        return self.loader.map(as_dict).with_length(len(self.loader))


class Kill(TrainerCallback):
    """Ends the process after the first checkpoint, as a crash would."""

    def on_save(self, args, state, control, **_):
        if PHASE == "first":
            tell(model.seen)
            leave()


class KeepPosition(TrainerCallback):
    def on_save(self, args, state, control, **_):
        if state.is_world_process_zero:
            Path("state.json").write_text(json.dumps(trainer.callback_handler.train_dataloader.state_dict()))

    def on_train_begin(self, args, state, control, **_):
        if PHASE == "rest":
            trainer.callback_handler.train_dataloader.load_state_dict(json.loads(Path("state.json").read_text()))


arguments = TrainingArguments(
    output_dir="checkpoints",
    per_device_train_batch_size=BATCH,
    num_train_epochs=1,
    dataloader_num_workers=WORKERS,
    save_strategy="steps",
    save_steps=STOP,
    report_to=[],
    use_cpu=True,
    disable_tqdm=True,
    remove_unused_columns=False,
    ignore_data_skip=SPLITTER == "ours",
    accelerator_config={"dispatch_batches": SPLITTER == "dispatch"},
)
model = Counted()
if SPLITTER == "ours":
    trainer = LoaderTrainer(model=model, args=arguments, train_dataset=dataset_of(), callbacks=[KeepPosition(), Kill()])
else:
    trainer = Trainer(
        model=model, args=arguments, train_dataset=dataset_of(), data_collator=collate, callbacks=[Kill()]
    )
trainer.train(resume_from_checkpoint=f"checkpoints/checkpoint-{STOP}" if PHASE == "rest" else None)
tell(model.seen)
leave()
