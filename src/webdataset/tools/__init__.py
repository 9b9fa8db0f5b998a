"""One function per verb of `wds`. Addresses and options come in, typed values go out; nothing here prints.

Verbs:
    _cat             shards one after the other, as one stream
What they share:
    _read_inputs     input addresses → a stream of samples
    _target          what `-o` means, and which outputs exist
    _write_samples   a stream of samples → one archive or a series
    _report          what a verb that writes shards returns
"""

from ._cat import cat
from ._report import Failure, Report

__all__ = ["Failure", "Report", "cat"]
