"""What can be sent comes as it was; what cannot is refused; garbage is an error, never code."""

import datetime
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import webdataset as wds
from tests.serve.pipelines import plain
from webdataset.serve import WireOptions, decode_item, encode_item

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(max_size=20),
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
TYPES = ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?", "c8", "S3", "U5", "M8[s]"]


@settings(max_examples=25)
@given(PLAIN)
def test_plain_values(value):
    assert decode_item(*encode_item(value)) == value


@pytest.mark.parametrize("zstd", [0, 3])
def test_arrays(zstd):
    options = WireOptions(zstd=zstd)
    for dtype, shape in itertools.product(TYPES, [(), (0,), (3,), (2, 0, 3), (40, 30)]):
        array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype("i8").astype(dtype)
        tree, frames = encode_item([array], options)
        (found,) = decode_item(tree, [bytearray(frame) for frame in frames], options)
        assert plain(found) == plain(array)
        assert found.flags.writeable


def test_memory_is_shared_where_that_is_possible():
    array = np.arange(100_000)
    tree, frames = encode_item(array)
    assert np.shares_memory(np.frombuffer(frames[1], "u1"), array)
    received = [bytearray(frame) for frame in frames]
    assert np.shares_memory(decode_item(tree, received), np.frombuffer(received[1], "u1"))


def test_tensors_and_scalars():
    torch = pytest.importorskip("torch")
    item = {"bfloat": torch.arange(3).to(torch.bfloat16), "int": torch.arange(4), "scalar": np.float32(1.5)}
    tree, frames = encode_item(item)
    found = decode_item(tree, [bytearray(frame) for frame in frames])
    assert found["bfloat"].dtype == torch.bfloat16
    assert torch.equal(found["bfloat"], item["bfloat"])
    assert torch.equal(found["int"], item["int"])
    assert type(found["scalar"]) is np.float32


def test_ragged_fields_and_text():
    item = {
        "boxes": [np.zeros((n, 4), "f4") for n in range(3)],
        "text": ["a", "äöü"],
        "a long name of a field": b"x" * 9999,
    }
    assert plain(decode_item(*encode_item(item))) == plain(item)


@pytest.mark.parametrize(
    "value",
    [object(), {1, 2}, datetime.date(2020, 1, 1), np.array([object()]), lambda: 0, {(1, 2): 3}, np.zeros(2, "i4,f4")],
)
def test_what_cannot_be_sent(value):
    with pytest.raises(wds.EncodingError, match="cannot be sent"):
        encode_item({"a": value})


def test_items_are_not_nested_without_end():
    value = []
    for _ in range(40):
        value = [value]
    with pytest.raises(wds.EncodingError, match="nested"):
        encode_item(value)


TREES = st.recursive(
    st.none() | st.integers() | st.text(max_size=3) | st.binary(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(
            st.sampled_from(
                ["list", "tuple", "dict", "bytes", "array", "tensor", "scalar", "raw", "half", "int", "pickle"]
            ),
            inner,
        ).map(list)
    ),
    max_leaves=12,
)


@given(TREES, st.lists(st.binary(max_size=48), max_size=3), st.sampled_from([0, 1]))
def test_garbage_is_an_error(tree, frames, zstd):
    try:
        decode_item(tree, frames, WireOptions(zstd=zstd))
    except wds.FormatError:
        pass
