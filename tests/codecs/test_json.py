"""orjson and the standard library must not differ."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webdataset.codecs import _json, decode_json, decode_jsonl

ODD = [
    *(b"-0", b"-0.0", b"18446744073709551615", b"18446744073709551616", b"-9223372036854775809", b"1e400", b"1e-400"),
    *(
        b'{"a":1,"a":2}',
        b'"\\ud800"',
        b"\xef\xbb\xbf1",
        b"123456789012345678901234567890e-10",
        b'{"a":NaN}',
        b"-Infinity",
    ),
    *(b"[" * 500 + b"]" * 500, " 1".encode("utf-16"), b"9007199254740993.0", b'"\\u0000"', b" \t\n\r1 ", b"1E5"),
    *(b"[1,]", b"", b"1 2", b'"\xff"', b"01", b"1.", b"'a'", b"{1:2}", b'"\x01"', b"nul", b"[" * 100_000),
]


def outcome(load, data):
    try:
        return repr(load(data))
    except RecursionError:
        return "too deep"
    except ValueError:
        return "error"


@pytest.mark.parametrize("data", ODD)
def test_odd_documents(data):
    assert outcome(decode_json, data) == outcome(json.loads, data)
    assert outcome(decode_json, bytearray(data)) == outcome(json.loads, data)


numbers = (
    st.integers() | st.integers(-(2**65), 2**65) | st.floats() | st.decimals().map(str).filter(lambda s: "N" not in s)
)


@given(st.lists(st.dictionaries(st.text(max_size=3), numbers, max_size=3), max_size=3), st.booleans())
def test_any_document(value, spaced):
    text = json.dumps(value, ensure_ascii=spaced).encode("utf-8", "surrogatepass")
    assert outcome(decode_json, text) == outcome(json.loads, text)


@given(st.binary(max_size=20) | st.text('0123456789eE+-.[]{},:" ntrufalsNI', max_size=20).map(str.encode))
def test_any_bytes(data):
    assert outcome(decode_json, data) == outcome(json.loads, data)


def test_without_orjson(monkeypatch):
    monkeypatch.setattr(_json, "find_package", lambda name: None)
    assert decode_json(b'{"a": [1, 1e400]}') == {"a": [1, math.inf]}


def test_json_lines_ignore_empty_lines():
    assert decode_jsonl(b'\n{"a": 1}\r\n\n"b\xe2\x80\xa8c"') == [{"a": 1}, "b\u2028c"]
