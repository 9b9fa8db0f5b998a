"""`webdataset.extradatasets`: datasets that wrap other datasets."""

from __future__ import annotations

from webdataset.pipeline import MockDataset, PipelineStage, repeatedly, with_epoch, with_length

__all__ = ["MockDataset", "PipelineStage", "repeatedly", "with_epoch", "with_length"]
