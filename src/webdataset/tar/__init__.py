"""tar."""

from ._write import END_OF_ARCHIVE as END_OF_ARCHIVE
from ._write import encode_header as encode_header
from ._write import padding as padding
