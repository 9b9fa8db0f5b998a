"""One function per verb of `wds`. Addresses and options come in, typed values go out; nothing here prints.

Verbs:
    _check           what is wrong with a dataset
    _repair          damaged shards, written again
    _list_samples    keys, fields, sizes, offsets
    _show_samples    samples in readable form
    _get_field       one field of one sample
    _grep            samples whose text matches
    _dataset_stats   how many samples, how large, which fields
    _diff            two datasets, compared by key
    _index_files     index files and descriptions
    _query           SQL over samples
    _bench           how fast a dataset is read and decoded here
    _simulate        who reads what, on many ranks
    _doctor          what this machine has, and which stores can be read
    _create          a new dataset from recipes, tables, folders and archives
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
    _shard_report    the options of a check, and its report on one shard
    _check_decoding  fields that cannot be decoded
    _hugging_face_types  types that Hugging Face refuses or changes
    _portable_names  names that some programs cannot read
    _key_table       keys of any number of samples, compared with little memory
    _repair_plan     what to do with each member of a damaged shard
    _verb_options    how a verb writes and runs
    _run_stages      shards through stages, as one stream or shard by shard
    _read_inputs     input addresses → a stream of samples
    _output_target   what `-o` means, and which outputs exist
    _write_samples   a stream of samples → one archive or a series
    _report          what a verb that writes shards returns, and samples whose processing failed
    _temporary_files temporary files and folders, whose errors name them
    _load_function   a function that a command line names
    _count_samples   how many samples shards have
    _expression      a safe expression language over samples
    _random_shares   random shares that depend on keys alone
Inputs of `create`:
    _sample_sources  samples to create: keys, and the source of each field
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

from typing import TYPE_CHECKING

from webdataset.lazy_names import lazy_names

if TYPE_CHECKING:
    from ._bench import Bench as Bench
    from ._bench import Pace as Pace
    from ._bench import bench as bench
    from ._cat import cat as cat
    from ._check import CheckReport as CheckReport
    from ._check import check as check
    from ._create import FORMATS as FORMATS
    from ._create import Making as Making
    from ._create import create as create
    from ._dataset_stats import DatasetStats as DatasetStats
    from ._dataset_stats import Distribution as Distribution
    from ._dataset_stats import dataset_stats as dataset_stats
    from ._diff import Change as Change
    from ._diff import Difference as Difference
    from ._diff import diff as diff
    from ._doctor import Diagnosis as Diagnosis
    from ._doctor import State as State
    from ._doctor import doctor as doctor
    from ._expression import Expression as Expression
    from ._findings import Finding as Finding
    from ._findings import Kind as Kind
    from ._findings import Severity as Severity
    from ._findings import Target as Target
    from ._get_field import PICTURES as PICTURES
    from ._get_field import Got as Got
    from ._get_field import first_field as first_field
    from ._get_field import get_field as get_field
    from ._grep import Match as Match
    from ._grep import grep as grep
    from ._index_files import Indexed as Indexed
    from ._index_files import IndexInfo as IndexInfo
    from ._index_files import create_index as create_index
    from ._index_files import index_info as index_info
    from ._index_files import indexed_sample as indexed_sample
    from ._index_files import update_index as update_index
    from ._join import join as join
    from ._list_samples import Listed as Listed
    from ._list_samples import list_samples as list_samples
    from ._load_function import load_function as load_function
    from ._load_function import names_function as names_function
    from ._map_shards import map_shards as map_shards
    from ._mix_inputs import MixSource as MixSource
    from ._mix_inputs import mix as mix
    from ._mix_inputs import parse_mix_source as parse_mix_source
    from ._mix_inputs import read_mix_sources as read_mix_sources
    from ._output_target import existing as existing
    from ._output_target import refuse_description as refuse_description
    from ._output_target import refuse_existing as refuse_existing
    from ._output_target import series_members as series_members
    from ._output_target import store_description as store_description
    from ._partition import Parts as Parts
    from ._partition import partition as partition
    from ._partition import read_lists as read_lists
    from ._proc import proc as proc
    from ._query import Answer as Answer
    from ._query import query as query
    from ._random_shares import Shares as Shares
    from ._random_shares import parse_shares as parse_shares
    from ._read_inputs import CountStage as CountStage
    from ._read_inputs import expand_inputs as expand_inputs
    from ._read_inputs import read_list as read_list
    from ._read_inputs import read_shard_list as read_shard_list
    from ._read_inputs import warn_of_lacking as warn_of_lacking
    from ._recode import recode as recode
    from ._rename_fields import rename as rename
    from ._repair import Repair as Repair
    from ._repair import repair as repair
    from ._repair_plan import Action as Action
    from ._repair_plan import Deed as Deed
    from ._report import Failure as Failure
    from ._report import Report as Report
    from ._report import collect_failures as collect_failures
    from ._report import failure_handler as failure_handler
    from ._run_tasks import run_tasks as run_tasks
    from ._select_samples import select as select
    from ._shard_report import CheckOptions as CheckOptions
    from ._shard_report import ShardReport as ShardReport
    from ._shard_task import ShardResult as ShardResult
    from ._show_samples import ShownField as ShownField
    from ._show_samples import ShownSample as ShownSample
    from ._show_samples import field_rows as field_rows
    from ._show_samples import show_samples as show_samples
    from ._simulate import ReaderShare as ReaderShare
    from ._simulate import Simulation as Simulation
    from ._simulate import simulate as simulate
    from ._sort import shuffle as shuffle
    from ._sort import sort as sort
    from ._split import split as split
    from ._stored_versions import MISSING as MISSING
    from ._stored_versions import version_of as version_of
    from ._verb_options import DEFAULTS as DEFAULTS
    from ._verb_options import Options as Options

# The module of each name. A command needs one verb, and loading all of them takes 0.1 s.
_MODULES = {
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
    "_load_function": "load_function names_function",
    "_map_shards": "map_shards",
    "_mix_inputs": "MixSource mix parse_mix_source read_mix_sources",
    "_partition": "Parts partition read_lists",
    "_proc": "proc",
    "_query": "Answer query",
    "_read_inputs": "CountStage expand_inputs read_list read_shard_list warn_of_lacking",
    "_recode": "recode",
    "_rename_fields": "rename",
    "_repair": "Repair repair",
    "_repair_plan": "Action Deed",
    "_report": "Failure Report collect_failures failure_handler",
    "_run_tasks": "run_tasks",
    "_select_samples": "select",
    "_shard_report": "CheckOptions ShardReport",
    "_shard_task": "ShardResult",
    "_random_shares": "Shares parse_shares",
    "_show_samples": "ShownField ShownSample field_rows show_samples",
    "_simulate": "ReaderShare Simulation simulate",
    "_sort": "shuffle sort",
    "_split": "split",
    "_stored_versions": "MISSING version_of",
    "_output_target": "existing refuse_description refuse_existing series_members store_description",
    "_verb_options": "DEFAULTS Options",
}
_LAZY, _load = lazy_names(__name__, _MODULES)

__all__ = sorted(_LAZY)  # noqa: PLE0605  # from the table

if not TYPE_CHECKING:  # a type checker would believe that every name exists
    __getattr__ = _load
