"""A field is decoded from its own bytes: a list of further files is refused, and so is a format that runs a program."""

import io
import socket

import numpy as np
import pytest

import wids
from webdataset.codecs import AUDIO_EXTENSIONS, IMAGE_EXTENSIONS, VIDEO_EXTENSIONS, decode_field, encode_field
from webdataset.errors import DecodingError, WebDatasetError
from webdataset.testing import make_shard
from webdataset.tools import recode

pytest.importorskip("av")

# Text that FFmpeg takes for a film or a sound, whatever the field is called, and then opens what it names.
LISTS = {
    "concat": "ffconcat version 1.0\nfile {name}\n",
    "concat, absolute": "ffconcat version 1.0\nfile {path}\n",
    "hls": "#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\n{name}\n#EXT-X-ENDLIST\n",
    "hls, absolute": "#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\nfile://{path}\n#EXT-X-ENDLIST\n",
    "hls, web": "#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\nhttp://127.0.0.1:{port}/a.ts\n#EXT-X-ENDLIST\n",
    "dash": '<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static" '
    'mediaPresentationDuration="PT1S"><Period><AdaptationSet mimeType="video/mp4"><Representation id="1" '
    'bandwidth="1"><BaseURL>file://{path}</BaseURL></Representation></AdaptationSet></Period></MPD>',
    "sdp": "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=video 5004 RTP/AVP 96\n"
    "a=rtpmap:96 H264/90000\n",
}
POSTSCRIPT = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n"


@pytest.fixture
def port():
    """Of a server that nobody may come to."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.01)
        yield server.getsockname()[1]
        with pytest.raises(TimeoutError):
            server.accept()


@pytest.mark.parametrize("attack", LISTS)
@pytest.mark.parametrize("kind", ["video", "audio"])
def test_a_list_of_files_is_not_followed(attack, kind, tmp_path, monkeypatch, port):
    monkeypatch.chdir(tmp_path)
    secret = tmp_path / "secret.mp4"
    secret.write_bytes(encode_field("mp4", np.full((3, 64, 64, 3), 200, "u1")))
    assert decode_field("mp4", secret.read_bytes(), "video")[0].shape == (3, 64, 64, 3)
    text = LISTS[attack].format(name=secret.name, path=secret, port=port).encode()
    for field in VIDEO_EXTENSIONS if kind == "video" else AUDIO_EXTENSIONS:
        with pytest.raises(DecodingError):
            decode_field(field, text, kind)


@pytest.mark.parametrize("field", IMAGE_EXTENSIONS)
def test_postscript_is_never_run(field, tmp_path, monkeypatch):
    """Pillow would start Ghostscript, under whatever name the image comes."""
    PIL = pytest.importorskip("PIL.EpsImagePlugin")
    monkeypatch.setattr(PIL, "Ghostscript", lambda *_, **__: pytest.fail("Ghostscript was started"))
    with pytest.raises(DecodingError):
        decode_field(field, POSTSCRIPT, "rgb8")
    with pytest.raises(DecodingError):
        wids.decode_images_to_pil({f".{field}": io.BytesIO(POSTSCRIPT)})
    shard = make_shard(str(tmp_path / "a.tar"), [{"__key__": "1", field: POSTSCRIPT}])
    with pytest.raises(WebDatasetError):
        recode(shard, str(tmp_path / "b.tar"), short=8)


def test_postscript_is_not_shown(monkeypatch):
    PIL = pytest.importorskip("PIL.EpsImagePlugin")
    thumbnail = pytest.importorskip("webdataset.viewer._thumbnail")
    monkeypatch.setattr(PIL, "Ghostscript", lambda *_, **__: pytest.fail("Ghostscript was started"))
    with pytest.raises(DecodingError):
        thumbnail.shrink_image(POSTSCRIPT, 64)
