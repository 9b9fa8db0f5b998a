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
    a look at samples
Streams:
    `_shuffle` random order · `_detshuffle` the same with its own epoch counter · `_batched` many as one · `_unbatched`
    one as many · `_bucketed` batches of similar lengths · `_packed` sequences side by side · `_slice` a stretch ·
    `_rsample` a random part · `_log_keys` a record of keys · `_join_columns` samples of parallel datasets ·
    `_repeatedly` again and again
Caches of samples:
    `_cached` in memory · `_lmdb_cached` in LMDB · `_db_cache` in SQLite · `_record_replay` what they share
Batches:
    `_collate` columns, copied once · `_padded` columns of different lengths · `_sample_length` how long a sample is
What they are made of:
    `_ask_handler` failures and handlers · `_buffers` progress of buffers · `_random_draws` draws with a one-number
    state · `_rng` random numbers of a sample · `_field_names` names of fields · `_curry` stages from functions
    and back · `_pick` a random item · `_returns_nothing` functions without a result
"""

from ._ask_handler import answer, guarded, locate
from ._associate import Associate
from ._batched import Batched, Listed
from ._bucketed import Bucketed
from ._cached import Cached
from ._collate import combine_columns, combine_values, default_collation_fn, dict2tuple, tuple2dict
from ._curry import FilterFunction, RestCurried, Uncurried, pipelinefilter
from ._db_cache import DBCache
from ._decode import Decode, ImageOptions
from ._detshuffle import DetShuffle
from ._extract_keys import ExtractKeys
from ._field_names import getfirst, parse_field_spec
from ._info import Info
from ._join_columns import JoinColumns, join_samples
from ._lmdb_cached import LMDBCached
from ._log_keys import LogKeys
from ._map import Map
from ._map_dict import MapDict
from ._map_tuple import MapTuple, transform_with
from ._packed import Packed
from ._padded import PaddedCollation
from ._pick import pick
from ._rename import Rename
from ._rename_keys import RenameKeys
from ._repeatedly import guess_batchsize, repeatedly
from ._rng import rng
from ._rsample import RSample
from ._select import Select
from ._shuffle import Shuffle, ShuffleOptions
from ._slice import Slice
from ._to_tuple import ToTuple
from ._unbatched import Unbatched, Unlisted
from ._xdecode import XDecode, decode_bin, decode_pickle, decode_text, default_decoders, find_decoder

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

__all__ = [
    "Batched",
    "Bucketed",
    "Cached",
    "DBCache",
    "Decode",
    "FilterFunction",
    "ImageOptions",
    "LMDBCached",
    "Listed",
    "Map",
    "Rename",
    "RestCurried",
    "Select",
    "Shuffle",
    "ShuffleOptions",
    "Unbatched",
    "Uncurried",
    "Unlisted",
    "XDecode",
    "answer",
    "associate",
    "batched",
    "bucketed",
    "combine_columns",
    "combine_values",
    "decode",
    "decode_bin",
    "decode_pickle",
    "decode_text",
    "default_collation_fn",
    "default_decoders",
    "detshuffle",
    "dict2tuple",
    "extract_keys",
    "find_decoder",
    "getfirst",
    "guarded",
    "guess_batchsize",
    "info",
    "join_columns",
    "join_samples",
    "listed",
    "locate",
    "log_keys",
    "map",
    "map_dict",
    "map_tuple",
    "packed",
    "padded_collation",
    "parse_field_spec",
    "pick",
    "pipelinefilter",
    "rename",
    "rename_keys",
    "repeatedly",
    "rng",
    "rsample",
    "select",
    "shuffle",
    "slice",
    "to_tuple",
    "transform_with",
    "tuple2dict",
    "unbatched",
    "unlisted",
    "xdecode",
]
