"""Find the fields that cannot be decoded, on several threads: image decoders release the GIL."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from webdataset.codecs import Decoder
from webdataset.errors import MissingDependency, UnsafeContent

from ._findings import Findings, Kind

# Samples that wait to be decoded, for each thread.
_WAITING = 4

_PICTURES = {"jpeg": b"\xff\xd8\xff", "png": b"\x89PNG", "gif": b"GIF8", "bmp": b"BM", "webp": b"RIFF"}
_EXTENSIONS = {"jpg": "jpeg", **{kind: kind for kind in _PICTURES}}


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a field cannot be decoded, or is not what its name says."""

    kind: Kind
    what: str
    field: str


def decode_faults(fields: Mapping[str, bytes], decoder: Decoder) -> list[Fault]:
    """The faults in the fields of one sample.

    >>> [fault.kind.value for fault in decode_faults({"json": b"{", "txt": b"a", "cls": b"7"}, field_decoder())]
    ['undecodable-field']
    """
    faults = []
    for field, data in fields.items():
        try:
            decoder.decode({field: data})
        except MissingDependency as error:
            faults.append(Fault(Kind.NOT_CHECKED, f"the field is not decoded: {error.what}", field))
        except UnsafeContent as error:
            faults.append(Fault(Kind.UNSAFE, error.what, field))
        except Exception as error:  # of any class, from a codec
            faults.append(Fault(Kind.UNDECODABLE, getattr(error, "what", "") or str(error), field))
        else:
            faults += _wrong_extension(field, data)
    return faults


def field_decoder() -> Decoder:
    """A decoder for everything that this machine can decode, except video, which takes too long."""
    return Decoder(["rgb8", "audio"])


def _wrong_extension(field: str, data: bytes) -> list[Fault]:
    said = _EXTENSIONS.get(field.rpartition(".")[2])
    found = next((kind for kind, start in _PICTURES.items() if data.startswith(start)), None)
    if said is None or found is None or said == found:
        return []
    return [Fault(Kind.WRONG_EXTENSION, f"the field is a {found.upper()} file", field)]


class DecodeChecker:
    """Checks samples on `threads` threads and records what is wrong, in the order of the samples."""

    def __init__(self, findings: Findings, threads: int) -> None:
        self._findings = findings
        self._decoder = field_decoder()
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None
        self._most = threads * _WAITING
        self._running: deque[tuple[str, Mapping[str, int], Future[list[Fault]]]] = deque()
        self._not_checked: set[str] = set()

    def add(self, key: str, fields: Mapping[str, bytes], offsets: Mapping[str, int]) -> None:
        """Check the fields of one sample, at once or on a thread."""
        if self._pool is None:
            self._note(key, offsets, decode_faults(fields, self._decoder))
            return
        self._running.append((key, offsets, self._pool.submit(decode_faults, fields, self._decoder)))
        while len(self._running) > self._most:
            self._finish_first()

    def close(self) -> None:
        """Wait for what is still running."""
        while self._running:
            self._finish_first()
        if self._pool is not None:
            self._pool.shutdown()

    def _finish_first(self) -> None:
        key, offsets, result = self._running.popleft()
        self._note(key, offsets, result.result())

    def _note(self, key: str, offsets: Mapping[str, int], faults: list[Fault]) -> None:
        for fault in faults:
            if fault.kind is Kind.NOT_CHECKED:
                ending = fault.field.rpartition(".")[2]
                if ending not in self._not_checked:
                    self._not_checked.add(ending)
                    self._findings.add(fault.kind, fault.what, field=ending)
                continue
            self._findings.add(fault.kind, fault.what, key=key, field=fault.field, offset=offsets.get(fault.field))
