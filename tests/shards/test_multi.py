from itertools import islice

import pytest

from webdataset.errors import ObsoleteException, SpecError, UnsafeContent
from webdataset.flow import Pass
from webdataset.shards import MultiShardSample, SimpleShardList, parse_spec, shardspec

SPEC = """
prefix: "s3://all/"
datasets:
  - {name: a, buckets: [one], shards: ["a-{0..9}.tar"], choose: 3}
  - {name: b, buckets: [two], shards: ["b-{0..1}.tar"], resample: 5}
  - {name: c, buckets: ["$TEST_BUCKET"], shards: "c.tar"}
"""


@pytest.fixture
def allowed(monkeypatch):
    monkeypatch.setenv("ALLOW_OBSOLETE", "1")
    monkeypatch.setenv("TEST_BUCKET", "three")


def urls(items):
    return [item["url"] for item in items]


def test_needs_the_switch(monkeypatch):
    monkeypatch.delenv("ALLOW_OBSOLETE", raising=False)
    with pytest.raises(ObsoleteException, match="ALLOW_OBSOLETE"):
        MultiShardSample({})


def test_yaml_spec(allowed, tmp_path):
    (tmp_path / "spec.yaml").write_text(SPEC)
    source = shardspec(f"{tmp_path}/spec.yaml")
    assert isinstance(source, MultiShardSample)
    first, second = urls(source), urls(source)
    for shards in (first, second):
        of = {name: [url for url in shards if f"/{name}" in url] for name in ("one", "two", "three")}
        assert (
            len(set(of["one"])) == len(of["one"]) == 3
            and len(of["two"]) == 5
            and of["three"] == ["s3://all/three/c.tar"]
        )
    assert first != second
    source.set_epoch(4)
    assert urls(source.run(iter(()), source.start(Pass()))) == urls(source.run(iter(()), source.start(Pass())))


def test_resumes(allowed):
    source = MultiShardSample({"datasets": [{"shards": ["{0..9}.tar"], "choose": 6}]})
    at = source.start(Pass(seed=3))
    head = urls(islice(source.run(iter(()), at), 2))
    again = source.start(Pass(seed=3))
    again.load(at.save(), None)
    assert head + urls(source.run(iter(()), again)) == urls(source.run(iter(()), source.start(Pass(seed=3))))


@pytest.mark.parametrize("wrong", [
    [], {"datasets": []}, {"datasets": [{"shards": []}]}, {"nope": 1, "datasets": [{"shards": ["a"]}]},
    {"datasets": [{"shards": ["a"], "color": 1}]}, {"datasets": [{"shards": ["a"], "buckets": ["x", "y"]}]},
    {"datasets": [{"shards": ["a"], "choose": 2}]}, {"datasets": [{"shards": ["a", "b"], "choose": 1, "resample": 1}]},
])  # fmt: skip
def test_wrong_specs(wrong, tmp_path):
    import json

    (tmp_path / "spec.yaml").write_text(json.dumps(wrong))
    with pytest.raises(SpecError):
        list(parse_spec(tmp_path / "spec.yaml"))


def test_commands_are_honoured_in_code_and_refused_in_files(tmp_path):
    (tmp_path / "spec.yaml").write_text("datasets: [{shards: ['pipe:rm x']}]")
    with pytest.raises(UnsafeContent, match="pipe:rm x"):
        list(parse_spec(tmp_path / "spec.yaml"))
    assert [source.urls for source in parse_spec({"datasets": [{"shards": ["pipe:cat x"]}]})] == [["pipe:cat x"]]


def test_other_specs_are_lists():
    assert isinstance(shardspec("{0..3}.tar"), SimpleShardList)
