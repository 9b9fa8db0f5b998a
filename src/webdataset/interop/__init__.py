"""Other formats: in and out.

In: datasets of other kinds (TFRecord, parquet, Hugging Face, MDS, LitData, FFCV, folders, zip, npz, HDF5), at any
address that `stores` reads. Out: samples, or files of another kind. Each format is a small class with the same methods
(`Format`), so that reading in a pipeline (`read`), writing (`write`) and converting (`convert`) are written once. This
package does not know how bytes are fetched (`stores`), how fields are encoded (`codecs`) or how a pipeline runs
(`pipeline`).

    _record_format      what a format, an open file and a sink are
    _format_table       which formats there are
    _field_mapping      names of records → fields of samples      _guess_mapping      a mapping from the first records
    _sample_of_record   records → samples                         _read_records       a stage over files of any format
    _record_dataset     a pipeline over files of any format       _rolling_sink       one file or a series
    _convert            from one format to another                _convert_files      the work on each file
    _byte_ranges        bytes at any offset of an object          _staged_directory   a directory, complete or absent
    _tar_format         tar shards
    _tfrecord           TFRecord files, read                      _tfrecord_writer    and written
    _tfrecord_frames    the frames in them, with checksums        _tf_example         the protobuf messages in them
    _tfrecord_index     their index files
    _parquet            parquet and Arrow, read                   _parquet_writer     and written
    _from_hugging_face  `from_hf`                                 _to_hugging_face    `to_hf`
    _mds                MosaicML MDS, read                        _mds_writer         and written
    _mds_values         the values in MDS
    _litdata            LitData
    _beton              FFCV, read                                _beton_writer       and written
    _beton_fields       the fields in FFCV
    _image_folder       folders of images                         _cifar, _mnist      CIFAR and MNIST
    _zip_samples        zip archives of samples                   _npz_rows, _hdf5    arrays with a row per sample
    dali                what DALI's reader needs
"""

from . import dali
from ._beton import Beton
from ._beton_fields import ImageOptions
from ._cifar import Cifar
from ._convert import Converted, convert, suggest_mapping
from ._field_mapping import FieldMapping, Pair
from ._format_table import FORMATS, find_format
from ._from_hugging_face import HuggingFaceDataset, ReadHuggingFace, from_hf
from ._guess_mapping import guess_mapping
from ._hdf5 import HDF5
from ._image_folder import ImageFolder
from ._litdata import LitData
from ._mds import MDS
from ._mnist import MNIST
from ._npz_rows import Npz
from ._parquet import Arrow, Parquet
from ._read_records import ReadRecords
from ._record_dataset import RecordDataset, read
from ._record_format import Format, Part, Record, RecordFile, RecordSink
from ._rolling_sink import RollingSink, write
from ._tar_format import Tar
from ._tf_example import Steps, parse_example, write_example
from ._tfrecord import TFRecord
from ._tfrecord_index import write_tfrecord_index
from ._to_hugging_face import to_hf
from ._zip_samples import ZipSamples

__all__ = [
    "FORMATS",
    "HDF5",
    "MDS",
    "MNIST",
    "Arrow",
    "Beton",
    "Cifar",
    "Converted",
    "FieldMapping",
    "Format",
    "HuggingFaceDataset",
    "ImageFolder",
    "ImageOptions",
    "LitData",
    "Npz",
    "Pair",
    "Parquet",
    "Part",
    "ReadHuggingFace",
    "ReadRecords",
    "Record",
    "RecordDataset",
    "RecordFile",
    "RecordSink",
    "RollingSink",
    "Steps",
    "TFRecord",
    "Tar",
    "ZipSamples",
    "convert",
    "dali",
    "find_format",
    "from_hf",
    "guess_mapping",
    "parse_example",
    "read",
    "suggest_mapping",
    "to_hf",
    "write",
    "write_example",
    "write_tfrecord_index",
]
