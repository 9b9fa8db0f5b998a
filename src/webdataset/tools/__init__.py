"""One function per verb of `wds`. Addresses and options come in, typed values go out; nothing here prints.

Verbs:
    _check           what is wrong with a dataset
    _repair          damaged shards, written again
    _cat             shards one after the other, as one stream
What they share:
    _findings        kinds of faults, how bad each is, and what to do
    _check_shard     everything that is wrong with one shard
    _check_decoding  fields that cannot be decoded
    _portable_names  names that some readers trip over
    _key_table       keys of any number of samples, compared with little memory
    _repair_plan     what becomes of each member of a damaged shard
    _read_inputs     input addresses → a stream of samples
    _target          what `-o` means, and which outputs exist
    _write_samples   a stream of samples → one archive or a series
    _report          what a verb that writes shards returns
"""

from ._cat import cat
from ._check import CheckReport, check
from ._check_shard import CheckOptions, ShardReport, check_shard
from ._findings import RULES, Finding, Kind, Severity, Target
from ._repair import Repair, repair, repair_shard
from ._repair_plan import Action, Deed
from ._report import Failure, Report

__all__ = [
    "RULES",
    "Action",
    "CheckOptions",
    "CheckReport",
    "Deed",
    "Failure",
    "Finding",
    "Kind",
    "Repair",
    "Report",
    "Severity",
    "ShardReport",
    "Target",
    "cat",
    "check",
    "check_shard",
    "repair",
    "repair_shard",
]
