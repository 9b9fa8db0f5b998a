"""Pickles out of a shard build plain values, arrays and tensors, and nothing else, whatever they try."""

import collections
import datetime
import decimal
import io
import os
import pickle
import pickletools
import struct

import numpy as np
import pytest
import torch

from webdataset import config
from webdataset.codecs import (
    Decoder,
    PickleLoader,
    handle_extension,
    torch_dumps,
    torch_loads,
    unpickle_loads,
    unsafe_pickle,
)
from webdataset.errors import FormatError, UnsafeContent


@pytest.fixture
def switches():
    yield config.safety
    config.safety.enforce = config.safety.weights_only = config.safety.unsafe_pickle = None


class Calls:
    """Pickles as a call of any function."""

    def __init__(self, function, *args):
        self.call = function, args

    def __reduce__(self):
        return self.call


class Mine:
    def __init__(self):
        self.x = 3


PLAIN = [
    *(1, 2.5, None, True, b"x", bytearray(b"y"), "é", {1, 2}, frozenset({3}), [1, (2, 3)], {"a": {"b": 1}}, 1j),
    *(range(3), slice(1, 2), collections.OrderedDict(a=1), collections.deque([1], 3), collections.Counter("aab")),
    *(
        collections.defaultdict(list, {1: [2]}),
        datetime.date(2020, 1, 2),
        datetime.timedelta(1),
        decimal.Decimal("1.5"),
    ),
    datetime.datetime(2020, 1, 2, tzinfo=datetime.timezone(datetime.timedelta(hours=1))),
]
ARRAYS = [
    *(
        np.arange(6).reshape(2, 3),
        np.arange(3, dtype=">f4"),
        np.array(["a", "bcd"]),
        np.array([b"x"]),
        np.zeros((0, 3)),
    ),
    *(np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]), np.array(["2020-01-01"], "M8[D]"), np.array(3.0)),
    *(np.array([[1, 2], [3, 4]], order="F"), np.array([1, None, "x"], dtype=object), np.array([True])),
    np.array([(1, (2, 3))], dtype=np.dtype([("a", "i1"), ("b", "f4", (2,))], align=True)),
]


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_harmless_values_of_every_protocol_come_back(protocol):
    for value in PLAIN:
        back = unpickle_loads(pickle.dumps(value, protocol))
        assert back == value
        assert type(back) is type(value)
    for array in ARRAYS:
        back = unpickle_loads(pickle.dumps({"x": array, "again": [array]}, protocol))
        assert back["x"] is back["again"][0]
        assert back["x"].dtype == pickle.loads(pickle.dumps(array, protocol)).dtype
        assert back["x"].shape == array.shape
        assert (back["x"] == array).all()
    for scalar in (
        np.float32(1.5),
        np.int64(3),
        np.bool_(True),
        np.str_("abc"),
        np.datetime64("2020-01-01"),
        np.bytes_(b"ab"),
    ):
        back = unpickle_loads(pickle.dumps(scalar, protocol))
        assert back == scalar
        assert type(back) is type(scalar)
    for tensor in (
        torch.arange(6).reshape(2, 3),
        torch.zeros(2, dtype=torch.bfloat16),
        torch.nn.Parameter(torch.ones(2)),
    ):
        assert torch.equal(unpickle_loads(pickle.dumps([tensor], protocol))[0], tensor)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize(
    ("call", "name"),
    [
        (Calls(os.system, "echo pwned > pwned"), "posix.system"),
        (Calls(eval, "open('pwned', 'w')"), "eval"),
        (Calls(exec, "open('pwned', 'w')"), "exec"),
        (Calls(getattr, "", "upper"), "getattr"),
        (Calls(open, "pwned", "w"), "open"),
        (Calls(__import__, "os"), "__import__"),
        (Mine(), "Mine"),
        (Calls(torch.load, "pwned"), "torch"),
        (Calls(np.load, "pwned"), "numpy"),
        (Calls(np.fromfile, "pwned"), "numpy"),
    ],
)
def test_code_is_refused_by_name(call, name, protocol, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for wrapped in (call, [call], {"a": np.array([call, 1], dtype=object)}, {"t": (np.zeros(2), call)}):
        with pytest.raises(UnsafeContent, match=name) as caught:
            unpickle_loads(pickle.dumps(wrapped, protocol))
        assert "unsafe_pickle" in str(caught.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "name",
    [
        "os\nsystem",
        "posix\nsystem",
        "builtins\neval",
        "builtins\ngetattr",
        "__builtin__\neval",
        "numpy\nload",
        "numpy.core.multiarray\nfromfile",
        "numpy.testing._private.utils\nruntest",
        "collections\nnamedtuple",
        "functools\npartial",
        "operator\nattrgetter",
        "codecs\ndecode",
        "torch._utils\n_import_dotted_name",
        "numpy\nndarray.tofile",
        "builtins\nlist.append",
        "numpy.f2py.crackfortran\nmyeval",
        "types\nFunctionType",
    ],
)
@pytest.mark.parametrize("hint", [b"", b"numpy"])
def test_names_are_refused_whichever_unpickler_is_at_work(name, hint):
    text = f"c{name}\n.".encode()
    with pytest.raises(UnsafeContent):
        unpickle_loads(text if not hint else b"Vnumpy\n0" + text)
    module, attribute = name.split("\n")
    dotted = b"\x80\x04" + b"".join(b"\x8c" + bytes([len(w)]) + w.encode() for w in (module, attribute)) + b"\x93."
    with pytest.raises(UnsafeContent):
        unpickle_loads(dotted)


def test_names_hidden_behind_escapes_and_the_memo_are_refused():
    hidden = b"\x80\x04V\\u006eumpy\np0\n0Vload\np1\n0g0\ng1\n\x93."
    assert b"numpy" not in hidden
    pickletools.dis(hidden, out=io.StringIO())
    with pytest.raises(UnsafeContent, match=r"numpy\.load"):
        unpickle_loads(hidden)
    with pytest.raises(UnsafeContent, match=r"os\.system"):
        unpickle_loads(b"\x80\x04Vos\np0\n0Vsystem\np1\n0g0\ng1\n\x93Vtrue\n\x85R.")


def test_the_memo_cannot_smuggle_a_function_into_an_array():
    # An array's state with a harmless function in place of its dtype.
    with pytest.raises((UnsafeContent, FormatError)):
        unpickle_loads(
            b"cnumpy.core.multiarray\n_reconstruct\np0\n(cnumpy\nndarray\n(I0\ntS'b'\ntR(I1\n(I1\ntg0\nI00\nVxxxxxxxx\ntb."
        )


def forged(state_of_dtype, spec="V8", raw=b"A" * 8):
    """An array of one element whose dtype claims what it likes."""

    class Dtype:
        def __reduce__(self):
            return np.dtype, (spec, False, True), state_of_dtype

    class Array:
        def __reduce__(self):
            return np.zeros(1).__reduce__()[0], (np.ndarray, (0,), b"b"), (1, (1,), Dtype(), False, raw)

    return pickle.dumps(Array(), 2)


@pytest.mark.parametrize(
    "attack",
    [
        # with these, plain pickle.loads makes eight bytes of the data a pointer to an object and crashes
        forged((3, "|", None, ("a",), {"a": (np.dtype("O"), 0)}, 8, 1, 0)),
        forged((3, "|", None, None, None, -1, -1, 0), spec="O8"),
        forged((3, "|", None, ("a",), {"a": (np.dtype("f8"), 10**6)}, 8, 1, 0)),
        forged((3, "|", (np.dtype("O"), (1,)), None, None, 8, 1, 0)),
        forged((3, "|", None, ("a", "b"), {"a": (np.dtype("O"), 0), "b": (np.dtype("i8"), 0)}, 8, 1, 63), raw=[(1, 2)]),
        forged((3, "|", None, None, None, 10**9, 1, 0)),
        forged("nonsense"),
    ],
)
def test_forged_dtypes_cannot_reach_the_memory(attack):
    with pytest.raises((UnsafeContent, FormatError, ValueError, TypeError)):
        value = unpickle_loads(attack)
        repr(value)
        raise ValueError("made, but harmless")


@pytest.mark.parametrize("call", [b"((I1\ntVu1\n", b"((I1\ntS'O'\nS'AAAAAAAA'\n"])
def test_arrays_are_not_made_by_calling_their_class(call):
    with pytest.raises((UnsafeContent, TypeError)):
        unpickle_loads(b"cnumpy\nndarray\n" + call + b"tR.")


def test_functions_on_the_list_cannot_be_changed():
    for name in ("_codecs\nencode", "builtins\nbytearray", "collections\nCounter"):
        for state in (b"(Vcall\nVx\nd", b"(N(V_make\nVx\ndt"):
            with pytest.raises((UnsafeContent, AttributeError, TypeError)):
                unpickle_loads(b"c" + name.encode() + b"\n" + state + b"b.")
    assert unpickle_loads(pickle.dumps(collections.Counter("aab"), 2)) == {"a": 2, "b": 1}


def test_types_on_the_list_cannot_be_changed():
    for name in (
        "builtins\nset",
        "collections\nOrderedDict",
        "collections\ndeque",
        "datetime\ndate",
        "decimal\nDecimal",
    ):
        with pytest.raises((UnsafeContent, AttributeError, TypeError)):
            unpickle_loads(b"c" + name.encode() + b"\n(N(V__len__\nVx\ndtb.")


def test_small_pickles_cannot_ask_for_much_memory():
    for data in (
        b"cbuiltins\nbytes\n(I10000000000\ntR.",
        b"cbuiltins\nbytearray\n(I10000000000\ntR.",
        b"cbuiltins\nlist\n(cbuiltins\nrange\n(I10000000000\ntRtR.",
    ):
        with pytest.raises(UnsafeContent):
            unpickle_loads(data)


@pytest.mark.parametrize("data", [b"", b".", b"\x80\x04", b"garbage", b"\x80\x63.", b"(((", b"\x80\x04P1\n."])
def test_broken_pickles_are_errors(data):
    with pytest.raises(Exception):
        unpickle_loads(data)


def test_D18_pickled_fields_are_refused_with_key_and_shard():
    data = pickle.dumps(Mine(), 2)
    with pytest.raises(UnsafeContent) as caught:
        Decoder([])({"__key__": "0001", "__url__": "a.tar", "x.pkl": data})
    assert "field x.pkl, sample 0001, a.tar" in str(caught.value)


def test_opting_in_by_handler_by_class_and_by_switch(switches):
    data = pickle.dumps(Mine())
    assert Decoder([unsafe_pickle])({"pkl": data})["pkl"].x == 3
    assert Decoder([handle_extension("pkl", PickleLoader(Mine))])({"pkl": data})["pkl"].x == 3
    with pytest.raises(UnsafeContent):
        PickleLoader(dict)(data)
    switches.unsafe_pickle = True
    assert unpickle_loads(data).x == 3


def test_secure_mode_refuses_every_pickle_in_the_public_words(switches):
    switches.enforce = True
    message = "Unpickling is not allowed for security reasons when enforce_security is set"
    for load in (unpickle_loads, PickleLoader(Mine), lambda data: unsafe_pickle(".pkl", data)):
        with pytest.raises(ValueError, match=message):
            load(pickle.dumps(1))
    with pytest.raises(
        ValueError, match="torch.loads is not allowed for security reasons when enforce_security is set"
    ):
        torch_loads(torch_dumps(1))


def test_D18_pth_fields_run_no_code_unless_the_live_switch_says_so(switches, monkeypatch):
    data = torch_dumps(Mine())
    with pytest.raises(UnsafeContent, match="weights_only"):
        torch_loads(data)
    switches.weights_only = False
    assert torch_loads(data).x == 3
    switches.weights_only = None
    monkeypatch.setenv("WDS_PYTORCH_WEIGHTS_ONLY", "0")
    assert torch_loads(data).x == 3


def test_a_storage_inside_a_pickle_runs_no_code_either():
    evil = io.BytesIO()
    torch.save(Mine(), evil, _use_new_zipfile_serialization=False)
    data = (
        b"ctorch.storage\n_load_from_bytes\n(\x8e" + struct.pack("<Q", len(evil.getvalue())) + evil.getvalue() + b"tR."
    )
    with pytest.raises(UnsafeContent, match="makes a torch tensor in an unusual way"):
        unpickle_loads(data)
