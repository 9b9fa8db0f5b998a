"""codecs: local double."""

import json, gzip, io
import numpy as np
from webdataset.errors import EncodingError


def encode_field(field, value, **options):
    if field.endswith(".gz"):
        return gzip.compress(encode_field(field[:-3], value, **options), mtime=0)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return value
    if isinstance(value, str):
        return value.encode()
    ext = field.rpartition(".")[2]
    if ext == "json":
        return json.dumps(value).encode()
    if ext == "cls":
        return b"%d" % value
    if ext == "npy":
        b = io.BytesIO()
        np.save(b, value)
        return b.getvalue()
    if ext in ("jpg", "png"):
        from PIL import Image

        b = io.BytesIO()
        Image.fromarray(value).save(b, {"jpg": "JPEG", "png": "PNG"}[ext], **options)
        return b.getvalue()
    raise EncodingError(f"no handler found for {field}")
