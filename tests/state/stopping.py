"""Save a run at every stop point, and resume each of the states in a fresh object."""

import json
from itertools import islice

from tests.golden.pipelines import keys_of
from tests.state.reference import LONGEST, Reference, epoch_of

STOPPED = 3  # epochs with stop points
_NO_STATE = "state_dict raised"


class Recording:
    """A run that is saved before its first item, after every item, and between epochs."""

    def __init__(self, composition, only=None, stopped=STOPPED):
        self.composition = composition
        self.reference = Reference(composition.build, stopped + 2)
        self.reference.check(composition.promise)
        self.states = {}  # (epoch, items taken, or None after the loop): JSON text, or why there is none
        self._only = only
        dataset = composition.build()
        self._save(dataset, 0, 0)
        self.epochs = [self._epoch(dataset, epoch) for epoch in range(stopped)]
        self.epochs += [epoch_of(dataset) for _ in range(2)]
        dataset.close()

    def _epoch(self, dataset, epoch):
        found, items = [], iter(dataset)
        if epoch:
            self._save(dataset, epoch, 0)
        for item in islice(items, LONGEST):
            found.append(keys_of(item))
            self._save(dataset, epoch, len(found))
        self._save(dataset, epoch, None)
        return found

    def _save(self, dataset, epoch, taken):
        if self._only is not None and (epoch, taken) not in self._only(self.reference.epochs):
            return
        try:
            self.states[epoch, taken] = json.dumps(dataset.state_dict())
        except Exception as error:
            self.states[epoch, taken] = (
                f"{_NO_STATE} {type(error).__name__}: {error}"  # no traceback, which holds files
            )

    def failures(self, chosen):
        """The chosen stop points after which something differs from the uninterrupted run, and what."""
        wrong = ((stop, self._wrong(stop)) for stop in self.states if chosen(*stop))
        return [(stop, why) for stop, why in wrong if why is not None]

    def _wrong(self, stop):
        state, expected = self.states[stop], self.reference.after(*stop)
        if state.startswith(_NO_STATE):
            return state
        try:
            resumed = self.resume(state)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return None if resumed == expected else f"expected {expected}, got {resumed}"

    def resume(self, state):
        """The rest of the epoch, and the next one, of a fresh object."""
        dataset = self.composition.build()
        try:
            dataset.load_state_dict(json.loads(state))
            return [epoch_of(dataset), epoch_of(dataset)]
        finally:
            dataset.close()


def a_few(epochs):
    """Some stop points for what takes long: in the first epoch, between epochs, and in the second."""
    return {(0, 1), (0, None), (1, len(epochs[1]) // 2)}
