import pytest

import webdataset as wds


def test_a_warning_says_which_sample_it_was():
    class OwnError(Exception):
        pass

    def fail(sample):
        raise OwnError("black" if sample["__key__"] == "1" else "")

    samples = [{"__key__": key, "__url__": "a.tar"} for key in "12"]
    with pytest.warns(UserWarning) as caught:
        assert list(wds.map(fail, handler=wds.warn_and_continue)(samples)) == []
    first, second = (str(warning.message) for warning in caught)
    assert first.startswith("OwnError: black – in map(") and first.endswith("sample 1, a.tar")
    assert second.startswith("OwnError('') – in map(") and second.endswith("sample 2, a.tar")
