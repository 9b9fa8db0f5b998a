"""Which shards of a job are finished: one process at a time, no secrets, and no shard taken for another."""

import errno
import os

import pytest

from tests.stores.fakes import answer, body_of, send_object
from webdataset import stores
from webdataset.errors import StateError, StoreError
from webdataset.testing import LoopbackServer, SystemFaults
from webdataset.tools import map_shards
from webdataset.tools._ledger import Ledger
from webdataset.tools._read_inputs import expand_inputs
from webdataset.tools._report import settle_failure
from webdataset.tools._shard_task import ShardResult
from webdataset.writers import TarWriter


def test_two_drivers(tmp_path):
    with Ledger(tmp_path / "ledger", "job"), pytest.raises(StateError, match="another process"):
        Ledger(tmp_path / "ledger", "job")


def test_where_locks_fail_the_ledger_of_another_process_stays(tmp_path):
    with Ledger(tmp_path / "ledger", "job") as other:  # which has made the file, and written nothing yet
        with SystemFaults(1, errno.EIO, lasting=True, only={"flock"}), pytest.raises(StoreError, match="error"):
            Ledger(tmp_path / "ledger", "job")
        other.begin()
    with Ledger(tmp_path / "ledger", "job") as later:
        assert not later.fresh
    assert os.listdir(tmp_path) == ["ledger"]


def test_links_that_differ_in_their_tokens_are_different_shards(tmp_path):
    urls = expand_inputs([f"https://h/download?token={word}" for word in ("one", "two", "three")])
    with Ledger(tmp_path / "ledger", "job") as ledger:
        ledger.begin()
        ledger.finish(ShardResult(urls[1], "1.tar", 1, 1, 1, 1, ""))
        ledger.quarantine(urls[2], "broken")
    with Ledger(tmp_path / "ledger", "job") as ledger:
        assert [url in ledger.finished for url in urls] == [False, True, False]
        assert [url in ledger.quarantined for url in urls] == [False, False, True]


def test_a_ledger_has_no_secrets_and_knows_a_shard_by_another_signature(tmp_path):
    results = [ShardResult(f"https://h/{n}.tar?sig=one", f"{n}.tar", 1, 1, 1, 1, "") for n in range(3)]
    with Ledger(tmp_path / "ledger", "curl --token one") as ledger:
        ledger.begin()
        ledger.finish(results[0])
        ledger.quarantine(results[1].input, f"cannot read {results[1].input}")
    assert "one" not in (tmp_path / "ledger").read_text()
    with Ledger(tmp_path / "ledger", "curl --token two") as ledger:
        urls = [result.input.replace("one", "two") for result in results]
        assert [url in ledger.finished for url in urls] == [True, False, False]
        assert [url in ledger.quarantined for url in urls] == [False, True, False]


class Complain:
    """A stage that keeps every sample and notes that it could not use it."""

    def __call__(self, samples):
        for sample in samples:
            yield from settle_failure(sample, ValueError(f"cannot use {sample['__url__']}"), "keep")


def test_a_job_with_signed_addresses_writes_no_secret_and_skips_what_has_another_signature(tmp_path):
    """Signatures are made anew for each run, of inputs and of outputs, some of which differ in nothing else."""
    stored = {}

    def respond(handler):
        if handler.command == "PUT":
            stored[handler.path] = body_of(handler)
            return answer(handler, 201)
        data = stored.get(handler.path.replace("two", "one"))
        return answer(handler, 404) if data is None else send_object(handler, data)

    with LoopbackServer(respond) as server:
        for name in "abc":
            with TarWriter(server.url(f"in-{name}?sig=one")) as writer:
                writer.write({"__key__": name, "txt": name})
        ledger = tmp_path / "ledger"
        for word in ("one", "two"):
            inputs = [server.url(f"in-{name}?sig={word}") for name in "abc"]
            outputs = [server.url(f"out?sig={word}-{name}") for name in "ab"] + [server.url(f"out-c?sig={word}")]
            report = map_shards(Complain(), inputs, outputs, ledger=ledger, index=False, job="complain")
            assert (report.done, report.skipped) == ((3, 0) if word == "one" else (0, 3))
            assert list(report.outputs) == outputs  # as the user wrote them
            assert len(report.failed) == (3 if word == "one" else 0)
            assert not [text for text in (ledger.read_text(), repr(report)) if f"sig={word}" in text]
            assert not any(word in str(failure) for failure in report.failed)
    stores.close_connections()
