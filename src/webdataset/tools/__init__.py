"""One function per verb of `wds`. Addresses and options come in, typed values go out; nothing here prints.

Verbs:
    _create          a new dataset out of recipes, tables, folders and archives
    _cat             shards one after the other, as one stream
    _split           the same samples in shards of another size
    _select_samples  some of the samples
    _partition       train, validation and test parts
    _sort            all samples in another order: by an expression, or at random
    _join            the fields of other shards, added by key
    _rename_fields   fields and keys under other names
    _recode          images of another size, quality or format
    _proc            a command or a function on every sample or shard
    _mix_inputs      several datasets as one, by weights
    _map_shards      every shard through a function, in parallel, resumable
What they share:
    _transform       shards through stages, as one stream or shard by shard
    _read_inputs     input addresses → a stream of samples
    _target          what `-o` means, and which outputs exist
    _write_samples   a stream of samples → one archive or a series
    _report          what a verb that writes shards returns
    _count_samples   how many samples shards have
    _expression      a safe expression language over samples
    _field_choice    which fields to keep, and under which names
    _external_sort   more samples than fit into memory, in order
    _failures        samples whose processing failed, for the report
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
from ._create import FORMATS, Making, create
from ._expression import Expression
from ._join import join
from ._map_shards import map_shards
from ._mix_inputs import MixSource, mix, parse_mix_source, read_mix_sources
from ._partition import Parts, partition, read_lists
from ._proc import proc
from ._read_inputs import expand_inputs, read_list, read_samples
from ._recode import recode
from ._rename_fields import rename
from ._report import Failure, Report
from ._select_samples import select
from ._shares import Shares, parse_shares
from ._sort import shuffle, sort
from ._split import split
from ._transform import Options

__all__ = [
    "FORMATS",
    "Expression",
    "Failure",
    "Making",
    "MixSource",
    "Options",
    "Parts",
    "Report",
    "Shares",
    "cat",
    "create",
    "expand_inputs",
    "join",
    "map_shards",
    "mix",
    "parse_mix_source",
    "parse_shares",
    "partition",
    "proc",
    "read_list",
    "read_lists",
    "read_mix_sources",
    "read_samples",
    "recode",
    "rename",
    "select",
    "shuffle",
    "sort",
    "split",
]
