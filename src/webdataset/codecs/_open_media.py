"""Opens audio and video files with PyAV: nothing outside of their own bytes is read."""

from __future__ import annotations

from typing import Any

from webdataset.optional import require

from ._field_limit import check_size, field_limit

_RGB = 3  # bytes of a pixel
_MOST_PIXELS = 2**31 - 1  # an int of FFmpeg

# Of FFmpeg's formats, those that contain their data. Others are lists of further files and addresses (concat, hls,
# dash, sdp, image2), which FFmpeg would open, for any name of the field.
_FORMATS = (
    *("aac", "ac3", "aiff", "amr", "asf", "au", "avi", "caf", "eac3", "flac", "flv", "gif", "h264", "hevc", "ivf"),
    *("m4v", "matroska", "mjpeg", "mov", "mp3", "mpeg", "mpegts", "mpegvideo", "ogg", "sox", "w64", "wav", "webm"),
)


def open_media(file: Any, why: str) -> Any:
    """The container in a binary file, to be closed by the caller.

    Args:
        file: a seekable file object.
        why: what PyAV is needed for, for the error if it is not installed.
    """
    av = require("av", extra="video", why=why)
    container = av.open(file, options={"format_whitelist": ",".join(_FORMATS), "protocol_whitelist": "none"})
    try:
        for stream in container.streams.video:
            if stream.codec_context is None:  # of a codec that FFmpeg does not support; it has no size either
                continue
            check_size(_RGB * stream.width * stream.height)
            # The frames may have another size.
            stream.codec_context.options = {"max_pixels": str(min(field_limit() // _RGB, _MOST_PIXELS))}
    except BaseException:
        container.close()
        raise
    return container
