"""Contracts and tools for tests, of this package and of programs that extend it.

In: an implementation of one of the package's extension points. Out: passed or failed tests. This package imports all
others; no other package imports it.

* `_web_server`      a loopback web server
* `_fault_server`    a web server that fails in chosen ways at chosen bytes
* `_faults`          what can go wrong with a download, in seeded schedules
* `_system_faults`   the n-th system call fails
* `_make_shard`      a shard in one line
* `_store_contract`  what every store must do
* `_codec_contract`  what every codec must do
* `_stage_contract`  what every stage must do
* `_resume_check`    a pipeline resumes from every point
"""

from ._codec_contract import CodecContract
from ._fault_server import FaultServer
from ._faults import LASTING, PASSING, Fault, Schedule
from ._make_shard import make_shard
from ._resume_check import assert_resumes_everywhere
from ._stage_contract import StageContract
from ._store_contract import StoreContract
from ._system_faults import ERRORS, SystemFaults
from ._web_server import LoopbackServer

__all__ = [
    "ERRORS",
    "LASTING",
    "PASSING",
    "CodecContract",
    "Fault",
    "FaultServer",
    "LoopbackServer",
    "Schedule",
    "StageContract",
    "StoreContract",
    "SystemFaults",
    "assert_resumes_everywhere",
    "make_shard",
]
