"""npy files, against NumPy's own."""

import io

import numpy as np
import pytest

from webdataset.codecs import npy_loads, numpy_dumps
from webdataset.errors import FormatError

ARRAYS = {
    "line": np.arange(3.0),
    "fortran": np.asfortranarray(np.arange(6).reshape(2, 3)),
    "with gaps": np.arange(16).reshape(4, 4)[::2, ::2],
    "number": np.array(3),
    "nothing": np.zeros((0, 3)),
    "big-endian": np.arange(3, dtype=">i2"),
    "text": np.array(["ab", "c"]),
    "record": np.zeros(2, [("ä", "f4"), ("b", "i8", (2,))]),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_the_bytes_are_those_of_numpy(name):
    expected = io.BytesIO()
    np.save(expected, ARRAYS[name])
    for _ in range(2):  # the second time the header is known
        assert numpy_dumps(ARRAYS[name]) == expected.getvalue()
    np.testing.assert_array_equal(npy_loads(expected.getvalue()), ARRAYS[name])


@pytest.mark.filterwarnings("ignore:Stored array in format")
def test_names_beyond_latin_1_and_long_headers():
    odd = np.zeros(2, [("ŏ", "f4")])
    assert npy_loads(numpy_dumps(odd)).dtype == odd.dtype
    long = np.zeros(1, [("a" * 40 + str(number), "f4") for number in range(1500)])
    read = np.load(io.BytesIO(numpy_dumps(long)), max_header_size=10**6)
    assert read.dtype == long.dtype


DIVIDED = "<M8[s/0]"


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize(
    "descr",
    [
        DIVIDED,
        "f8,m8[2s/0]",
        "datetime64[s\\x2f0]",
        [("a", "<f8"), ("b", [("c", DIVIDED)])],
        [("a", DIVIDED, (2,))],
        (DIVIDED, (2,)),
        ("<f8", DIVIDED),
        [("a", "<f8", DIVIDED)],
    ],
)
def test_a_unit_that_is_divided_by_zero_does_not_end_the_process(descr, version):
    """NumPy itself divides, and the process gets SIGFPE."""
    header = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': (1,)}}".replace("\\\\", "\\").encode()
    size = len(header).to_bytes(2 if version == 1 else 4, "little")
    with pytest.raises(FormatError, match="divides its unit"):
        npy_loads(b"\x93NUMPY" + bytes((version, 0)) + size + header)


def test_an_array_of_python_2_on_windows():
    header = b"{'descr': '<i4', 'fortran_order': False, 'shape': (1L, 2L), }"
    data = b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little") + header + bytes(8)
    assert npy_loads(data).tolist() == [[0, 0]]
