"""No verb prints a secret of an address, whatever it prints it for: a result, a finding, a log line, JSON."""

import json
import traceback

import click
import pytest
from click.testing import CliRunner

from webdataset import stores
from webdataset.cli._main import wds
from webdataset.errors import WebDatasetError
from webdataset.testing import LoopbackServer
from webdataset.writers import TarWriter

SECRET = "Zq7S3cr3tW0rd"  # noqa: S105
POSITIONS = {
    "password": "http://me:{s}@{h}/{name}",
    "token": "http://{h}/{name}?token={s}",
    "command": "pipe:cat {name} # --token {s}",
}
VERBS = {
    "bench": [],
    "convert": ["out.tar"],
    "get": ["0", "txt"],
    "partition": ["-o", "{part}-%d.tar", "-p", "a=0.5", "-p", "b=0.5"],
    "reshard": ["-n", "2", "-o", "out-%d.tar"],
    "cat": ["-o", "out.tar"],
    "check": [],
    "check --fix": ["--fix", "-o", "fixed/"],
    "diff": ["whole.tar"],
    "first": ["-f", "txt"],
    "grep": ["x"],
    "index create": ["--index", "."],
    "index info": [],
    "join": ["-o", "out.tar", "-w", "whole.tar"],
    "ls": ["-l"],
    "mix": ["-o", "out.tar"],
    "proc": ["-c", "true", "-o", "out/"],
    "query": ["select * from samples"],
    "recode": ["-o", "out.tar"],
    "rename": ["-o", "out.tar"],
    "select": ["-o", "out.tar"],
    "show": [],
    "shuffle": ["-o", "out.tar"],
    "simulate": [],
    "sort": ["-o", "out.tar"],
    "split": ["-n", "2", "-o", "out-%d.tar"],
    "stats": [],
}
FIRST = {"get", "grep", "query"}  # what is asked for comes before the shards
asked = []  # the credentials of each request


@pytest.fixture
def host(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WDS_RETRIES", "0")
    with TarWriter("whole.tar") as writer:
        for number in range(5):
            writer.write({"__key__": str(number), "txt": b"x", "jpg": b"not a picture"})
    data = (tmp_path / "whole.tar").read_bytes()
    (tmp_path / "cut.tar").write_bytes(data[:3000])

    asked.clear()

    def respond(handler):
        asked.append(handler.headers.get("Authorization"))
        path = tmp_path / handler.path.partition("?")[0].lstrip("/")
        status, body = (200, path.read_bytes()) if path.is_file() else (404, b"no " + handler.path.encode())
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        if handler.command != "HEAD":
            handler.wfile.write(body)

    with LoopbackServer(respond) as server:
        yield server.url("").removeprefix("http://").rstrip("/")
    stores.close_connections()


def test_every_verb_that_takes_shards_is_here():
    others = {"create", "doctor", "monitor", "serve", "view"}  # recipes, no shards, pages and programs
    assert {verb.split()[0] for verb in VERBS} | others == set(wds.list_commands(click.Context(wds)))


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("verb", VERBS)
def test_no_verb_prints_a_secret(verb, position, host, tmp_path):
    for name in ("whole.tar", "cut.tar", "missing.tar"):
        url = POSITIONS[position].format(s=SECRET, h=host, name=name)
        rest = VERBS[verb]
        arguments = [*verb.split(" --")[0].split(), *([*rest, url] if verb in FIRST else [url, *rest])]
        for how in ([], ["--json"], ["-vv", "--traceback"]):
            said = CliRunner().invoke(wds, [*arguments, *how])
            assert "No such" not in said.output and "Usage:" not in said.output, said.output
            assert SECRET not in said.output, said.output
            if said.exception is not None:
                assert isinstance(said.exception, SystemExit | WebDatasetError), said.exception
                assert SECRET not in "".join(traceback.format_exception(said.exception))
    for path in tmp_path.rglob("*"):  # indexes, ledgers, outputs
        assert SECRET not in path.name
        assert path.is_dir() or SECRET.encode() not in path.read_bytes(), path


@pytest.mark.parametrize("verb", VERBS)
def test_no_verb_sends_credentials_to_the_host_that_a_description_names(verb, host, tmp_path, monkeypatch):
    (tmp_path / "netrc").write_text(f"machine 127.0.0.1 login me password {SECRET}")
    (tmp_path / "netrc").chmod(0o600)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    shard = {"url": f"http://{host}/whole.tar", "nsamples": 5}
    (tmp_path / "d.json").write_text(json.dumps({"wids_version": 1, "shardlist": [shard]}))
    words, rest = verb.split(" --")[0].split(), VERBS[verb]
    CliRunner().invoke(wds, [*words, *([*rest, "d.json"] if verb in FIRST else ["d.json", *rest])])
    assert asked or verb in {"convert", "index info", "recode", "select"}  # which need more words, or no shard
    assert set(asked) <= {None}
