"""A checkpoint that was damaged, or never was one, is refused with a typed error that says what is wrong."""

import copy
import json
from contextlib import closing
from itertools import islice

import pytest
from tests.pipeline.indexed import write_shards

import webdataset as wds
from webdataset.errors import StateError, WebDatasetError


def damaged(state):
    """The state with each of its parts, at every depth, left out or replaced by something else."""

    def places(value, path=()):
        if isinstance(value, (dict, list)):
            for key in value if isinstance(value, dict) else range(len(value)):
                yield (*path, key)
                yield from places(value[key], (*path, key))

    for path in list(places(state)):
        for other in ({}, [], None, "x", -1, 2**70):
            changed = copy.deepcopy(state)
            inside = changed
            for key in path[:-1]:
                inside = inside[key]
            inside[path[-1]] = other
            yield path, other, changed


def stream(urls):
    return wds.WebDataset(urls, index=False, shardshuffle=False)


@pytest.mark.parametrize("make", [
    lambda urls: wds.WebDataset(urls).batched(3, collation_fn=None),
    lambda urls: wds.WebDataset(urls, index=False, shardshuffle=False).shuffle(5).batched(3, collation_fn=None),
    lambda urls: wds.RoundRobin([stream(urls), stream(urls)], longest=True),
    lambda urls: wds.RandomMix([stream(urls), stream(urls)], probs=[1, 2], longest=True),
    lambda urls: wds.mix([(stream(urls), 1), (stream(urls), 2)], exhausted="drop"),
    lambda urls: wds.WebLoader(wds.WebDataset(urls), num_workers=1, workers="threads", batch_size=None),
    lambda urls: wds.WebLoader(wds.WebDataset(urls), num_workers=0, batch_size=None),
    lambda urls: wds.WebLoader(wds.WebDataset(urls, index=False, shardshuffle=False), num_workers=0, batch_size=None),
])  # fmt: skip
def test_a_damaged_checkpoint_is_a_state_error_or_harmless(tmp_path, make):
    urls = write_shards(tmp_path, [7, 1, 9])
    dataset = make(urls)
    items = iter(dataset)
    next(items), next(items)
    saved = json.loads(json.dumps(dataset.state_dict()))
    items.close()
    for path, other, state in damaged(saved):
        again = make(urls)
        try:
            again.load_state_dict(state)
            with closing(iter(again)) as left:
                list(islice(left, 4))
        except WebDatasetError:
            pass
        except Exception as error:
            pytest.fail(f"{path} = {other!r}: {error!r}")
        finally:
            again.close()
    dataset.close()


@pytest.mark.parametrize("wrong", [None, [], {}, {"at": None}, {"version": 1, "seed": 0, "stages": [], "at": {}}])
def test_what_is_no_checkpoint(wrong, tmp_path):
    urls = write_shards(tmp_path, [3])
    for dataset in (wds.WebDataset(urls), wds.WebLoader(wds.WebDataset(urls), num_workers=0, batch_size=None)):
        with pytest.raises(StateError, match="checkpoint|state"):
            dataset.load_state_dict(wrong)
