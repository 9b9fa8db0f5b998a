"""One function per verb of `wds`. Addresses and options come in, typed values go out; nothing here prints.

Verbs:
    _check           what is wrong with a dataset
    _repair          damaged shards, written again
    _create          a new dataset out of recipes, tables, folders and archives
    _cat             shards one after the other, as one stream
    _split           the same samples in shards of another size
    _select          some of the samples
    _partition       train, validation and test parts
    _map_shards      every shard through a function, in parallel, resumable
What they share:
    _findings        kinds of faults, how bad each is, and what to do
    _check_shard     everything that is wrong with one shard
    _check_decoding  fields that cannot be decoded
    _portable_names  names that some readers trip over
    _key_table       keys of any number of samples, compared with little memory
    _repair_plan     what becomes of each member of a damaged shard
    _transform       shards through stages, as one stream or shard by shard
    _read_inputs     input addresses → a stream of samples
    _target          what `-o` means, and which outputs exist
    _write_samples   a stream of samples → one archive or a series
    _report          what a verb that writes shards returns
    _count_samples   how many samples shards have
    _expression      a safe expression language over samples
    _field_choice    which fields to keep, and under which names
    _shares          random shares that depend on keys alone
What datasets are made of:
    _entries         samples whose fields are still somewhere else
    _recipe          text files with one member per line
    _manifest        tables with one sample per row
    _file_tree       folders and archives of files
Parallel work:
    _shard_task      the work on one shard, on any worker
    _ledger          which shards of a job are finished
    _engines         this process, local processes, Dask, Ray, any executor
    _stored_sizes    the sizes of many local files at once
"""

from ._cat import cat
from ._check import CheckReport, check
from ._check_shard import CheckOptions, ShardReport, check_shard
from ._create import FORMATS, Making, create
from ._expression import Expression
from ._findings import RULES, Finding, Kind, Severity, Target
from ._map_shards import map_shards
from ._partition import Parts, partition, read_lists
from ._read_inputs import expand_inputs, read_list, read_samples
from ._repair import Repair, repair, repair_shard
from ._repair_plan import Action, Deed
from ._report import Failure, Report
from ._select import select
from ._shares import Shares, parse_shares
from ._split import split
from ._transform import Options

__all__ = [
    "FORMATS",
    "RULES",
    "Action",
    "CheckOptions",
    "CheckReport",
    "Deed",
    "Expression",
    "Failure",
    "Finding",
    "Kind",
    "Making",
    "Options",
    "Parts",
    "Repair",
    "Report",
    "Severity",
    "ShardReport",
    "Shares",
    "Target",
    "cat",
    "check",
    "check_shard",
    "create",
    "expand_inputs",
    "map_shards",
    "parse_shares",
    "partition",
    "read_list",
    "read_lists",
    "read_samples",
    "repair",
    "repair_shard",
    "select",
    "split",
]
