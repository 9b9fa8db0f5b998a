"""Where soundfile is not installed, `torch_audio` decodes with torchaudio."""

import io
import sys
import types
import wave

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from webdataset.codecs import decode_field, torch_audio
from webdataset.optional import find_package
from webdataset.errors import DecodingError, MissingDependency


@pytest.fixture
def without_soundfile(monkeypatch):
    monkeypatch.setitem(sys.modules, "soundfile", None)
    find_package.cache_clear()
    yield monkeypatch
    find_package.cache_clear()


def load(stream):
    """What torchaudio's `load` returns, for WAV files of 16 bits."""
    with wave.open(stream) as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2").reshape(-1, file.getnchannels())
        return torch.from_numpy(samples.T.astype(np.float32) / 32768), file.getframerate()


def test_torchaudio_is_used_in_its_place(without_soundfile):
    stream = io.BytesIO()
    with wave.open(stream, "wb") as file:
        file.setparams((2, 2, 8000, 0, "NONE", ""))
        file.writeframes(np.arange(200, dtype="<i2").tobytes())
    stand_in = types.ModuleType("torchaudio")
    stand_in.load = load
    without_soundfile.setitem(sys.modules, "torchaudio", stand_in)
    found, rate = decode_field("wav", stream.getvalue(), torch_audio)
    assert (tuple(found.shape), found.dtype, rate) == ((2, 100), torch.float32, 8000)
    without_soundfile.setenv("WDS_DECOMPRESS_LIMIT", "100")
    with pytest.raises(DecodingError, match="WDS_DECOMPRESS_LIMIT"):
        decode_field("wav", stream.getvalue(), torch_audio)


def test_without_both_the_error_names_the_extra(without_soundfile):
    without_soundfile.setitem(sys.modules, "torchaudio", None)
    with pytest.raises(MissingDependency, match=r"webdataset\[audio\]"):
        decode_field("wav", b"RIFF", torch_audio)
