import os

from webdataset.shards import fnmatch_with_braces, glob_with_braces


def test_globs_with_braces(tmp_path):
    for name in ("a.tar", "b.tgz", "c.txt"):
        (tmp_path / name).touch()
    assert [os.path.basename(p) for p in glob_with_braces(f"{tmp_path}/*.{{tar,tgz}}")] == ["a.tar", "b.tgz"]
    assert [os.path.basename(p) for p in glob_with_braces(f"{tmp_path}/{{a,?}}.tar")] == ["a.tar"]
    assert fnmatch_with_braces("a.tar", "*.{tar,tgz}") and not fnmatch_with_braces("a.txt", "*.{tar,tgz}")
