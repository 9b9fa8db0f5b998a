"""`Checkpoint`: what `state_dict()` returns. A cursor, and what identifies the pipeline that it belongs to.

Version 2 is written. Version 1 is read (`_checkpoint_v1.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from webdataset.describe import identifies, shown
from webdataset.errors import SpecError, StateError
from webdataset.flow import Json, count_in, digest, well_formed

from ._cursor import Cursor, check_types

if TYPE_CHECKING:
    from ._source_choice import Shares

_HINT = "load the checkpoint into the pipeline that saved it"
_LONGEST = 120


@dataclass(frozen=True)
class Identity:
    """What identifies a pipeline in a checkpoint, so that another pipeline refuses it.

    Attributes:
        seed: the pipeline's seed.
        stages: the stages as text, the same in every process.
        inner_seeds: the seeds of the datasets inside, in their order; None in a checkpoint of version 1.
    """

    seed: int
    stages: tuple[str, ...]
    inner_seeds: tuple[int, ...] | None = ()

    def check(self, saved: Identity) -> None:
        """Refuse the identity of another pipeline with an error that says what differs."""
        for number, (there, here) in enumerate(zip(saved.stages, self.stages, strict=False)):
            if there != here:
                raise StateError(f"stage {number} of the checkpoint is {there}, here it is {here}", hint=_HINT)
        if len(saved.stages) != len(self.stages):
            raise StateError(
                f"the checkpoint has {len(saved.stages)} stages, this pipeline has {len(self.stages)}", hint=_HINT
            )
        if saved.seed != self.seed:
            raise StateError(
                f"the checkpoint was made with seed {saved.seed}, this pipeline has {self.seed}",
                hint="give the dataset the same seed",
            )
        if saved.inner_seeds is not None and saved.inner_seeds != self.inner_seeds:
            raise StateError(
                f"the datasets of the checkpoint have the seeds {list(saved.inner_seeds)}, here they have "
                f"{list(self.inner_seeds or ())}",
                hint="give the datasets inside the same seeds",
            )

    def to_json(self) -> dict[str, Json]:
        """As JSON."""
        return {"seed": self.seed, "stages": list(self.stages), "inner_seeds": list(self.inner_seeds or ())}

    @classmethod
    def from_json(cls, saved: Json) -> Identity:
        """Return the identity from its JSON."""
        check_types(saved, seed=int, stages=list, inner_seeds=list | None)
        seeds = saved.get("inner_seeds")
        return cls(saved["seed"], tuple(map(str, saved["stages"])), None if seeds is None else tuple(seeds))


@dataclass(frozen=True)
class Settings:
    """Settings that a program may change while it runs; a resumed program starts with them.

    Attributes:
        weights: of every mix inside, in their order: those that were set, or None. None if a checkpoint has none.
        next_epoch: the number of the next epoch, if that is not one more than the number of the current one.
    """

    weights: tuple[Sequence[float] | None, ...] | None = None
    next_epoch: int | None = None

    def to_json(self) -> dict[str, Json]:
        """As JSON."""
        weights = {"weights": list(self.weights)} if self.weights else {}
        return weights if self.next_epoch is None else {**weights, "next_epoch": self.next_epoch}

    @classmethod
    def from_json(cls, saved: Json) -> Settings:
        """Return the settings from their JSON."""
        check_types(saved, weights=list | None, next_epoch=int | None)
        weights, epoch = saved.get("weights"), saved.get("next_epoch")
        with well_formed(saved, "the next epoch"):
            count_in(epoch or 0)
        return cls(None if weights is None else tuple(weights), epoch)

    def apply_weights(self, mixes: Sequence[Shares]) -> None:
        """Set the weights of all mixes."""
        if self.weights is None:
            return
        try:
            pairs = list(zip(mixes, self.weights, strict=True))
            checked = [None if weights is None else shares.checked(weights) for shares, weights in pairs]
        except (SpecError, TypeError, ValueError) as error:
            raise StateError(f"malformed checkpoint: weights {self.weights!r:.60}", hint=_HINT) from error
        for shares, weights in zip(mixes, checked, strict=True):
            shares.were_set = weights


@dataclass(frozen=True)
class Checkpoint:
    """The state of a pipeline.

    Attributes:
        identity: of the pipeline.
        cursor: where the next item is.
        dataset: the identity of the dataset that a loader reads; None for any other pipeline.
        settings: what was changed since the pipeline was made.
    """

    identity: Identity
    cursor: Cursor
    dataset: Identity | None = None
    settings: Settings = field(default_factory=Settings)

    def to_json(self) -> dict[str, Json]:
        """As JSON.

        >>> Checkpoint(Identity(0, ("[1, 2]",)), Cursor(3)).to_json()["version"]
        2
        """
        saved = {"version": 2, **self.identity.to_json(), "at": self.cursor.to_json(), **self.settings.to_json()}
        return saved if self.dataset is None else {**saved, "dataset": self.dataset.to_json()}

    @classmethod
    def from_json(cls, saved: Json) -> Checkpoint:
        """Return the checkpoint from the JSON of any version.

        >>> Checkpoint.from_json({"version": 3})
        Traceback (most recent call last):
        webdataset.errors.StateError: the checkpoint has version 3, expected 1 or 2 – give load_state_dict what ...
        """
        version = saved.get("version") if isinstance(saved, dict) else None
        if version not in (1, 2):
            raise StateError(
                f"the checkpoint has version {version!r}, expected 1 or 2"
                if isinstance(saved, dict)
                else f"expected the dict that state_dict() returned, got {saved!r:.40}",
                hint="give load_state_dict what state_dict returned",
            )
        if version == 1:
            from ._checkpoint_v1 import upgrade

            saved = upgrade(saved)
        dataset = saved.get("dataset")
        return cls(
            Identity.from_json(saved),
            Cursor.from_json(saved.get("at")),
            None if dataset is None else Identity.from_json(dataset),
            Settings.from_json(saved),
        )

    def with_cursor(self, cursor: Cursor) -> Checkpoint:
        """Return the checkpoint with another cursor."""
        return replace(self, cursor=cursor)


def fingerprint(stages: Sequence[Any]) -> tuple[str, ...]:
    """Return the texts of the stages in a checkpoint.

    >>> from webdataset.stages import Map
    >>> fingerprint([Map(str)])
    ('map(f=str)',)
    """
    token = identifies.set(True)
    try:
        return tuple(_short(shown(stage)) for stage in stages)
    finally:
        identifies.reset(token)


def _short(text: str) -> str:
    """Return a long text, such as a list of ten thousand shards, cut and with a digest that identifies it."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… #{digest(text):016x}"
