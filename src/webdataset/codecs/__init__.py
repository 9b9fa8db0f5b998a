"""Codecs: bytes of a field ↔ values, chosen by the name of the field.

In: field names and bytes, or values. Out: values, or bytes. This package does not know shards or pipelines. Heavy
packages are imported by the codec that needs them, when it needs them.

    _codec_tables         extension → decoder, extension → encoder
    _decode_handlers      what `decode(...)` accepts: suffix filters, extension handlers, the table as a handler
    _decoder              Decoder: calls the handlers for every field of a sample
    _encoders             encode_field, encoders of whole samples
    _text                 text, integers                  _json            JSON, JSON lines
    _arrays               npy, npz                        tenbin/          arrays as raw bytes
    _tensors              pth, safetensors                _msgpack_cbor    MessagePack, and values → CBOR
    _torch_file           torch's own files               _torch_storages  the pickles and storages in them
    _cbor_limits          CBOR → values; refuses CBOR that costs too much
    _pickle               unpickles fields                _pickle_machine  the interpreter of pickles
    _pickle_globals       what a pickle may refer to      _pickle_budget   how much it may build
    _pickle_scalars       numbers, texts and bytes in pickles
    _pickle_numpy, _pickle_torch, _pickle_dates           arrays, tensors and dates in pickles
    _jpeg                 JPEGs → pixels                  _opencv          plain PNGs and WebPs → pixels
    _decode_pixels        other compressed images → pixels
    _image_specs          image specs and their handler
    _encode_image         arrays, tensors, PIL images → compressed images
    _decode_image         decode, crop, resize and flip   _crop            crop boxes
    _resize               pixels → other pixels           _field_limit     how large a field may become
    _audio                audio                           _video           video
    _open_media           opens both with PyAV            _media_length    whether files are complete
    _compressed_fields    .gz and .zst fields
"""

from . import tenbin
from ._arrays import check_dtype, npy_loads, npz_loads, numpy_dumps, numpy_npz_dumps, read_npy_header, stack_npy
from ._audio import AUDIO_EXTENSIONS, AudioHandler, torch_audio
from ._cbor_limits import cbor_loads, read_cbor_item
from ._codec_tables import add_handlers, decoders, default_handlers, make_handlers
from ._compressed_fields import gunzip, pack_gz, unzstd
from ._decode_handlers import (
    Continue,
    as_handler,
    basichandlers,
    call_extension_handler,
    default_post_handlers,
    default_pre_handlers,
    gzfilter,
    handle_extension,
)
from ._decode_image import DecodeImage, decode_image
from ._decode_pixels import open_image
from ._decoder import Decoder, decode_field, default_decoder
from ._encode_image import IMAGE_FORMATS, imageencoder
from ._encoders import encode_based_on_extension, encode_based_on_extension1, encode_field
from ._field_limit import check_row_group, check_size, check_unpacked, open_member, read_member
from ._image_specs import IMAGE_EXTENSIONS, ImageHandler, imagehandler, imagespecs
from ._json import decode_json, decode_jsonl
from ._msgpack_cbor import cbor_dumps, mp_dumps, msgpack_loads
from ._open_media import open_media
from ._pickle import PickleLoader, unpickle_loads, unsafe_pickle
from ._tensors import torch_dumps, torch_loads
from ._text import bytestr, decode_text
from ._video import VIDEO_EXTENSIONS, VideoHandler, torch_video
from .tenbin import tenbin_dumps, tenbin_loads

__all__ = [
    "AUDIO_EXTENSIONS",
    "IMAGE_EXTENSIONS",
    "IMAGE_FORMATS",
    "VIDEO_EXTENSIONS",
    "AudioHandler",
    "Continue",
    "DecodeImage",
    "Decoder",
    "ImageHandler",
    "PickleLoader",
    "VideoHandler",
    "add_handlers",
    "as_handler",
    "basichandlers",
    "bytestr",
    "call_extension_handler",
    "cbor_dumps",
    "cbor_loads",
    "check_dtype",
    "check_row_group",
    "check_size",
    "check_unpacked",
    "decode_field",
    "decode_image",
    "decode_json",
    "decode_jsonl",
    "decode_text",
    "decoders",
    "default_decoder",
    "default_handlers",
    "default_post_handlers",
    "default_pre_handlers",
    "encode_based_on_extension",
    "encode_based_on_extension1",
    "encode_field",
    "gunzip",
    "gzfilter",
    "handle_extension",
    "imageencoder",
    "imagehandler",
    "imagespecs",
    "make_handlers",
    "mp_dumps",
    "msgpack_loads",
    "npy_loads",
    "npz_loads",
    "numpy_dumps",
    "numpy_npz_dumps",
    "open_image",
    "open_media",
    "open_member",
    "pack_gz",
    "read_cbor_item",
    "read_member",
    "read_npy_header",
    "stack_npy",
    "tenbin",
    "tenbin_dumps",
    "tenbin_loads",
    "torch_audio",
    "torch_dumps",
    "torch_loads",
    "torch_video",
    "unpickle_loads",
    "unsafe_pickle",
    "unzstd",
]
