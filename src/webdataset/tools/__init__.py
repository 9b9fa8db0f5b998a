"""One function per verb of `wds`. Addresses and options come in, typed values go out; nothing here prints.

Verbs:
    _check           what is wrong with a dataset
    _repair          damaged shards, written again
    _list_samples    keys, fields, sizes, places
    _show_samples    samples as a person wants to see them
    _get_field       one field of one sample
    _grep            samples whose text matches
    _dataset_stats   how many samples, how large, which fields
    _diff            two datasets, compared by key
    _index_files     index files and descriptions
    _query           SQL over samples
    _bench           how fast a dataset is read and decoded here
    _simulate        who reads what, on many ranks
    _doctor          what this machine has, and which places answer
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
    _findings        kinds of faults, how bad each is, and what to do
    _check_shard     everything that is wrong with one shard
    _shard_report    what a check is asked to do, and what it finds out about a shard
    _check_decoding  fields that cannot be decoded
    _hugging_face_types  types that Hugging Face refuses or changes
    _portable_names  names that some readers trip over
    _key_table       keys of any number of samples, compared with little memory
    _repair_plan     what becomes of each member of a damaged shard
    _verb_options    how a verb writes and runs
    _transform       shards through stages, as one stream or shard by shard
    _read_inputs     input addresses → a stream of samples
    _target          what `-o` means, and which outputs exist
    _write_samples   a stream of samples → one archive or a series
    _report          what a verb that writes shards returns, and samples whose processing failed
    _scratch         temporary files
    _count_samples   how many samples shards have
    _expression      a safe expression language over samples
    _shares          random shares that depend on keys alone
What datasets are made of:
    _entries         samples whose fields are still somewhere else
    _recipe          text files with one member per line
    _manifest        tables with one sample per row
    _file_tree       folders and archives of files
Parallel work:
    _run_tasks       the tasks of a job, on any engine, resumable
    _shard_task      the work on one shard, on any worker
    _ledger          which shards of a job are finished
    _engines         this process, local processes, Dask, Ray, any executor
    _stored_versions which version of an object is stored at an address
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._bench import Bench, Pace, bench
    from ._cat import cat
    from ._check import CheckReport, check
    from ._create import FORMATS, Making, create
    from ._dataset_stats import DatasetStats, Distribution, dataset_stats
    from ._diff import Change, Difference, diff
    from ._doctor import Diagnosis, State, doctor
    from ._expression import Expression
    from ._findings import Finding, Kind, Severity, Target
    from ._get_field import PICTURES, Got, first_field, get_field
    from ._grep import Match, grep
    from ._index_files import Indexed, IndexInfo, create_index, index_info, indexed_sample, update_index
    from ._join import join
    from ._list_samples import Listed, list_samples
    from ._map_shards import map_shards
    from ._mix_inputs import MixSource, mix, parse_mix_source, read_mix_sources
    from ._partition import Parts, partition, read_lists
    from ._proc import proc
    from ._query import Answer, query
    from ._read_inputs import expand_inputs, read_list
    from ._recode import recode
    from ._rename_fields import rename
    from ._repair import Repair, repair
    from ._repair_plan import Action, Deed
    from ._report import Failure, Report, collect_failures, failure_handler
    from ._run_tasks import run_tasks
    from ._select_samples import select
    from ._shard_report import CheckOptions, ShardReport
    from ._shard_task import ShardResult
    from ._shares import Shares, parse_shares
    from ._show_samples import ShownField, ShownSample, field_rows, show_samples
    from ._simulate import ReaderShare, Simulation, simulate
    from ._sort import shuffle, sort
    from ._split import split
    from ._stored_versions import MISSING, version_of
    from ._target import existing, refuse_existing, series_members, store_description
    from ._verb_options import DEFAULTS, Options

__all__ = [
    "DEFAULTS",
    "FORMATS",
    "MISSING",
    "PICTURES",
    "Action",
    "Answer",
    "Bench",
    "Change",
    "CheckOptions",
    "CheckReport",
    "DatasetStats",
    "Deed",
    "Diagnosis",
    "Difference",
    "Distribution",
    "Expression",
    "Failure",
    "Finding",
    "Got",
    "IndexInfo",
    "Indexed",
    "Kind",
    "Listed",
    "Making",
    "Match",
    "MixSource",
    "Options",
    "Pace",
    "Parts",
    "ReaderShare",
    "Repair",
    "Report",
    "Severity",
    "ShardReport",
    "ShardResult",
    "Shares",
    "ShownField",
    "ShownSample",
    "Simulation",
    "State",
    "Target",
    "bench",
    "cat",
    "check",
    "collect_failures",
    "create",
    "create_index",
    "dataset_stats",
    "diff",
    "doctor",
    "existing",
    "expand_inputs",
    "failure_handler",
    "field_rows",
    "first_field",
    "get_field",
    "grep",
    "index_info",
    "indexed_sample",
    "join",
    "list_samples",
    "map_shards",
    "mix",
    "parse_mix_source",
    "parse_shares",
    "partition",
    "proc",
    "query",
    "read_list",
    "read_lists",
    "read_mix_sources",
    "recode",
    "refuse_existing",
    "rename",
    "repair",
    "run_tasks",
    "select",
    "series_members",
    "show_samples",
    "shuffle",
    "simulate",
    "sort",
    "split",
    "store_description",
    "update_index",
    "version_of",
]

# Where each name lives. A command needs one verb, and loading all of them takes 0.1 s.
_HOME = {
    "_bench": "Bench Pace bench",
    "_cat": "cat",
    "_check": "CheckReport check",
    "_create": "FORMATS Making create",
    "_dataset_stats": "DatasetStats Distribution dataset_stats",
    "_diff": "Change Difference diff",
    "_doctor": "Diagnosis State doctor",
    "_expression": "Expression",
    "_findings": "Finding Kind Severity Target",
    "_get_field": "PICTURES Got first_field get_field",
    "_grep": "Match grep",
    "_index_files": "Indexed IndexInfo create_index index_info indexed_sample update_index",
    "_join": "join",
    "_list_samples": "Listed list_samples",
    "_map_shards": "map_shards",
    "_mix_inputs": "MixSource mix parse_mix_source read_mix_sources",
    "_partition": "Parts partition read_lists",
    "_proc": "proc",
    "_query": "Answer query",
    "_read_inputs": "expand_inputs read_list",
    "_recode": "recode",
    "_rename_fields": "rename",
    "_repair": "Repair repair",
    "_repair_plan": "Action Deed",
    "_report": "Failure Report collect_failures failure_handler",
    "_run_tasks": "run_tasks",
    "_select_samples": "select",
    "_shard_report": "CheckOptions ShardReport",
    "_shard_task": "ShardResult",
    "_shares": "Shares parse_shares",
    "_show_samples": "ShownField ShownSample field_rows show_samples",
    "_simulate": "ReaderShare Simulation simulate",
    "_sort": "shuffle sort",
    "_split": "split",
    "_stored_versions": "MISSING version_of",
    "_target": "existing refuse_existing series_members store_description",
    "_verb_options": "DEFAULTS Options",
}
_LAZY = {name: module for module, names in _HOME.items() for name in names.split()}

if not TYPE_CHECKING:  # a type checker would believe that every name exists

    def __getattr__(name: str) -> Any:
        if name not in _LAZY:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f".{_LAZY[name]}", __name__), name)
        globals()[name] = value
        return value
