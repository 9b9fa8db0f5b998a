"""Run a pipeline to a stop point, save it there, and see what follows: what `make_states` and the test share."""

import itertools
import json

from tests.golden.pipelines import LIMITS, PIPELINES, keys_of

ENDED = "ended"  # a stop point: the `for` loop is over, the next one has not begun


def epoch_of(dataset, limit=None):
    """The keys of one epoch."""
    return [keys_of(item) for item in itertools.islice(iter(dataset), limit)]


def uninterrupted(name, epochs):
    """The keys of the first epochs of a pipeline that is never saved; one epoch of a pipeline without end."""
    dataset = PIPELINES[name]()
    limit = LIMITS.get(name)
    found = [epoch_of(dataset, limit) for _ in range(1 if limit else epochs)]
    dataset.close()
    return found


def save_at(name, epoch, after):
    """The state of a fresh pipeline after so many items of an epoch, as JSON text."""
    dataset = PIPELINES[name]()
    for _ in range(epoch):
        epoch_of(dataset)
    if after == ENDED:
        epoch_of(dataset)
    elif epoch or after:
        items = iter(dataset)
        for _ in range(after):
            next(items)
    text = json.dumps(dataset.state_dict())
    dataset.close()
    return text


def resume(name, text):
    """The keys of the epoch that a fresh pipeline goes on with, and of the epoch after it."""
    dataset, limit = PIPELINES[name](), LIMITS.get(name)
    dataset.load_state_dict(json.loads(text))
    found = [epoch_of(dataset, limit and limit // 2)] if limit else [epoch_of(dataset), epoch_of(dataset)]
    dataset.close()
    return found


def following(name, epochs, epoch, after):
    """What an uninterrupted run has after a stop point: the rest of the epoch, and the epoch after it."""
    if name in LIMITS:
        return [epochs[0][after : after + LIMITS[name] // 2]]
    if after == ENDED:
        return epochs[epoch + 1 : epoch + 3]
    return [epochs[epoch][after:], epochs[epoch + 1]]


def stop_points(name, epochs):
    """Before the first item, after one, in the middle, before and after the last, between epochs; in two epochs."""
    if name in LIMITS:
        return [(0, after) for after in (0, 1, LIMITS[name] // 2)]
    first, second = len(epochs[0]), len(epochs[1])
    points = [(0, 0), (0, 1), (0, first // 2), (0, first - 1), (0, first), (0, ENDED)]
    points += [(1, 1), (1, second // 2), (1, second - 1), (1, ENDED)]
    return list(dict.fromkeys(points))
