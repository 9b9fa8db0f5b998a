"""`webdataset.tenbin`: arrays as raw bytes."""

from __future__ import annotations

from webdataset.codecs.tenbin import *  # noqa: F403 - all of them are public there
