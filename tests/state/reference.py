"""What a program that is never interrupted sees, in plain lists. Nothing here knows how a checkpoint is made."""

from itertools import chain, combinations, islice

from tests.golden.pipelines import keys_of

LONGEST = 200  # no epoch of these tests is longer; one that never ends must not hang a test


def epoch_of(dataset):
    """The keys of the items of one `for` loop."""
    return [keys_of(item) for item in islice(iter(dataset), LONGEST)]


def flat(items):
    """The sample keys in items, whatever batches they are in."""
    return [key for item in items for key in ([item] if isinstance(item, str) else flat(item))]


class Reference:
    """The epochs of one uninterrupted run."""

    def __init__(self, build, epochs):
        dataset = build()
        self.epochs = [epoch_of(dataset) for _ in range(epochs)]
        dataset.close()

    def after(self, epoch, taken):
        """What follows after `taken` items of an epoch (None: after its loop): that epoch's rest, and the next one."""
        if taken is None:
            return self.epochs[epoch + 1 : epoch + 3]
        return [self.epochs[epoch][taken:], self.epochs[epoch + 1]]

    def check(self, promise):
        """Compare with what the composition promises, which follows from its description alone."""
        every, seen = sorted(promise.keys), [flat(epoch) for epoch in self.epochs]
        if promise.epoch == "all":
            assert all(sorted(epoch) == sorted(every * promise.times) for epoch in seen), self.epochs
        elif promise.epoch == "continued":  # cut anywhere, the passes in a row hold every sample once
            row = list(chain.from_iterable(seen))
            whole = [row[at : at + len(every)] for at in range(0, len(row) - len(every) + 1, len(every))]
            assert all(sorted(each) == every for each in whole), self.epochs
        elif promise.epoch == "first":  # each epoch is the beginning of a new pass
            assert all(len(set(epoch)) == len(epoch) and set(epoch) <= set(every) for epoch in seen), self.epochs
        elif promise.epoch == "some":
            assert all(set(epoch) <= set(every) for epoch in seen), self.epochs
        if promise.size is not None:
            assert [len(epoch) for epoch in self.epochs] == [promise.size] * len(self.epochs)
        if promise.shuffled and len(every) > 6:
            assert all(one != other for one, other in combinations(self.epochs[:3], 2)), self.epochs
        elif promise.shuffled:  # of few samples there are few orders
            assert any(one != self.epochs[0] for one in self.epochs), self.epochs
