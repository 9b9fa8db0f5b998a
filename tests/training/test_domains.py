"""The examples by domain run, and print what they promise."""

import runpy

import pytest

from .torchrun import EXAMPLES

PROMISES = {
    "audio.py": "42 clips of 8000 at 16000 Hz, from rates [8000, 16000, 22050, 44100]: 17.5 of 17.5 seconds kept",
    "captions.py": "200 pairs of 200, up to 4 shards in a batch",
    "contrastive.py": "64 pairs of views, others in the next epoch",
    "curriculum.py": "samples 0 to 999: 900 easy, 100 hard\n"
    "samples 1000 to 1999: 500 easy, 500 hard\nsamples 2000 to 2999: 100 easy, 900 hard",
    "detection.py": "95 boxes in 40 images",
    "distillation.py": "60 images, each with the outputs of the teacher for it",
    "segmentation.py": "40 crops; image and mask agree in 100.0% of the pixels",
    "tokens.py": "9993 tokens in 160 rows of 64: 9993 kept",
    "video.py": "23 clips of 8 frames from 6 films, 159 of 159 frames are in them",
}


def test_every_domain_is_run_here():
    assert sorted(PROMISES) == sorted(path.name for path in (EXAMPLES / "domains").glob("*.py"))


@pytest.mark.parametrize("script", PROMISES)
def test_domain(script, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(EXAMPLES))
    runpy.run_path(str(EXAMPLES / "domains" / script), run_name="__main__")
    assert PROMISES[script] in capsys.readouterr().out
    assert not list(tmp_path.iterdir()), "an example leaves nothing behind"
