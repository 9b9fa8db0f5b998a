"""Modules of the public library as programs use them."""

import io
import pickle
import sys

import pytest

import webdataset as wds
from webdataset import autodecode, utils


def test_D55_gopen_is_a_module_and_a_function(shards, monkeypatch):
    import webdataset.gopen as module

    assert module is wds.gopen
    assert module.gopen_schemes is wds.gopen_schemes
    monkeypatch.setitem(module.gopen_schemes, "mine", lambda url, mode, bufsize: io.BytesIO(b"opened " + url.encode()))
    assert wds.gopen("mine://x").read() == b"opened mine://x"
    assert module.gopen("mine://x").read() == b"opened mine://x"
    assert issubclass(module.Pipe, io.IOBase)
    assert pickle.loads(pickle.dumps(wds.gopen)) is wds.gopen


def test_D18_weights_only_is_one_live_setting():
    import torch

    payload = wds.torch_dumps({"a": torch.zeros(2)})
    try:
        assert wds.pytorch_weights_only is True
        wds.pytorch_weights_only = False
        assert autodecode.pytorch_weights_only is False
        assert wds.torch_loads(payload)["a"].shape == (2,)
        autodecode.pytorch_weights_only = True
        assert wds.pytorch_weights_only is True
    finally:
        wds.config.safety.weights_only = None


def test_D17_secure_mode_is_one_live_setting(shards):
    try:
        utils.enforce_security = True
        with pytest.raises(ValueError, match="unsafe_gopen is False, cannot open local files"):
            list(wds.WebDataset(shards, shardshuffle=False))
        with pytest.raises(ValueError, match="cannot open pipe URLs"):
            wds.gopen("pipe:true")
    finally:
        wds.config.safety.enforce = None
    assert utils.enforce_security is False


def test_star_modules_do_not_import_torch():
    import subprocess

    code = (
        "import sys, webdataset.filters, webdataset.tariterators, webdataset.shardlists, webdataset.autodecode, "
        "webdataset.writer, webdataset.utils, webdataset.mix, webdataset.tenbin, webdataset.compat\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
