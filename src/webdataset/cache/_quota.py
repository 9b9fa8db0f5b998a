"""The size limit of a cache directory. It counts shards that are being fetched; the least recently used go first."""

from __future__ import annotations

import os
import secrets
import time
from contextlib import suppress
from dataclasses import replace

from ._locks import Locks
from ._records import Claim, Records, fill_lock

# Bytes for a shard of unknown size are reserved in steps of this size.
STEP = 16 << 20
# Seconds that the part of a killed process is kept for the next reader of the same shard.
_RESUMABLE = 24 * 3600.0
# Seconds after which a half-written record of another machine is removed; writing one takes milliseconds.
_WRITTEN = 60.0


class Quota:
    """Decides what may be written and what is evicted, under one lock of the directory.

    Args:
        records: The files and records of the directory.
        locks: Its locks.
        limit: Bytes; negative for none.
    """

    def __init__(self, records: Records, locks: Locks, limit: int) -> None:
        self._records, self._locks, self.limit = records, locks, limit

    def begin(self, name: str, claim: Claim) -> str | None:
        """A token for a new part, with its bytes reserved; None when they do not fit."""
        token = secrets.token_hex(4)
        with self._locks.holding("room"):
            if not self._fits(claim.reserved, besides=(name, token)):
                return None
            try:
                with open(self._records.part(name, token), "xb"):
                    pass
                self._records.write_claim(name, token, claim)
            except BaseException:
                self._records.remove_part(name, token)
                raise
        return token

    def grow(self, name: str, token: str, claim: Claim, reserved: int) -> Claim | None:
        """The claim with more bytes reserved, or None."""
        larger = replace(claim, reserved=reserved)
        if self.limit < 0:
            return larger
        with self._locks.holding("room"):
            if not self._fits(reserved, besides=(name, token)):
                return None
            self._records.write_claim(name, token, larger)
        return larger

    def sweep(self) -> None:
        """Remove files of killed processes that no reader can use."""
        with self._locks.holding("room"):
            for name, token in list(self._records.parts()):
                if self._abandoned(name, token):
                    self._drop_part(name, token)
            for path, dead in self._records.half_written():
                with suppress(FileNotFoundError):
                    if dead or time.time() - os.stat(path).st_mtime > _WRITTEN:
                        os.unlink(path)

    def _abandoned(self, name: str, token: str) -> bool:
        try:
            age = time.time() - os.stat(self._records.part(name, token)).st_mtime
        except FileNotFoundError:  # published just now, or never begun
            return True
        return age > _RESUMABLE or self._records.claim(name, token) is None

    def _drop_part(self, name: str, token: str) -> bool:
        """Remove a part, unless a process is writing it."""
        if not self._locks.try_acquire(fill_lock(name)):
            return False
        try:
            self._records.remove_part(name, token)
        finally:
            self._locks.release(fill_lock(name))
        return True

    def _fits(self, wanted: int, besides: tuple[str, str]) -> bool:
        """Whether `wanted` bytes fit, after evicting what was used least recently."""
        if self.limit < 0 or wanted > self.limit:
            return self.limit < 0
        held = {(name, ""): (size, used) for name, size, used in self._records.entries()}
        for name, token in self._records.parts():
            if (name, token) != besides:
                held[name, token] = self._held_by_part(name, token)
        excess = wanted + sum(size for size, _ in held.values()) - self.limit
        for name, token in sorted(held, key=lambda entry: held[entry][1]):
            if excess <= 0:
                break
            if self._drop(name, token):
                excess -= held[name, token][0]
        return excess <= 0

    def _drop(self, name: str, token: str) -> bool:
        if token:
            return self._drop_part(name, token)
        self.forget(name)
        return True

    def forget(self, name: str) -> None:
        """Remove a published shard, and its lock if no process is about to fetch it again."""
        self._records.forget(name)
        self._locks.discard(fill_lock(name))

    def _held_by_part(self, name: str, token: str) -> tuple[int, int]:
        claim = self._records.claim(name, token)
        try:
            found = os.stat(self._records.part(name, token))
        except FileNotFoundError:
            return 0, 0
        return max(found.st_size, claim.reserved if claim else 0), found.st_mtime_ns
