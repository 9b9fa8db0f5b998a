"""`webdataset.autodecode`: decoding by extension."""

from __future__ import annotations

from webdataset import config
from webdataset.codecs import (
    IMAGE_EXTENSIONS,
    Continue,
    Decoder,
    ImageHandler,
    basichandlers,
    call_extension_handler,
    cbor_loads,
    decoders,
    default_decoder,
    default_post_handlers,
    default_pre_handlers,
    gzfilter,
    handle_extension,
    imagehandler,
    imagespecs,
    msgpack_loads,
    npy_loads,
    npz_loads,
    tenbin_loads,
    torch_audio,
    torch_loads,
    torch_video,
    unpickle_loads,
)
from webdataset.errors import DecodingError

from ._live import make_live

__all__ = [
    "IMAGE_EXTENSIONS",
    "Continue",
    "Decoder",
    "DecodingError",
    "ImageHandler",
    "basichandlers",
    "call_extension_handler",
    "cbor_loads",
    "decoders",
    "default_decoder",
    "default_post_handlers",
    "default_pre_handlers",
    "gzfilter",
    "handle_extension",
    "imagehandler",
    "imagespecs",
    "msgpack_loads",
    "npy_loads",
    "npz_loads",
    "pytorch_weights_only",
    "tenbin_loads",
    "torch_audio",
    "torch_loads",
    "torch_video",
    "unpickle_loads",
]

pytorch_weights_only: bool
"""Whether `.pth` fields may hold tensors only, and no code (`WDS_PYTORCH_WEIGHTS_ONLY`). Assign to change it."""

make_live(
    __name__,
    pytorch_weights_only=property(
        lambda _: config.safety.weights_only, lambda _, value: setattr(config.safety, "weights_only", value)
    ),
)
