"""Without the optional packages the core works, and what does not says which extra is missing."""

import subprocess
import sys
import textwrap

import pytest

BLOCKED = "PIL torch cv2 simplejpeg av soundfile safetensors backports.zstd compression.zstd msgpack cbor2 orjson"

SCRIPT = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name in BLOCKED or name.split(".")[0] in BLOCKED:
            raise ImportError(f"no {name} here")
sys.meta_path.insert(0, Block())
BLOCKED = set(%r.split())
import numpy as np
from webdataset.codecs import *
from webdataset.errors import MissingDependency

values = {"txt": "a", "cls": 3, "json": {"a": [1]}, "jsonl": [1, 2], "pkl": [1, (2,)], "txt.gz": "packed"}
for field, value in values.items():
    assert decode_field(field, encode_field(field, value)) == value, field
for field in ("npy", "pkl"):
    assert (decode_field(field, encode_field(field, np.arange(3))) == np.arange(3)).all()
assert decode_field("ten", encode_field("ten", np.arange(3)))[0].tolist() == [0, 1, 2]
assert decode_field("npz", encode_field("npz", {"x": np.arange(3)}))["x"].tolist() == [0, 1, 2]
Decoder(["rgb8", "torchrgb", "audio", "video", torch_audio, torch_video])

def missing(extra, call):
    try:
        call()
    except MissingDependency as error:
        assert error.extra == extra, (extra, error.extra)
        assert f"pip install 'webdataset[{extra}]'" in str(error)
    else:
        raise AssertionError(extra)

missing("images", lambda: decode_field("jpg", b"\\xff\\xd8\\xff", "rgb8"))
missing("images", lambda: encode_field("png", np.zeros((2, 2), "u1")))
missing("torch", lambda: decode_field("pth", b""))
missing("torch", lambda: encode_field("pth", 1))
missing("audio", lambda: decode_field("wav", b"", "audio"))
missing("audio", lambda: encode_field("wav", (np.zeros(3), 8000)))
missing("video", lambda: decode_field("mp4", b"", "video"))
missing("video", lambda: encode_field("mp4", np.zeros((2, 8, 8, 3), "u1")))
missing("formats", lambda: decode_field("msgpack", b""))
missing("formats", lambda: decode_field("cbor", b""))
missing("formats", lambda: encode_field("safetensors", {"a": np.zeros(2)}))
missing("compression", lambda: decode_field("txt.zst", b"xx"))
missing("compression", lambda: encode_field("txt.zst", "a"))
assert not BLOCKED & {name.split(".")[0] for name in sys.modules}
print("fine")
"""


def run(script):
    return subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=60)


def test_the_core_works_without_any_optional_package():
    result = run(SCRIPT % BLOCKED)
    assert result.stdout == "fine\n", result.stderr


@pytest.mark.parametrize(
    "package", ["torch", "PIL", "simplejpeg", "cv2", "av", "soundfile", "backports.zstd", "orjson"]
)
def test_importing_the_room_imports_no_optional_package(package):
    result = run(f"import sys, webdataset.codecs; print({package!r} in sys.modules)")
    assert result.stdout == "False\n", result.stderr
