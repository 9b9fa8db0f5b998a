"""No pickle, `.pth` or CBOR kills the process, hangs it or fills its memory. Each attack runs in a child with limits."""

import collections
import io
import itertools
import os
import pickle
import pickletools
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from webdataset.codecs import cbor_loads, torch_loads, unpickle_loads
from webdataset.errors import FormatError, UnsafeContent, WebDatasetError

GRAMMAR = Path(__file__).with_name("pickle_grammar.py")
LIMIT = 10_000_000
MEMORY = 1 << 29
CPU_SECONDS = 30
BUILT, REFUSED, FAILED = 0, 3, 4


def number(value):
    raw = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    return b"\x8a" + bytes([len(raw)]) + raw


def text(value):
    return b"X" + struct.pack("<I", len(value)) + value.encode()


DTYPE_O = (
    b"cnumpy\ndtype\n"
    + text("O8")
    + b"\x89\x88\x87R("
    + number(3)
    + text("|")
    + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK?tb"
)
ARRAY = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85C\x01b\x87R"
DTYPE_U1 = (
    b"cnumpy\ndtype\n"
    + text("u1")
    + b"\x89\x88\x87R("
    + number(3)
    + text("|")
    + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
)
DTYPE_U0 = DTYPE_U1.replace(text("u1"), text("U0"))
# The same again and again, as few bytes from the memo.
SHORT_ARRAY = (
    b"cnumpy.core.multiarray\n_reconstruct\nq\x010cnumpy\nndarray\nq\x020K\x00\x85q\x030C\x01bq\x040"
    + DTYPE_O
    + b"q\x050K\x01\x85q\x060"
)
OBJECTS = ARRAY + b"(K\x01K\x02\x85" + DTYPE_O + b"\x89](K\x01K\x02etb"
MEGABYTE = b"B" + struct.pack("<I", 1 << 20) + bytes(1 << 20)

ATTACKS = {
    "a view of an object array's memory": b"cnumpy.core.numeric\n_frombuffer\n("
    + OBJECTS
    + DTYPE_U1
    + b"K\x10\x85"
    + text("C")
    + b"tR.",
    "a bytearray over an object array": b"cbuiltins\nbytearray\n" + OBJECTS + b"\x85R.",
    "more places than objects": ARRAY + b"(K\x01" + number(1000) + b"\x85" + DTYPE_O + b"\x89](K\x01etb.",
    "more objects than places": ARRAY + b"(K\x01K\x01\x85" + DTYPE_O + b"\x89](K\x01K\x02etb.",
    "an array that contains itself": ARRAY + b"\x94(K\x01K\x01\x85" + DTYPE_O + b"\x89](h\x00etb.",
    "an array that is never finished": ARRAY + b".",
    "an array used before it is finished": ARRAY + b"2\x86.",
    "an endless empty array": ARRAY + b"(K\x01" + number(10**18) + b"K\x00\x86" + DTYPE_U1 + b"\x89C\x00tb.",
    "an integer of 100 million digits": b"cbuiltins\nint\ncdecimal\nDecimal\n" + text("1e99999999") + b"\x85R\x85R.",
    "lists of a million": b"(" + b"cbuiltins\nlist\ncbuiltins\nrange\n" * 1 + number(10**6) + b"\x85R\x85R" + b"l.",
    "many copies of a megabyte": MEGABYTE + b"\x94" + b"cbuiltins\nbytearray\nh\x00\x85R" * 1000 + b".",
    "many arrays of a megabyte": MEGABYTE
    + b"\x940"
    + (ARRAY + b"(K\x01" + number(1 << 20) + b"\x85" + DTYPE_U1 + b"\x89h\x00tb") * 1000
    + b".",
    "a key of nested pairs": b"})" + b"2\x86" * 100 + b"Ns.",
    "a set of nested pairs": b"\x8f()" + b"2\x86" * 100 + b"\x90.",
    "a frozenset of nested pairs": b"()" + b"2\x86" * 100 + b"\x91.",
    "a key of a million nested tuples": b"})" + b"\x85" * 10**6 + b"Ns.",
    "keys with one hash": b"}(" + b"".join(number(n * (2**61 - 1)) + b"N" for n in range(1, 10**5)) + b"u.",
    "a large key used often": b"\x8b"
    + struct.pack("<i", 1 << 20)
    + b"\x01" * (1 << 20)
    + b"\x940"
    + b"}h\x00Ns0" * 10**5
    + b"N.",
    "a huge number in the memo": b"Nr\xff\xff\xff\xff.",
    "a flood of sets": b"\x8f" * 10**6 + b".",
    "a flood of marks": b"(" * 10**6 + b".",
    "a flood of memo entries": b"N" + b"\x94" * 10**7 + b".",
    "a call of nested pairs": b")" + b"2\x86" * 100 + b")R.",
    "a claim of 4 GB of text": b"X\xff\xff\xff\xff.",
    "a claim of 2**63 bytes": b"\x8e" + b"\xff" * 7 + b"\x7f.",
    "a counter of pairs with a value of nested pairs": b"ccollections\nCounter\n](K\x01)"
    + b"2\x86" * 100
    + b"\x86e\x85R.",
    "deep defaultdicts": b"ccollections\ndefaultdict\n)RN" * 200_000 + b"N" + b"s" * 200_000 + b".",
    "deep defaultdicts that are filled from outside": b"ccollections\ndefaultdict\nq\x00)Rq\x01"
    + b"Nh\x00)Rq\x02s0h\x02" * 200_000
    + b"0h\x01.",
    "deep deques": b"ccollections\ndeque\n)R" * 200_000 + b"N" + b"a" * 200_000 + b".",
    "deep deques in their arguments": b"ccollections\ndeque\n" * 200_000 + b"]" + b"\x85R\x85" * 200_000 + b".",
    "deep arrays": SHORT_ARRAY
    + b"h\x01h\x02h\x03h\x04\x87R(K\x01h\x06h\x05\x89]" * 10_000
    + b"N"
    + b"atb" * 10_000
    + b".",
    "a flood of deques": b"ccollections\ndeque\nq\x000" + b"h\x00)R" * 10**6 + b".",
    "a flood of defaultdicts": b"ccollections\ndefaultdict\nq\x000" + b"h\x00)R" * 10**6 + b".",
    "texts without characters": ARRAY + b"(K\x01" + number(LIMIT - 1) + b"\x85" + DTYPE_U0 + b"\x89C\x00tb.",
    "a tensor larger than its storage": None,
    "a dtype of endless fields": None,
}


def tensor_without_storage():
    import torch

    (_, (storage, *rest)) = torch.zeros(2).__reduce_ex__(2)[:2]
    data = pickle.dumps(storage, 2)[2:-1]
    return (
        b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n("
        + data
        + number(0)
        + number(10**9)
        + b"\x85"
        + number(1)
        + b"\x85\x89}tR."
    )


def storage(described):
    """A pickled storage whose file has this in place of the description of the storage."""
    from torch.serialization import MAGIC_NUMBER, PROTOCOL_VERSION

    head = b"".join(pickle.dumps(value, 2) for value in (MAGIC_NUMBER, PROTOCOL_VERSION, {}))
    data = head + described + pickle.dumps(["0"], 2) + (1).to_bytes(8, "little") + bytes(4)
    return b"ctorch.storage\n_load_from_bytes\nB" + struct.pack("<I", len(data)) + data + b"\x85R."


def described(kind=b"ctorch\nFloatStorage\n", count=1):
    return b"(" + text("storage") + kind + text("0") + text("cpu") + number(count) + b"NtQ."


def nested_dtype():
    """Each dtype has two fields of the one before, at the same place."""
    made = DTYPE_U1
    state = lambda: (
        b"("
        + number(3)
        + text("|")
        + b"NX\x01\x00\x00\x00aX\x01\x00\x00\x00b\x86}(X\x01\x00\x00\x00ah\x00K\x00\x86X\x01\x00\x00\x00bh\x00K\x00\x86uK\x01K\x01K\x10tb"
    )
    return (
        made + b"q\x000" + (b"cnumpy\ndtype\n" + text("V1") + b"\x89\x88\x87R" + state() + b"q\x000") * 60 + b"h\x00."
    )


ATTACKS |= {
    "a storage with keys of one hash": lambda: storage(ATTACKS["keys with one hash"]),
    "a storage that calls": lambda: storage(b"c__builtin__\nbytearray\n" + number(10**9) + b"\x85R."),
    "a storage of more than it has": lambda: storage(described(count=10**9)),
    "a storage of fewer than none": lambda: storage(described(count=-1)),
    "a storage of no kind": lambda: storage(described(b"N")),
    "a storage of another kind": lambda: storage(described(b"ctorch\nSize\n")),
    "a storage in place of the description": lambda: storage(b"N."),
}
ATTACKS["a tensor larger than its storage"] = tensor_without_storage
ATTACKS["a dtype of endless fields"] = nested_dtype


def archive(described):
    """A `.pth` field with this pickle and one storage of four bytes."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as made:
        made.writestr("a/version", "3\n")
        made.writestr("a/data.pkl", described)
        made.writestr("a/data/0", bytes(4))
    return stream.getvalue()


def persistent(count, kind=b"ctorch\nFloatStorage\n", key="0"):
    return b"(" + text("storage") + kind + text(key) + text("cpu") + number(count) + b"tQ"


TENSOR = b"ctorch._utils\n_rebuild_tensor_v2\nq\x000(" + persistent(1) + b"K\x00K\x01\x85K\x01\x85\x89}tq\x010"
TENSORS = {
    "a storage of more than it has": persistent(10**9) + b".",
    "a storage of fewer than none": persistent(-1) + b".",
    "a storage that is not in the archive": persistent(1, key="1") + b".",
    "a storage of no kind": persistent(1, b"N") + b".",
    "a bytearray of a number": b"c__builtin__\nbytearray\n" + number(10**9) + b"\x85R.",
    "a tensor made by its class": b"ctorch\nFloatTensor\n" + number(10**9) + b"\x85R.",
    "a tensor of another type that is larger than its storage": b"ctorch._utils\n_rebuild_tensor_v3\n("
    + persistent(1)
    + b"K\x00K\x01\x85K\x01\x85\x89}ctorch\nfloat64\ntR.",
    "a flood of tensors": TENSOR + b"h\x00h\x01R" * 10**6 + b".",
    "a flood of sizes": b"(" + b"K\x00" * 10**5 + b"tq\x000ctorch\nSize\nq\x010" + b"h\x01h\x00\x85R" * 10**5 + b".",
    "a flood of devices": b"ctorch\ndevice\nq\x000" + text("cpu") + b"\x85q\x010" + b"h\x00h\x01R" * 10**6 + b".",
    "a flood of empty storages": persistent(0)[:-1] + b"q\x000" + b"h\x00Q" * 10**6 + b".",
    "tensors inside the attributes of tensors": TENSOR
    + b"ctorch._tensor\n_rebuild_from_type_v2\nq\x02h\x00ctorch\nTensor\nh\x01}"
    + text("a")
    + b"h\x00h\x01Rs\x86\x86R.",
    "a type made by another function": b"ctorch._tensor\n_rebuild_from_type_v2\n(c__builtin__\nbytearray\n"
    + b"ctorch\nTensor\n"
    + number(10**9)
    + b"\x85}tR.",
}
PTH_ATTACKS = {
    f"{name}, in an archive": lambda attack=attack: archive(built(attack)) for name, attack in ATTACKS.items()
}
PTH_ATTACKS |= {f"{name}, in a .pth": archive(attack) for name, attack in TENSORS.items()}
PTH_ATTACKS |= {f"{name}, in an old .pth": lambda attack=attack: old_file(attack) for name, attack in TENSORS.items()}


def old_file(described):
    from torch.serialization import MAGIC_NUMBER, PROTOCOL_VERSION

    head = b"".join(pickle.dumps(value, 2) for value in (MAGIC_NUMBER, PROTOCOL_VERSION, {}))
    return head + described + pickle.dumps(["0"], 2) + (1).to_bytes(8, "little") + bytes(4)


def cbor_head(kind, size):
    return bytes([kind << 5 | 27]) + size.to_bytes(8, "big")


def cbor_map(keys):
    return cbor_head(5, len(keys)) + b"".join(key + b"\0" for key in keys)


COLLIDING = [b"\xc2\x50" + (n * (2**61 - 1)).to_bytes(16, "big") for n in range(10, 10**5)]
CBOR_ATTACKS = {
    "CBOR keys of one hash": cbor_map(COLLIDING),
    "CBOR keys of one hash inside of a map of numbers": b"\xa1\x01" + cbor_map(COLLIDING),
    "a CBOR set of one hash": b"\xd9\x01\x02" + cbor_head(4, len(COLLIDING)) + b"".join(COLLIDING),
    "a CBOR set that is named elsewhere": b"\x82\xd8\x1c"
    + cbor_head(4, len(COLLIDING))
    + b"".join(COLLIDING)
    + b"\xd9\x01\x02\xd8\x1d\x00",
    "CBOR keys of tuples of one hash": cbor_map(
        [b"\x90" + bytes(key) for key in itertools.product((0x20, 0x21), repeat=16)]
    ),
    "CBOR keys of decimals": cbor_map([b"\xc4\x82\0" + key for key in COLLIDING]),
    "CBOR keys of fractions": cbor_map([b"\xd8\x1e\x82" + key + b"\1" for key in COLLIDING]),
    "CBOR keys of unknown tags": cbor_map([b"\xd9\x10\0" + key for key in COLLIDING]),
    "a CBOR decimal of a million digits": b"\xc4\x82\x01\xc2" + cbor_head(2, 400_000) + b"\xff" * 400_000,
    "a CBOR fraction of a million digits": b"\xd8\x1e\x82"
    + b"".join(b"\xc2" + cbor_head(2, 400_000) + os.urandom(400_000) for _ in range(2)),
    "a CBOR big float": b"\xc5\x82\x01\xc2" + cbor_head(2, 400_000) + b"\xff" * 400_000,
    "a CBOR regular expression": b"\xd8\x23" + cbor_head(3, 7 * 10**6) + b"(?:a|b)" * 10**6,
    "a CBOR message": b"\xd8\x24" + cbor_head(3, 4 * 10**6) + b"a:b\n" * 10**6,
    "deep CBOR": b"\x81" * 10**7 + b"\0",
    "deep CBOR tags": b"\xd9\x10\0" * 10**6 + b"\0",
    "a CBOR text that claims to be long": b"\xa1\x01" + cbor_head(3, 2**62),
}
TABLES = ((unpickle_loads, ATTACKS), (torch_loads, PTH_ATTACKS), (cbor_loads, CBOR_ATTACKS))


def built(attack):
    return attack() if callable(attack) else attack


def run(*arguments, **options):
    here = Path(__file__).parents[2]
    environment = os.environ | {"WDS_DECOMPRESS_LIMIT": str(LIMIT), "PYTHONPATH": str(here / "src")}
    return subprocess.run([sys.executable, *arguments], capture_output=True, env=environment, **options)


def attack_all():
    """In the child: one fork for each attack, under limits; prints what became of it."""
    import resource
    import signal

    import torch  # noqa: F401 - before the memory is limited

    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    import cbor2  # noqa: F401

    for load, name, attack in [(load, *each) for load, attacks in TABLES for each in attacks.items()]:
        data = built(attack)
        if (pid := os.fork()) == 0:
            resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)  # ends the process, even inside of C code
            try:
                load(data)
            except (WebDatasetError, ValueError, TypeError, EOFError):
                os._exit(REFUSED)
            except BaseException:
                os._exit(FAILED)
            os._exit(BUILT)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), name)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc to know how much memory is in use")
def test_every_attack_is_refused_within_the_limits():
    done = run(__file__, check=True, text=True)
    results = {name: int(status) for status, name in (line.split(" ", 1) for line in done.stdout.splitlines())}
    expected = {name: REFUSED for _, attacks in TABLES for name in attacks}
    expected |= {name: BUILT for name in expected if name.startswith("a huge number in the memo")}
    assert results == expected, done.stderr[-500:]


def fuzz(first, count):
    done = run(GRAMMAR, str(first), str(count))
    assert done.returncode == 0, (done.returncode, done.stdout[-20:], done.stderr[-500:])
    built = int(done.stdout.split()[-2])
    assert built > count // 20, "the grammar reaches too little"


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc to know how much memory is in use")
def test_random_pickles_neither_kill_nor_hang_nor_fill():
    fuzz(0, 2000)


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("first", range(1_000_000, 2_000_000, 100_000))
def test_a_million_random_pickles_neither_kill_nor_hang_nor_fill(first):
    fuzz(first, 100_000)


def test_the_limit_is_named(monkeypatch):
    monkeypatch.setenv("WDS_DECOMPRESS_LIMIT", "1e6")
    with pytest.raises(FormatError, match=r"builds more than .* bytes – raise WDS_DECOMPRESS_LIMIT"):
        unpickle_loads(ATTACKS["a flood of sets"][-50_000:])


def test_honest_pickles_of_any_size_pass_a_small_limit(monkeypatch):
    monkeypatch.setenv("WDS_DECOMPRESS_LIMIT", "1000")
    value = {"x": np.zeros(100_000), "again": "word"}
    assert unpickle_loads(pickle.dumps(value))["x"].shape == (100_000,)


def test_honest_keys_of_every_kind_pass():
    many = {(number, str(number)): number for number in range(3000)}
    assert unpickle_loads(pickle.dumps(many)) == many
    dicts = [{(0, 1): n, 2.5: n, None: n} for n in range(3000)]
    assert unpickle_loads(pickle.dumps(dicts)) == dicts


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("kind", [set, frozenset, dict.fromkeys, collections.Counter, collections.OrderedDict.fromkeys])
def test_honest_keys_that_many_containers_share_pass(kind, protocol):
    many = [kind([(number % 2, 1), 0.5]) for number in range(1000)]
    for data in (pickle.dumps(many, protocol), pickletools.optimize(pickle.dumps(many, protocol))):
        assert unpickle_loads(data) == many


def test_honest_containers_inside_each_other_pass():
    deep = collections.deque([1])
    for _ in range(20):
        deep = collections.defaultdict(list, {"a": collections.deque([deep]), "b": [1]})
    assert unpickle_loads(pickle.dumps(deep)) == deep
    rows = np.array([np.array(["a", "b"], object), np.array([None, 3, 4], object)], object)
    assert [row.tolist() for row in unpickle_loads(pickle.dumps(rows))] == [row.tolist() for row in rows]


def test_arrays_can_be_written_to_and_own_their_memory():
    array = unpickle_loads(pickle.dumps(np.arange(5), 4))
    array[0] = 7
    assert array.tolist() == [7, 1, 2, 3, 4]
    objects = np.empty((2, 2), object, order="F")
    objects[0, 1], objects[1, 0] = [1, 2], {"a": 3}
    back = unpickle_loads(pickle.dumps(objects))
    assert back.tolist() == objects.tolist()
    assert back.flags.f_contiguous


def test_forged_dates_are_refused():
    for name, state in [
        ("date", b"\x07\xe4\x02\x63"),
        ("datetime", b"\x07\xe4\x02\x01\xff\0\0\0\0\0"),
        ("time", b"\x7f\0\0\0\0\0"),
    ]:
        with pytest.raises((UnsafeContent, ValueError)):
            unpickle_loads(b"cdatetime\n" + name.encode() + b"\nC" + bytes([len(state)]) + state + b"\x85R.")


if __name__ == "__main__":
    attack_all()
