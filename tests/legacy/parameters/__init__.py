"""A check for every parameter of the public constructors, as `CHECKS["Constructor.parameter"](room)`."""

from . import caches, dataset, shards, stages, writers
from .room import CHECKS, Room

__all__ = ["CHECKS", "Room", "caches", "dataset", "shards", "stages", "writers"]
