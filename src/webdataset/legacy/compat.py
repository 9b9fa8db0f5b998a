"""`webdataset.compat`: the fluid interface."""

from __future__ import annotations

from webdataset.handlers import reraise_exception
from webdataset.loader import WebLoader
from webdataset.pipeline import CheckEmpty, DataPipeline, FluidInterface, FluidWrapper, WebDataset
from webdataset.stages import pipelinefilter

from .tariterators import group_by_keys, tar_file_expander

__all__ = [
    "DataPipeline",
    "FluidInterface",
    "FluidWrapper",
    "WebDataset",
    "WebLoader",
    "check_empty",
    "group_by_keys",
    "pipelinefilter",
    "reraise_exception",
    "tar_file_expander",
]

check_empty = CheckEmpty()
"""The stage that refuses a stream without samples."""
