"""Decoding to one size, against Pillow."""

import io
import math
import pickle
import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from PIL import Image

import webdataset as wds
from webdataset.codecs import DecodeImage, Decoder, ImageHandler, decode_field, decode_image, encode_field
from webdataset.codecs._crop import random_box
from webdataset.errors import DecodingError, SpecError
from webdataset.flow import Pass
from webdataset.stages import decode


def photo(height, width, seed=0):
    rng = np.random.default_rng(seed)
    small = rng.integers(0, 256, (max(2, height // 16), max(2, width // 16), 3), dtype=np.uint8)
    big = np.asarray(Image.fromarray(small).resize((width, height), Image.BICUBIC)).astype(int)
    return np.clip(big + rng.normal(0, 8, big.shape), 0, 255).astype(np.uint8)


def jpeg(height, width, **options):
    return encode_field("jpg", photo(height, width), **{"quality": 90, **options})


def pillow(data, mode="RGB"):
    return Image.open(io.BytesIO(data)).convert(mode)


def difference(ours, theirs):
    gap = np.abs(np.asarray(ours).astype(float) - np.asarray(theirs).astype(float))
    return gap.mean(), gap.max()


JPEG = jpeg(375, 500)
PNG = encode_field("png", photo(200, 300))


@pytest.fixture(params=["all packages", "no torch", "Pillow only"])
def packages(request, monkeypatch):
    """The result may not depend on what is installed, or hardly."""
    absent = {"all packages": set(), "no torch": {"torch"}, "Pillow only": {"torch", "cv2", "simplejpeg"}}[
        request.param
    ]
    from webdataset.codecs import _jpeg, _opencv, _resize

    real = _resize.find_package
    for module in (_jpeg, _opencv, _resize):
        monkeypatch.setattr(module, "find_package", lambda name: None if name in absent else real(name))


@pytest.mark.parametrize(
    "data", [JPEG, PNG, jpeg(300, 500, progressive=True), encode_field("jpg", photo(90, 70)[..., 0])]
)
def test_random_crops_are_pillows_resize_of_the_same_box(data, packages):
    image = pillow(data)
    for seed in range(5):
        ours = DecodeImage("rgb8", size=96, crop="random", flip=True).decode(data, random.Random(seed))
        rng = random.Random(seed)
        x, y, w, h = random_box(*image.size, (0.08, 1.0), (3 / 4, 4 / 3), rng)
        theirs = image.crop((x, y, x + w, y + h)).resize((96, 96), Image.BILINEAR)
        if rng.random() < 0.5:
            theirs = theirs.transpose(Image.FLIP_LEFT_RIGHT)
        mean, most = difference(ours, theirs)
        assert mean < 0.3  # 0.004 where both directions shrink, as in almost all crops
        assert most <= 1


@pytest.mark.parametrize(("height", "width"), [(375, 500), (500, 333), (256, 256), (100, 400)])
def test_centre_crops_are_resize_and_crop(height, width, packages):
    data = jpeg(height, width)
    ours = DecodeImage("rgb8", size=224, crop="center").decode(data)
    image = pillow(data)
    short = 256 / min(image.size)
    w, h = (int(256 * side / min(image.size)) if side != min(image.size) else 256 for side in image.size)
    resized = image.resize((w, h), Image.BILINEAR)
    left, top = round((w - 224) / 2), round((h - 224) / 2)
    mean, most = difference(ours, resized.crop((left, top, left + 224, top + 224)))
    assert mean < 0.03 and most <= 1, (mean, most, short)


def test_plain_resize(packages):
    assert DecodeImage("rgb8", size=100).decode(JPEG).shape == (100, 133, 3)
    ours = DecodeImage("rgb8", size=(60, 80)).decode(PNG)
    assert difference(ours, pillow(PNG).resize((80, 60), Image.BILINEAR))[1] <= 1
    assert np.array_equal(DecodeImage("rgb8", size=(200, 300)).decode(PNG), pillow(PNG))


def test_without_antialiasing_it_is_plain_bilinear(packages):
    ours = DecodeImage("rgb8", size=(60, 80), antialias=False).decode(PNG)
    pixels = np.asarray(pillow(PNG)).astype(float)
    y, x = (np.arange(60) + 0.5) * 200 / 60 - 0.5, (np.arange(80) + 0.5) * 300 / 80 - 0.5
    y0, x0 = np.floor(y).astype(int), np.floor(x).astype(int)
    dy, dx = (y - y0)[:, None, None], (x - x0)[None, :, None]
    part = lambda j, i: pixels[np.clip(y0 + j, 0, 199)][:, np.clip(x0 + i, 0, 299)]
    expected = (part(0, 0) * (1 - dx) + part(0, 1) * dx) * (1 - dy) + (part(1, 0) * (1 - dx) + part(1, 1) * dx) * dy
    assert difference(ours, expected)[1] < 3
    assert difference(ours, expected)[0] < 0.6


def test_large_jpegs_are_decoded_at_a_fraction_of_their_size():
    data = jpeg(1600, 2400, quality=80)
    exact = DecodeImage("rgb8", size=128, crop="center", oversample=None).decode(data)
    assert difference(DecodeImage("rgb8", size=128, crop="center").decode(data), exact)[0] < 1
    image = pillow(data)
    for seed in range(4):
        ours = DecodeImage("rgb8", size=128, crop="random", scale=(0.6, 1.0)).decode(data, random.Random(seed))
        x, y, w, h = random_box(2400, 1600, (0.6, 1.0), (3 / 4, 4 / 3), random.Random(seed)).snapped(4)
        assert difference(ours, image.crop((x, y, x + w, y + h)).resize((128, 128), Image.BILINEAR))[0] < 1


def test_scaled_decoding_keeps_to_the_edges_of_sizes_that_are_no_multiples_of_eight():
    data = encode_field("jpg", np.linspace(0, 255, 1613).astype("u1")[None, :, None].repeat(1207, 0).repeat(3, 2))
    ours, exact = (DecodeImage("rgb8", size=(64, 64), oversample=each).decode(data) for each in (2, None))
    assert np.abs(ours.astype(int) - exact)[:, -8:].mean() < 0.5


def test_scaled_decoding_is_really_used(monkeypatch):
    from webdataset.codecs import _decode_image

    steps = []
    real = _decode_image.upper_pixels
    monkeypatch.setattr(
        _decode_image, "upper_pixels", lambda *a, step, **k: steps.append(step) or real(*a, step=step, **k)
    )
    data = jpeg(1600, 2400, quality=80)
    for size in (1000, 400, 200, 100, 50):
        assert DecodeImage("rgb8", size=(size, size)).decode(data).shape == (size, size, 3)
    assert steps == [1, 2, 4, 8, 8]


@pytest.mark.parametrize(
    "spec", ["l8", "rgb8", "rgba8", "l", "rgb", "rgba", "torchl8", "torchrgb8", "torchl", "torchrgb", "torchrgba"]
)
def test_every_spec_has_its_container_type_and_layout(spec):
    for data in (JPEG, PNG):
        ours = DecodeImage(spec, size=(40, 60), interpolation="nearest").decode(data)
        whole = ImageHandler(spec).decode(data)
        assert type(ours) is type(whole)
        assert ours.dtype == whole.dtype
        height, width = (375, 500) if data is JPEG else (200, 300)
        rows, columns = (np.arange(40) * 2 + 1) * height // 80, (np.arange(60) * 2 + 1) * width // 120
        theirs = np.asarray(whole)
        expected = theirs[..., rows, :][..., columns] if "torch" in spec else theirs[rows][:, columns]
        assert np.array_equal(np.asarray(ours), expected)
        assert ours.is_contiguous() if "torch" in spec else ours.flags.c_contiguous
        assert "torch" in spec or ours.flags.writeable


def test_layout_and_normalization():
    plain = DecodeImage("rgb8", size=32, crop="center").decode(JPEG)
    mean, std = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    expected = (plain / 255 - mean) / std
    for normalize in ("imagenet", (mean, std)):
        assert np.allclose(
            DecodeImage("rgb", size=32, crop="center", normalize=normalize).decode(JPEG), expected, atol=1e-5
        )
        chw = DecodeImage("torchrgb", size=32, crop="center", normalize=normalize).decode(JPEG)
        assert chw.dtype == torch.float32
        assert np.allclose(chw.permute(1, 2, 0), expected, atol=1e-5)
    assert np.array_equal(
        DecodeImage("rgb8", size=32, crop="center", layout="chw").decode(JPEG), plain.transpose(2, 0, 1)
    )
    assert np.array_equal(DecodeImage("torchrgb8", size=32, crop="center", layout="hwc").decode(JPEG), plain)
    assert np.array_equal(DecodeImage("rgb", size=32, crop="center").decode(JPEG), plain.astype("f4") / 255)
    grey = DecodeImage("l", size=32, normalize=(0.5, 0.25)).decode(JPEG)
    assert np.allclose(grey, (DecodeImage("l", size=32).decode(JPEG) - 0.5) / 0.25, atol=1e-5)


def sample(n, **fields):
    return {"__key__": f"{n:04}", "__url__": "a.tar", "jpg": JPEG, **fields}


def pixels(stage, during, n=6):
    function = stage.function(during)
    return [function(sample(k))["jpg"] for k in range(n)]


def test_chance_belongs_to_the_sample_and_the_pass():
    stage = decode("rgb8", size=32, crop="random", flip=True)
    first, again = pixels(stage, Pass(seed=1)), pixels(stage, Pass(seed=1))
    assert all(map(np.array_equal, first, again))
    assert not np.array_equal(first[0], first[1])
    assert not np.array_equal(first[0], pixels(stage, Pass(seed=1, epoch=1))[0])
    assert not np.array_equal(first[0], pixels(stage, Pass(seed=2))[0])
    function = stage.function(Pass(seed=1))
    with ThreadPoolExecutor(4) as pool:
        threaded = list(pool.map(lambda k: function(sample(k))["jpg"], [*range(6)] * 8))
    for k, ours in enumerate(threaded):
        assert np.array_equal(ours, first[k % 6])


def test_the_chance_of_a_crop_is_not_that_of_other_functions_of_the_sample():
    flips = decode("rgb8", size=8, flip=True).function(Pass())
    coins = wds.map(lambda sample: wds.rng(sample).random() < 0.5).function(Pass())
    plain = DecodeImage("rgb8", size=8).decode(JPEG)
    same = sum(coins(sample(n)) != np.array_equal(flips(sample(n))["jpg"], plain) for n in range(64))
    assert 8 < same < 56


def test_an_image_and_its_mask_get_the_same_crop():
    mask = (np.asarray(pillow(JPEG)).astype(int).sum(2) > 380).astype(np.uint8)
    options = {"size": 48, "crop": "random", "flip": True}
    stage = decode(
        DecodeImage("l8", interpolation="nearest", extensions=["mask"], **options),
        DecodeImage("rgb8", interpolation="nearest", **options),
    )
    for n in range(5):
        result = stage.function(Pass(seed=n))(sample(n, mask=encode_field("png", mask)))
        assert np.array_equal(result["mask"], (result["jpg"].astype(int).sum(2) > 380))


def test_samples_without_a_key_are_told_apart_by_their_bytes():
    function = decode("rgb8", size=32, crop="random").function(Pass())
    assert np.array_equal(function({"jpg": JPEG})["jpg"], function({"jpg": JPEG})["jpg"])


def test_alone_it_draws_anew_each_time():
    decoder = Decoder([DecodeImage("rgb8", size=32, crop="random")])
    assert len({decoder(sample(1))["jpg"].tobytes() for _ in range(5)}) > 1


def test_torch_takes_the_vectorised_way_and_keeps_the_layout():
    from webdataset.codecs._resize import resize

    assert resize(photo(100, 200)[10:90, 20:110], (40, 50)).flags.c_contiguous


def test_the_next_image_does_not_change_a_result():
    handler = DecodeImage("rgb8", size=(375, 500))
    first = handler.decode(JPEG)
    kept = first.copy()
    handler.decode(jpeg(375, 500, quality=10))
    assert np.array_equal(first, kept)


def test_a_size_may_be_a_list_and_the_result_is_not_shared():
    handler = DecodeImage("rgb8", size=[50, 60], crop="window")
    first = handler.decode(PNG, random.Random(0))
    kept = first.copy()
    handler.decode(encode_field("png", photo(200, 300, seed=1)), random.Random(1))
    assert np.array_equal(first, kept)


def test_extensions_may_be_one_string():
    handler = DecodeImage("rgb8", size=8, extensions=".PNG seg")
    assert handler(".png", PNG).shape == handler(".x.seg", PNG).shape == (8, 12, 3)
    assert handler(".jpg", JPEG) is None


def test_stages_pickle_and_describe_themselves():
    stage = decode("rgb8", size=224, crop="random")
    assert repr(stage) == "decode('rgb8', size=224, crop='random')"
    assert pickle.loads(pickle.dumps(stage)) == stage
    handler = pickle.loads(pickle.dumps(decode_image("torchrgb", size=32)))
    assert handler(".jpg", JPEG).shape == (3, 32, 42)
    assert handler(".txt", b"") is None


def test_damaged_images_are_errors_and_odd_ones_are_pillows():
    with pytest.raises(DecodingError, match="cannot decode 'jpg'"):
        decode_field("jpg", JPEG[: len(JPEG) // 2], DecodeImage("rgb8", size=32))
    cmyk = io.BytesIO()
    Image.fromarray(photo(100, 100)).convert("CMYK").save(cmyk, "JPEG")
    assert decode_field("jpg", cmyk.getvalue(), DecodeImage("rgb8", size=(100, 100))).shape == (100, 100, 3)
    assert np.array_equal(
        decode_field("jpg", cmyk.getvalue(), DecodeImage("rgb8", size=(100, 100))), pillow(cmyk.getvalue())
    )
    assert decode_field("jpg", jpeg(1, 1), DecodeImage("rgb8", size=8, crop="random")).shape == (8, 8, 3)


@pytest.mark.parametrize(
    "wrong",
    [
        *(
            {"imagespec": "pil"},
            {"imagespec": "l16"},
            {"imagespec": "rgb9"},
            {"size": 0},
            {"size": (1, 2, 3)},
            {"size": 2.5},
        ),
        *(
            {"crop": "middle"},
            {"flip": 2},
            {"scale": (0, 1)},
            {"scale": (0.5, 0.1)},
            {"ratio": (2, 1)},
            {"layout": "nchw"},
        ),
        *(
            {"crop": "center", "resize": 100},
            {"interpolation": "cubic"},
            {"normalize": "imagenet"},
            {"oversample": 0.5},
        ),
        *({"size": (224,)}, {"flip": "often"}, {"scale": 0.5}, {"scale": (0.5,)}, {"ratio": 1.0}, {"crop": ["random"]}),
        *({"crop": "center", "resize": "256"}, {"crop": "center", "resize": 256.5}, {"crop": "random", "resize": 256}),
        *({"oversample": "2"}, {"oversample": math.nan}, {"ratio": (1, math.inf)}),
        *({"extensions": None}, {"extensions": [1]}),
        *({"imagespec": "rgb", "normalize": wrong} for wrong in ("imagnet", (0.5, 0), (1, 2, 3), ((0, 0), (1, 1)), 2)),
        {"imagespec": "l", "normalize": "imagenet"},
    ],
)
def test_wrong_arguments_fail_at_construction(wrong):
    with pytest.raises(SpecError):
        DecodeImage(**wrong)
    options = {name: value for name, value in wrong.items() if name != "imagespec"}
    with pytest.raises(SpecError):
        decode(wrong.get("imagespec", "rgb8"), size=options.pop("size", 224), **options)


def test_stage_options_need_a_spec_and_must_exist():
    with pytest.raises(SpecError, match="needs an image spec"):
        decode(size=224)
    with pytest.raises(SpecError, match="no option sice"):
        decode("rgb8", sice=224)


def test_window_is_a_random_part_and_nothing_is_resized():
    pixels = photo(256, 256)
    data = b"P6\n256 256\n255\n" + pixels.tobytes()
    places = set()
    for seed in range(20):
        part = DecodeImage("rgb8", size=224, crop="window").decode(data, random.Random(seed))
        box = random.Random(seed)
        x, y = box.randint(0, 32), box.randint(0, 32)
        np.testing.assert_array_equal(part, pixels[y : y + 224, x : x + 224])
        part[:] = 0  # its own memory: the bytes are not changed
        places.add((x, y))
    assert len(places) > 10
    assert data.endswith(pixels.tobytes())


def test_window_in_an_image_that_is_too_small():
    with pytest.raises(DecodingError, match="no window of 224 × 224"):
        decode_field("png", encode_field("png", photo(200, 300)), DecodeImage("rgb8", size=224, crop="window"))


@pytest.mark.parametrize(
    "header", [b"P6\n40 30\n255\n", b"P6 40 30 255 ", b"P6\n# a comment\n40 30\n255\n", b"P6\n40\t30\n 255\r"]
)
def test_a_ppm_is_pillows(header):
    data = header + photo(30, 40).tobytes()
    expected = np.asarray(pillow(data))
    np.testing.assert_array_equal(DecodeImage("rgb8", size=(30, 40)).decode(data), expected)


def test_a_ppm_that_is_cut_short_is_an_error():
    data = b"P6\n40 30\n255\n" + photo(30, 40).tobytes()[:-1]
    with pytest.raises(DecodingError):
        decode_field("ppm", data, DecodeImage("rgb8", size=8))


def test_the_options_of_images_reach_decode_as_a_method():
    dataset = wds.FluidWrapper([{"__key__": "a", "jpg": JPEG}]).decode("rgb8", size=32, crop="random", flip=True)
    assert next(iter(dataset))["jpg"].shape == (32, 32, 3)
    with pytest.raises(SpecError, match="no option"):
        wds.FluidWrapper([]).decode("rgb8", sise=32)
