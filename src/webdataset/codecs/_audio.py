"""Audio: waveform and sampling rate. soundfile decodes most formats, PyAV the others.

Where soundfile is not installed, `torch_audio` uses torchaudio, as the public library does.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from webdataset.errors import EncodingError, FormatError
from webdataset.optional import find_package, require

from ._field_limit import check_size
from ._media_length import check_length, counts_frames
from ._open_media import open_media

_FLOAT = 4  # bytes
_SOUNDFILE = ("flac", "mp3", "ogg", "opus", "wav")
AUDIO_EXTENSIONS = (*_SOUNDFILE, "aac", "m4a", "sox", "wma")

# The container, and the subtypes for floats and for 16-bit integers.
_SUBTYPES = {
    "wav": ("WAV", "FLOAT", "PCM_16"),
    "flac": ("FLAC", "PCM_24", "PCM_16"),
    "ogg": ("OGG", "VORBIS", "VORBIS"),
    "opus": ("OGG", "OPUS", "OPUS"),
    "mp3": ("MP3", "MPEG_LAYER_III", "MPEG_LAYER_III"),
}


@dataclass(frozen=True, slots=True)
class AudioHandler:
    """A decoder of audio fields: (channels × length in float32, rate).

    >>> from webdataset.codecs import encode_field
    >>> wave, rate = AudioHandler()(".wav", encode_field("wav", (np.zeros((2, 100), "f4"), 8000)))
    >>> wave.shape, rate
    ((2, 100), 8000)

    Args:
        torch: return a tensor instead of an array.
    """

    torch: bool = False

    def __call__(self, key: str, data: bytes) -> tuple[Any, int] | None:
        """Waveform and rate, or None if the field is not audio."""
        decode = self.resolve(key)
        return None if decode is None else decode(data)

    def resolve(self, key: str) -> Callable[[bytes], tuple[Any, int]] | None:
        """The function that decodes fields of this name, or None."""
        extension = key.rpartition(".")[2].lower()
        if extension not in AUDIO_EXTENSIONS:
            return None
        if self.torch and extension in _SOUNDFILE and _use_torchaudio():
            return _read_torchaudio
        return self._as_tensors(_read_soundfile if extension in _SOUNDFILE else _read_av)

    def _as_tensors(
        self, read: Callable[[bytes], tuple[np.ndarray[Any, Any], int]]
    ) -> Callable[[bytes], tuple[Any, int]]:
        if not self.torch:
            return read

        def decode(data: bytes) -> tuple[Any, int]:
            wave, rate = read(data)
            return require("torch", extra="torch", why="to decode audio to tensors").from_numpy(wave), rate

        return decode


def _read_soundfile(data: bytes) -> tuple[np.ndarray[Any, Any], int]:
    soundfile = require("soundfile", extra="audio", why="to decode audio")
    check_length(data)
    with soundfile.SoundFile(io.BytesIO(data)) as file:
        check_size(_FLOAT * file.frames * file.channels)
        wave = file.read(dtype="float32", always_2d=True)
        if len(wave) < file.frames and counts_frames(data):
            what = f"the file is truncated: expected {file.frames:,} samples per channel, got {len(wave):,}"
            raise FormatError(what, hint="copy or write it again")
        return np.ascontiguousarray(wave.T), int(file.samplerate)


def _use_torchaudio() -> bool:
    return find_package("soundfile") is None and find_package("torchaudio") is not None


def _read_torchaudio(data: bytes) -> tuple[Any, int]:
    check_length(data)
    wave, rate = find_package("torchaudio").load(io.BytesIO(data))
    check_size(wave.nbytes)
    return wave, int(rate)


def _read_av(data: bytes) -> tuple[np.ndarray[Any, Any], int]:
    check_length(data)
    with open_media(io.BytesIO(data), "to decode this kind of audio") as container:
        rate = container.streams.audio[0].rate
        return read_waveform(container), int(rate)


def read_waveform(container: Any) -> np.ndarray[Any, Any]:
    """The whole first audio track of an open container, channels × length in float32."""
    stream = container.streams.audio[0]
    av = require("av", extra="video", why="to decode audio")
    resampler = av.AudioResampler(format="fltp", layout=stream.layout, rate=stream.rate)
    resampled = (made for frame in chain(container.decode(stream), [None]) for made in resampler.resample(frame))
    pieces = limited(frame.to_ndarray() for frame in resampled)
    return np.concatenate(pieces, axis=1) if pieces else np.zeros((stream.channels, 0), np.float32)


def limited(pieces: Iterable[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    """The pieces as a list; an error as soon as they are too large together."""
    kept, size = [], 0
    for piece in pieces:
        kept.append(piece)
        size += piece.nbytes
        check_size(size)
    return kept


torch_audio = AudioHandler(torch=True)


def encode_audio(extension: str, value: Any, *, subtype: str | None = None) -> bytes:
    """(waveform, rate) as an audio file; the waveform is channels × length, or just length.

    >>> encode_audio("wav", (np.zeros(100, "f4"), 8000))[:4]
    b'RIFF'

    Args:
        extension: wav, flac, ogg, opus or mp3.
        value: array or tensor, and the sampling rate.
        subtype: soundfile's name of the sample format, such as "PCM_16"; by default one that keeps the values.
    """
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise EncodingError(f"expected (waveform, rate), got {type(value).__name__}")
    wave, rate = value
    wave = np.asarray(wave.detach().cpu() if hasattr(wave, "detach") else wave)
    if wave.ndim not in {1, 2} or wave.dtype.kind not in "fi":
        raise EncodingError(
            f"unsupported waveform: shape {wave.shape}, dtype {wave.dtype}", hint="use floats or int16, C×L or L"
        )
    soundfile = require("soundfile", extra="audio", why="to encode audio")
    container, float_subtype, int_subtype = _SUBTYPES[extension]
    subtype = subtype or (int_subtype if wave.dtype == np.int16 else float_subtype)
    stream = io.BytesIO()
    try:
        soundfile.write(stream, wave.T, int(rate), format=container, subtype=subtype)
    except (soundfile.SoundFileError, TypeError, ValueError) as error:
        raise EncodingError(f"cannot be written as {extension}: {error}") from error
    return stream.getvalue()
