"""Video: frames, audio and rates, by PyAV."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from typing import Any

import numpy as np

from webdataset.arguments import require_count
from webdataset.errors import EncodingError, FormatError
from webdataset.optional import require

from ._audio import limited, read_waveform
from ._media_length import check_length
from ._open_media import open_media

VIDEO_EXTENSIONS = ("avi", "h264", "m4v", "mjpeg", "mkv", "mov", "mp4", "mpeg", "mpg", "ogv", "webm", "wmv")

_WHY = "to decode video"

# Container and codec to write; each codec is part of PyAV's wheels.
_WRITERS = {
    "mp4": ("mp4", "libx264"),
    "m4v": ("mp4", "libx264"),
    "mov": ("mov", "libx264"),
    "mkv": ("matroska", "libx264"),
    "webm": ("webm", "libvpx-vp9"),
    "avi": ("avi", "mpeg4"),
}
VIDEO_WRITERS = tuple(_WRITERS)


@dataclass(frozen=True, slots=True)
class VideoHandler:
    """A decoder of video fields: (frames T×H×W×3 in uint8, audio channels × length, {"video_fps": …, "audio_fps": …}).

    >>> from webdataset.codecs import encode_field
    >>> video = encode_field("mp4", np.zeros((4, 32, 48, 3), "u1"), fps=10)
    >>> frames, audio, info = VideoHandler(every=2)(".mp4", video)
    >>> frames.shape, info
    ((2, 32, 48, 3), {'video_fps': 10.0})

    Args:
        every: keep each n-th frame.
        limit: stop after so many kept frames.
        audio: decode the audio track too; otherwise it is empty.
        torch: return tensors instead of arrays.
    """

    every: int = 1
    limit: int | None = None
    audio: bool = True
    torch: bool = False

    def __post_init__(self) -> None:
        require_count("VideoHandler", "every", self.every, least=1)
        if self.limit is not None:
            require_count("VideoHandler", "limit", self.limit, least=1)

    def __call__(self, key: str, data: bytes) -> tuple[Any, Any, dict[str, float]] | None:
        """Frames, audio and rates, or None if the field is not a video."""
        return self.decode(data) if self.resolve(key) is not None else None

    def resolve(self, key: str) -> Callable[[bytes], tuple[Any, Any, dict[str, float]]] | None:
        """The function that decodes fields of this name, or None."""
        return self.decode if key.rpartition(".")[2].lower() in VIDEO_EXTENSIONS else None

    def decode(self, data: bytes) -> tuple[Any, Any, dict[str, float]]:
        """Frames, audio and rates of the video in the bytes."""
        check_length(data)
        with open_media(io.BytesIO(data), _WHY) as container:
            if not container.streams.video:
                raise FormatError("no video frames")
            frames = self._frames(container)
            info: dict[str, float] = {"video_fps": float(container.streams.video[0].average_rate or 0)}
        audio = np.zeros((1, 0), np.float32)
        with open_media(io.BytesIO(data), _WHY) as container:
            if container.streams.audio:
                info["audio_fps"] = int(container.streams.audio[0].rate)
                if self.audio:
                    audio = read_waveform(container)
        if self.torch:
            torch = require("torch", extra="torch", why="to decode video to tensors")
            return torch.from_numpy(frames), torch.from_numpy(audio), info
        return frames, audio, info

    def _frames(self, container: Any) -> np.ndarray[Any, Any]:
        stream = container.streams.video[0]
        stream.thread_type = "AUTO"
        stop = None if self.limit is None else self.limit * self.every
        chosen = islice(container.decode(stream), 0, stop, self.every)
        kept = limited(frame.to_ndarray(format="rgb24") for frame in chosen)
        if not kept:
            raise FormatError("no video frames")
        return np.stack(kept)


torch_video = VideoHandler(torch=True)


def encode_video(extension: str, value: Any, *, fps: float = 25, codec: str | None = None, **options: Any) -> bytes:
    """Frames (T×H×W×3 in uint8) as a video without audio.

    >>> len(encode_video("mp4", np.zeros((2, 32, 32, 3), "u1"))) > 500
    True

    Args:
        extension: one of mp4, m4v, mov, mkv, webm, avi.
        value: array or tensor of frames, or a tuple that starts with one, as decoding returns it.
        fps: frames per second.
        codec: PyAV's name of the codec.
        options: options of the codec, such as `crf=18`.
    """
    frames = value[0] if isinstance(value, tuple) else value
    frames = np.asarray(frames.detach().cpu() if hasattr(frames, "detach") else frames)
    if frames.ndim != 4 or frames.shape[3] != 3 or frames.dtype != np.uint8 or not frames.size:
        raise EncodingError(f"expected frames T×H×W×3 in uint8, got {frames.shape} {frames.dtype}")
    av = require("av", extra="video", why="to encode video")
    container_format, default_codec = _WRITERS[extension]
    stream = io.BytesIO()
    try:
        # bitexact: no dates and random numbers, so that the same frames give the same bytes
        with av.open(stream, "w", format=container_format, options={"fflags": "+bitexact"}) as container:
            track = container.add_stream(codec or default_codec, rate=Fraction(fps).limit_denominator(1001))
            track.height, track.width = frames.shape[1:3]
            track.pix_fmt = "yuv420p"
            track.options = {name: str(option) for name, option in options.items()}
            for frame in frames:
                container.mux(track.encode(av.VideoFrame.from_ndarray(np.ascontiguousarray(frame), format="rgb24")))
            container.mux(track.encode())
    except (av.error.FFmpegError, ValueError, TypeError) as error:
        raise EncodingError(f"cannot be written as {extension}: {error}", hint="sides must be even") from error
    return stream.getvalue()
