"""Random pickles by grammar: well-formed enough to reach every maker, wrong enough to attack it.

As a program: `pickle_grammar.py FIRST COUNT` unpickles the pickles of these seeds under limits of memory and CPU time.
It ends with status 0, or dies, and the last seed it printed is the one that killed it.
"""

import random
import resource
import signal
import struct
import sys

MEMORY = 1 << 29  # beyond what is in use at the start
CPU_SECONDS = 20  # for one pickle

NAMES = """builtins.list builtins.tuple builtins.dict builtins.set builtins.frozenset builtins.range builtins.slice
    builtins.complex builtins.bytes builtins.bytearray builtins.int builtins.float builtins.str builtins.bool
    builtins.object _codecs.encode collections.OrderedDict collections.defaultdict collections.deque
    collections.Counter copyreg._reconstructor datetime.date datetime.datetime datetime.time datetime.timedelta
    datetime.timezone decimal.Decimal numpy.ndarray numpy.dtype numpy.float32 numpy.core.multiarray._reconstruct
    numpy.core.multiarray.scalar numpy.core.numeric._frombuffer numpy._core.numeric._frombuffer torch.Size
    torch._utils._rebuild_tensor_v2 torch._utils._rebuild_parameter torch.storage._load_from_bytes""".split()
CODES = "O O8 f8 f4 i8 u1 b1 V8 V0 S0 U0 U3 S5 M8 m8 c16 f16 ? V999999999 f8,f8 (9,9)f8".split()
NUMBERS = [0, 1, 2, 3, 8, -1, 255, 512, 10**5, 10**9, 2**31, 2**61 - 1, 2**63, 10**30]


def text(value):
    raw = value.encode("utf-8", "surrogatepass")
    return b"X" + struct.pack("<I", len(raw)) + raw


def raw_bytes(value):
    return b"B" + struct.pack("<I", len(value)) + value


def number(value):
    raw = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    return b"\x8a" + bytes([len(raw)]) + raw


class Grammar:
    def __init__(self, rng):
        self.rng = rng
        self.memo = 0
        self.depth = 0

    def pickle(self):
        data = b"\x80\x05" + self.value() + b"."
        for _ in range(self.rng.choice([0, 0, 0, 1, 3])):
            at = self.rng.randrange(len(data))
            damage = self.rng.choice(
                [bytes([self.rng.randrange(256)]), b"", data[at : at + 5] * 2, b"2", b"0", b"R", b"b"]
            )
            data = data[:at] + damage + data[at + 1 :]
        return data

    def value(self):
        self.depth += 1
        simple = [self.small, self.text, self.bytes, self.recall]
        deep = [self.items, self.mapping, self.call, self.array, self.scalar, self.dtype, self.tensor, self.bomb]
        made = self.rng.choice(simple if self.depth > 5 else simple + 2 * deep)()
        self.depth -= 1
        if self.rng.random() < 0.3:
            self.memo += 1
            made += self.rng.choice([b"\x94", b"q" + bytes([self.rng.randrange(8)])])
        return made

    def values(self, most=4):
        return b"".join(self.value() for _ in range(self.rng.randrange(most)))

    def small(self):
        return self.rng.choice(
            [b"N", b"\x88", b"G" + struct.pack(">d", self.rng.random()), number(self.rng.choice(NUMBERS))]
        )

    def text(self):
        return text(self.rng.choice(["latin1", "C", "F", "", "é", "a" * 300, "1e99999999", *CODES]))

    def bytes(self):
        size = self.rng.choice([0, 1, 4, 6, 8, 10, 16, 64, 800])
        kind = raw_bytes if self.rng.random() < 0.8 else lambda v: b"\x96" + struct.pack("<Q", len(v)) + v
        return kind(self.rng.randbytes(size))

    def recall(self):
        return b"h" + bytes([self.rng.randrange(max(self.memo, 1))]) if self.memo else b"N"

    def items(self):
        return b"(" + self.values() + self.rng.choice([b"t", b"l", b"\x91", b"d"])

    def mapping(self):
        return (
            b"}(" + self.value() + self.value() + b"u"
            if self.rng.random() < 0.7
            else b"\x8f(" + self.values() + b"\x90"
        )

    def name(self):
        module, _, name = self.rng.choice(NAMES).rpartition(".")
        return f"c{module}\n{name}\n".encode()

    def call(self):
        made = self.name() + b"(" + self.values() + b"t" + self.rng.choice([b"R", b"R", b"R", b"\x81"])
        return made + (self.value() + b"b" if self.rng.random() < 0.2 else b"")

    def shape(self):
        return b"(" + b"".join(number(self.rng.choice(NUMBERS[:6])) for _ in range(self.rng.randrange(3))) + b"t"

    def dtype(self):
        made = b"cnumpy\ndtype\n" + text(self.rng.choice(CODES)) + b"\x89\x88\x87R"
        plain = number(3) + text(self.rng.choice("|<>")) + b"NNN" + number(-1) + number(-1) + number(0)
        kind = self.rng.random()
        if kind < 0.6 or self.depth > 5:
            return made + b"(" + plain + b"tb"
        inner = self.dtype_or_value()
        if kind < 0.8:
            return (
                made
                + b"("
                + number(3)
                + text("|")
                + inner
                + self.shape()
                + b"\x86NN"
                + number(8)
                + number(1)
                + number(0)
                + b"tb"
            )
        fields = b"}(" + text("a") + inner + number(self.rng.choice(NUMBERS)) + b"\x86u"
        return (
            made
            + b"("
            + number(3)
            + text("|")
            + b"N"
            + text("a")
            + b"\x85"
            + fields
            + number(8)
            + number(1)
            + number(63)
            + b"tb"
        )

    def dtype_or_value(self):
        self.depth += 1
        made = self.dtype() if self.rng.random() < 0.8 else self.value()
        self.depth -= 1
        return made

    def array(self):
        if self.rng.random() < 0.3:
            return (
                b"cnumpy._core.numeric\n_frombuffer\n("
                + self.value()
                + self.dtype_or_value()
                + self.shape()
                + text("C")
                + b"tR"
            )
        made = (
            b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\n"
            + number(0)
            + b"\x85"
            + raw_bytes(b"b")
            + b"\x87R"
        )
        raw = self.rng.choice([self.bytes, self.items, self.value])()
        return made + b"(" + number(1) + self.shape() + self.dtype_or_value() + b"\x89" + raw + b"tb"

    def scalar(self):
        return b"cnumpy.core.multiarray\nscalar\n" + self.dtype_or_value() + self.bytes() + b"\x86R"

    def tensor(self):
        return (
            b"ctorch._utils\n_rebuild_tensor_v2\n("
            + self.value()
            + number(0)
            + self.shape()
            + self.shape()
            + b"\x89}tR"
        )

    def bomb(self):
        """What costs more than it is long."""
        count = self.rng.choice([3, 50, 2000])
        return self.rng.choice(
            [
                b")" + b"2\x86" * count + b"}" + b"\x94h\x00N" + b"N" * 0,
                b"}(" + b")" + b"2\x86" * count + b"Nu",
                b"}(" + b")" + b"\x85" * 50 * count + b"Nu",
                b"\x8f" * count,
                b"(" * count + b"t" * count,
                b"N\x94" * count,
                b"Nr\xff\xff\xff\x7f",
                b"}(" + b"".join(number(n * (2**61 - 1)) + b"N" for n in range(count)) + b"u",
                raw_bytes(bytes(1000)) + b"q\x070" + b"cbuiltins\nbytearray\nh\x07\x85R" * count,
                b"cbuiltins\nlist\ncbuiltins\nrange\n" + number(10**6) + b"\x85R\x85R",
                b"cbuiltins\nint\ncdecimal\nDecimal\n" + text("1e99999999") + b"\x85R\x85R",
            ]
        )


def touch(value):
    """Look at everything that was built, each object once."""
    import numpy as np

    seen, rest = set(), [value]
    while rest:
        each = rest.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, np.ndarray):
            (
                str(each.dtype),
                each.copy(),
                each.tobytes() if not each.dtype.hasobject else rest.extend(each.ravel().tolist()),
            )
        elif isinstance(each, np.dtype):
            str(each)
        elif isinstance(each, dict):
            rest += [*each, *each.values()]
        elif isinstance(each, list | tuple | set | frozenset):
            rest += each


def main(first, count):
    import torch  # noqa: F401 - before the memory is limited

    from webdataset.codecs import unpickle_loads

    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    built = 0
    for seed in range(first, first + count):
        print(seed, end="\r")
        data = Grammar(random.Random(seed)).pickle()
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)  # SIGPROF ends the process, even inside of C code
        try:
            touch(unpickle_loads(data))
            built += 1
        except MemoryError:
            raise SystemExit(f"seed {seed} filled the memory")
        except Exception:
            pass
    print(f"\n{built} built")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
