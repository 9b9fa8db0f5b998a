"""`webdataset.writer`: writing shards, and encoding by extension."""

from __future__ import annotations

from webdataset import codecs
from webdataset.codecs import *  # noqa: F403 - its public names, and more
from webdataset.stores import gopen
from webdataset.writers import ShardWriter, TarWriter, make_encoder

__all__ = ["ShardWriter", "TarWriter", "gopen", "make_encoder"]
__all__ += codecs.__all__
