"""CBOR that cbor2 writes is read as cbor2 reads it; what can be made to take long is refused and the remedy named."""

import io
import re
from decimal import Decimal
from fractions import Fraction

import cbor2
import pytest

import webdataset as wds
from webdataset.codecs import cbor_loads, read_cbor_item
from webdataset.errors import FormatError, UnsafeContent

HONEST = [
    {"a": [1, {"b": b"raw"}], b"c": None},
    {1: {-(2**64): [{2: 0.5}]}, 1.5: True, None: 1, False: 2},
    {"sets": [{1, 2}, {"a"}, frozenset({b"x"})]},
    {1: [Decimal("1.50"), Decimal("-1e-30"), Fraction(1, 3), 2**70]},
    [{"name": "a name that is long", "again": "a name that is long", 3: b"x" * 300}] * 2,
]
MODES = ["canonical", "value_sharing", "string_referencing", "indefinite_containers"]
COSTLY = [
    {(1, 2): 3},
    {2**70: 1},
    {Decimal(1): 2},
    {1: re.compile("a")},
    [Fraction(2**20000 + 1, 3)],
    {frozenset({1}): 1},
]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("value", HONEST, ids=range(len(HONEST)))
def test_what_cbor2_writes_is_read_as_cbor2_reads_it(value, mode):
    data = cbor2.dumps(value, **{mode: True})
    assert repr(cbor_loads(data)) == repr(cbor2.loads(data))
    assert read_cbor_item(io.BytesIO(data + b"next").read) == data


@pytest.mark.parametrize("value", COSTLY, ids=range(len(COSTLY)))
def test_what_may_be_costly_is_refused_in_fields_and_shards(value, tmp_path):
    with pytest.raises(UnsafeContent, match="handle_extension"):
        cbor_loads(cbor2.dumps(value))
    (tmp_path / "a.cbors").write_bytes(cbor2.dumps({"__key__": "a", "x": value}))
    dataset = wds.DataPipeline(wds.SimpleShardList(str(tmp_path / "a.cbors")), wds.cbors_to_samples())
    with pytest.raises(UnsafeContent, match="handle_extension"):
        list(dataset)


@pytest.mark.parametrize("data", [b"", b"\xa1\x01", b"\xa1\x01\x5a\0\0\0\7", b"\x9f\x01"])
def test_an_item_that_is_cut(data):
    with pytest.raises(EOFError, match="in the middle of an item"):
        cbor_loads(data)


def test_items_that_are_not_known():
    with pytest.raises(FormatError, match="unknown item 0x1c"):
        cbor_loads(b"\x1c")
