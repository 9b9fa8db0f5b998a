"""Items of the user's own pipeline, as the model gets them, at any step, drawn several times."""

from __future__ import annotations

import base64
import json
import random
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from webdataset.errors import SpecError, Where
from webdataset.mutex import Mutex
from webdataset.redact import redacted

from ._cells import shown_text
from ._field_content import outline
from ._thumbnail import array_picture

_MOST_DRAWS = 8
_MOST_PICTURES = 32
_MOST_ENTRIES = 64
_MOST_SKIPPED = 10_000
_EDGE = 224
_STORE = "store `json.dumps(dataset.state_dict())`"


class ModelInput:
    """Items of the pipelines that a function makes.

    >>> model = ModelInput(lambda: [{"txt": "hello"}, {"txt": "again"}])
    >>> model.step(1)["draws"][0][0]["text"]
    "'again'"

    Args:
        make: makes a new dataset, pipeline or loader.
        checkpoint: the `state_dict()` of one of them; steps count from there.
        owned: whether the pipelines are closed after each draw.
    """

    def __init__(
        self, make: Callable[[], Any], checkpoint: Mapping[str, Any] | None = None, *, owned: bool = True
    ) -> None:
        self._make, self._checkpoint, self._owned = make, checkpoint, owned
        self._lock = Mutex()  # the state of random generators belongs to the whole process

    def step(self, step: int, draws: int = 1) -> dict[str, Any]:
        """Item number `step` of an epoch, drawn several times with other random numbers."""
        if step < 0 or not 1 <= draws <= _MOST_DRAWS:
            raise SpecError(f"expected a step from 0 and 1 to {_MOST_DRAWS} draws, got {step} and {draws}")
        with self._lock:
            drawn = [self._draw(step, number) for number in range(draws)]
        return {"step": step, "draws": [shown_entries(item) for item in drawn]}

    def _draw(self, step: int, draw: int) -> Any:
        pipeline = self._make()
        state = random.getstate()
        try:
            if self._checkpoint is not None:
                pipeline.load_state_dict(self._checkpoint)
            skipped = step
            if step and hasattr(pipeline, "seek"):
                with suppress(SpecError):  # not indexed: the steps before it are read
                    pipeline.seek(step)
                    skipped = 0
            _seed(draw)
            return _item(iter(pipeline), skipped, step)
        finally:
            random.setstate(state)
            if self._owned and hasattr(pipeline, "close"):
                pipeline.close()


def _seed(draw: int) -> None:
    """Seed the random generators with the number of a draw."""
    random.seed(draw)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(draw)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(draw)


def _item(items: Iterator[Any], skipped: int, step: int) -> Any:
    if skipped > _MOST_SKIPPED:
        raise SpecError(
            f"step {step} cannot be reached at once: the dataset has no index",
            hint=f"index the shards with `wds index create`; without one {_MOST_SKIPPED:,} steps are the limit",
        )
    try:
        for item in islice(items, skipped, None):
            return item
    finally:
        if hasattr(items, "close"):
            items.close()
    raise IndexError(f"there is no step {step}: the dataset ends before")


def shown_entries(item: Any) -> list[dict[str, Any]]:
    """The entries of an item: fields of a dict, parts of a tuple, or the item itself."""
    if isinstance(item, Mapping):
        entries = [(str(name), value) for name, value in item.items()]
    elif isinstance(item, list | tuple):
        entries = [(str(name), value) for name, value in enumerate(item)]
    else:
        entries = [("", item)]
    return [_entry(shown_text(name), value) for name, value in entries[:_MOST_ENTRIES]]


def _entry(name: str, value: Any) -> dict[str, Any]:
    array = _as_array(value)
    if array is None:
        if isinstance(value, list | tuple) and value and all(_as_array(each) is not None for each in value):
            return {"name": name, "text": f"{len(value)} arrays", "pictures": _pictures(value)}
        return {"name": name, "text": shown_text(redacted(repr(value))[:4000]), "pictures": []}
    batch = array.ndim == 4 or (array.ndim == 3 and array_picture(array, _EDGE) is None)
    pictures = _pictures(array if batch else [array])
    return {"name": name, "text": "", "array": outline(name, array), "pictures": pictures}


def _pictures(arrays: Any) -> list[str]:
    """The arrays that are pictures, as `data:` addresses."""
    found = []
    for array in arrays[:_MOST_PICTURES]:
        picture = array_picture(_as_array(array), _EDGE)
        if picture is not None:
            found.append(f"data:{picture[1]};base64,{base64.b64encode(picture[0]).decode()}")
    return found


def _as_array(value: Any) -> Any:
    """Arrays, tensors and PIL images as NumPy arrays; None for all else."""
    import numpy as np

    if hasattr(value, "detach") and hasattr(value, "cpu"):
        tensor = value.detach().cpu()
        return (tensor.float() if tensor.is_floating_point() else tensor).numpy()
    if isinstance(value, np.ndarray) or (hasattr(value, "mode") and hasattr(value, "getbands")):
        return np.asarray(value)
    return None


def read_checkpoint(path: str) -> Mapping[str, Any]:
    """Read a checkpoint that was stored as JSON."""
    try:
        found = json.loads(Path(path).read_bytes())
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not JSON"
        raise SpecError(f"the checkpoint cannot be read: {why}", Where(shard=path), hint=_STORE) from error
    if not isinstance(found, dict):
        raise SpecError("expected a JSON object", Where(shard=path), hint=_STORE)
    return found
