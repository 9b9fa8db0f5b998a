"""Stages: a stream of samples comes in, another stream goes out.

A stage is a frozen dataclass: its arguments are checked where they are written, it pickles, and its `repr` is the call
that made it. The seeds' lower-case name is its constructor: `shuffle(1000)` makes a `Shuffle`. Most stages are
functions of one item, which a pipeline fuses and may run on threads; the others hold items and say so in their
progress.

This package does not know where samples come from, what a field means, or how many processes there are.

Functions of one sample:
    `_map` one function for every sample · `_map_dict` one per field · `_map_tuple` one per position · `_select` some of
    the samples · `_to_tuple` fields in order · `_rename` fields by new names · `_extract_keys`, `_rename_keys` the same
    by pattern · `_associate` fields from a table · `_decode` bytes to values · `_xdecode` the same by pattern · `_info`
    prints samples
Streams:
    `_shuffle` random order · `_detshuffle` the same with its own epoch counter · `_batched` many as one · `_unbatched`
    one as many · `_bucketed` batches of similar lengths · `_packed` sequences side by side · `_slice` a range ·
    `_rsample` a random part · `_log_keys` a record of keys · `_join_columns` samples of parallel datasets ·
    `_repeatedly` several passes
Caches of samples:
    `_cached` in memory · `_lmdb_cached` in LMDB · `_db_cache` in SQLite · `_record_replay` what they share
Batches:
    `_collate` columns, copied once · `_padded` columns of different lengths
What they are made of:
    `_ask_handler` failures and handlers · `_buffers` progress of buffers · `_random_draws` draws with a one-number
    state · `_rng` random numbers of a sample · `_field_names` names of fields · `_curry` stages from functions
    and back · `_pick` a random item · `_returns_nothing` functions without a result
"""

from typing import TYPE_CHECKING

from webdataset.lazy_names import lazy_names

if TYPE_CHECKING:
    from ._ask_handler import answer as answer
    from ._ask_handler import guarded as guarded
    from ._ask_handler import locate as locate
    from ._associate import Associate as Associate
    from ._batched import Batched as Batched
    from ._batched import Listed as Listed
    from ._bucketed import Bucketed as Bucketed
    from ._cached import Cached as Cached
    from ._collate import combine_columns as combine_columns
    from ._collate import combine_values as combine_values
    from ._collate import default_collation_fn as default_collation_fn
    from ._collate import dict2tuple as dict2tuple
    from ._collate import tuple2dict as tuple2dict
    from ._curry import FilterFunction as FilterFunction
    from ._curry import RestCurried as RestCurried
    from ._curry import Uncurried as Uncurried
    from ._curry import pipelinefilter as pipelinefilter
    from ._db_cache import DBCache as DBCache
    from ._decode import Decode as Decode
    from ._decode import ImageOptions as ImageOptions
    from ._detshuffle import DetShuffle as DetShuffle
    from ._extract_keys import ExtractKeys as ExtractKeys
    from ._field_names import getfirst as getfirst
    from ._field_names import parse_field_spec as parse_field_spec
    from ._info import Info as Info
    from ._join_columns import JoinColumns as JoinColumns
    from ._join_columns import join_samples as join_samples
    from ._lmdb_cached import LMDBCached as LMDBCached
    from ._log_keys import LogKeys as LogKeys
    from ._map import Map as Map
    from ._map_dict import MapDict as MapDict
    from ._map_tuple import MapTuple as MapTuple
    from ._map_tuple import transform_with as transform_with
    from ._packed import Packed as Packed
    from ._padded import PaddedCollation as PaddedCollation
    from ._pick import pick as pick
    from ._rename import Rename as Rename
    from ._rename_keys import RenameKeys as RenameKeys
    from ._repeatedly import guess_batchsize as guess_batchsize
    from ._repeatedly import repeatedly as repeatedly
    from ._rng import rng as rng
    from ._rsample import RSample as RSample
    from ._select import Select as Select
    from ._shuffle import Shuffle as Shuffle
    from ._shuffle import ShuffleOptions as ShuffleOptions
    from ._slice import Slice as Slice
    from ._to_tuple import ToTuple as ToTuple
    from ._unbatched import Unbatched as Unbatched
    from ._unbatched import Unlisted as Unlisted
    from ._xdecode import XDecode as XDecode
    from ._xdecode import decode_bin as decode_bin
    from ._xdecode import decode_pickle as decode_pickle
    from ._xdecode import decode_text as decode_text
    from ._xdecode import default_decoders as default_decoders
    from ._xdecode import find_decoder as find_decoder

    associate = Associate
    batched = Batched
    bucketed = Bucketed
    decode = Decode
    detshuffle = DetShuffle
    extract_keys = ExtractKeys
    info = Info
    join_columns = JoinColumns
    listed = Listed
    log_keys = LogKeys
    map = Map
    map_dict = MapDict
    map_tuple = MapTuple
    packed = Packed
    padded_collation = PaddedCollation
    rename = Rename
    rename_keys = RenameKeys
    rsample = RSample
    select = Select
    shuffle = Shuffle
    slice = Slice
    to_tuple = ToTuple
    unbatched = Unbatched
    unlisted = Unlisted
    xdecode = XDecode

# The file of each name. A pipeline needs a few stages, and loading all of them takes 13 ms.
_FILES = {
    "_ask_handler": "answer guarded locate",
    "_associate": "Associate associate=Associate",
    "_batched": "Batched Listed batched=Batched listed=Listed",
    "_bucketed": "Bucketed bucketed=Bucketed",
    "_cached": "Cached",
    "_collate": "combine_columns combine_values default_collation_fn dict2tuple tuple2dict",
    "_curry": "FilterFunction RestCurried Uncurried pipelinefilter",
    "_db_cache": "DBCache",
    "_decode": "Decode ImageOptions decode=Decode",
    "_detshuffle": "DetShuffle detshuffle=DetShuffle",
    "_extract_keys": "ExtractKeys extract_keys=ExtractKeys",
    "_field_names": "getfirst parse_field_spec",
    "_info": "Info info=Info",
    "_join_columns": "JoinColumns join_columns=JoinColumns join_samples",
    "_lmdb_cached": "LMDBCached",
    "_log_keys": "LogKeys log_keys=LogKeys",
    "_map": "Map map=Map",
    "_map_dict": "MapDict map_dict=MapDict",
    "_map_tuple": "MapTuple map_tuple=MapTuple transform_with",
    "_packed": "Packed packed=Packed",
    "_padded": "PaddedCollation padded_collation=PaddedCollation",
    "_pick": "pick",
    "_rename": "Rename rename=Rename",
    "_rename_keys": "RenameKeys rename_keys=RenameKeys",
    "_repeatedly": "guess_batchsize repeatedly",
    "_rng": "rng",
    "_rsample": "RSample rsample=RSample",
    "_select": "Select select=Select",
    "_shuffle": "Shuffle ShuffleOptions shuffle=Shuffle",
    "_slice": "Slice slice=Slice",
    "_to_tuple": "ToTuple to_tuple=ToTuple",
    "_unbatched": "Unbatched Unlisted unbatched=Unbatched unlisted=Unlisted",
    "_xdecode": "XDecode decode_bin decode_pickle decode_text default_decoders find_decoder xdecode=XDecode",
}
_LAZY, _load = lazy_names(__name__, _FILES)

__all__ = sorted(_LAZY)  # noqa: PLE0605  # from the table

if not TYPE_CHECKING:  # a type checker would believe that every name exists
    __getattr__ = _load
