"""tenbin: arrays as raw bytes with a short header, for files (`.ten`) and for sockets.

    file   = chunk*                     array = header chunk, data chunk
    chunk  = magic "~TenBin~" | int64 length | payload | zeros up to a multiple of 64
    header = int64 words: dtype code, info (each 8 ASCII bytes, padded with NUL), ndim, dim 0, dim 1, …

All integers are little-endian, data is in C order. `bool` (b1) and `bfloat16` (bf16) extend the public table;
bfloat16 arrays are torch tensors, because NumPy has no such type. In: arrays or bytes. Out: the other of the two. This
package does not know samples. It is `webdataset.tenbin`.

    _array_header  one array: type code, header, bytes      _chunks  several arrays in parts or in one buffer
    _files         arrays in streams and files
"""

from ._array_header import (
    bytedata,
    bytelen,
    check_acceptable_input_type,
    decode_header,
    encode_header,
    long_to_short,
    short_to_long,
    str64,
    unstr64,
)
from ._chunks import (
    check_infos,
    decode_buffer,
    decode_chunks,
    decode_list,
    encode_buffer,
    encode_chunks,
    encode_list,
    magic,
    magic_bytes,
    magic_str,
    roundup,
    tenbin_dumps,
    tenbin_loads,
)
from ._files import load, read, read_chunk, save, write, write_chunk

__all__ = [
    "bytedata",
    "bytelen",
    "check_acceptable_input_type",
    "check_infos",
    "decode_buffer",
    "decode_chunks",
    "decode_header",
    "decode_list",
    "encode_buffer",
    "encode_chunks",
    "encode_header",
    "encode_list",
    "load",
    "long_to_short",
    "magic",
    "magic_bytes",
    "magic_str",
    "read",
    "read_chunk",
    "roundup",
    "save",
    "short_to_long",
    "str64",
    "tenbin_dumps",
    "tenbin_loads",
    "unstr64",
    "write",
    "write_chunk",
]
