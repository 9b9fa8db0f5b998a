"""`webdataset.autodecode`: decoding by extension."""

from __future__ import annotations

from webdataset import codecs, config
from webdataset.codecs import *  # noqa: F403 - its public names, and more
from webdataset.errors import DecodingError

from ._live import make_live

__all__ = ["DecodingError", "pytorch_weights_only"]
__all__ += codecs.__all__

pytorch_weights_only: bool
"""Whether `.pth` fields may hold tensors only, and no code (`WDS_PYTORCH_WEIGHTS_ONLY`). Assign to change it."""

make_live(
    __name__,
    pytorch_weights_only=property(
        lambda _: config.safety.weights_only, lambda _, value: setattr(config.safety, "weights_only", value)
    ),
)
