"""Opens audio and video files with PyAV: only what is stored in the bytes themselves is read."""

from __future__ import annotations

from typing import Any

from webdataset.optional import require

# Of FFmpeg's formats, those that hold their data themselves. Others are lists of further files and addresses (concat,
# hls, dash, sdp, image2), which FFmpeg would open, whatever the name of the field says.
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
    return av.open(file, options={"format_whitelist": ",".join(_FORMATS), "protocol_whitelist": "none"})
