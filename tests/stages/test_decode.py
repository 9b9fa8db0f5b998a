"""decode and xdecode as stages."""

import os
import pickle

import numpy as np
import pytest

from webdataset import config
from webdataset.codecs import encode_field, handle_extension
from webdataset.errors import DecodingError, SpecError, UnsafeContent
from webdataset.flow import Pass
from webdataset.handlers import (
    ignore_and_continue,
    ignore_and_stop,
    reraise_exception,
    warn_and_continue,
    warn_and_stop,
)
from webdataset.stages import (
    Decode,
    XDecode,
    decode,
    default_decoders,
    find_decoder,
    xdecode,
)

PNG = encode_field("png", np.full((2, 3, 3), 9, "u1"))
SAMPLES = [{"__key__": str(n), "__url__": "a.tar", "cls": b"%d" % n if n % 2 == 0 else b"odd"} for n in range(6)]


def test_the_seeds_names_are_the_stages():
    assert decode is Decode
    assert xdecode is XDecode


def test_strings_are_image_specs_and_functions_are_handlers():
    def mine(key, data):
        assert key == ".x.mine"
        return len(data)

    stage = decode("rgb8", handle_extension("other", len), lambda key, data: mine(key, data) if "mine" in key else None)
    assert next(stage(iter([{"a.png": PNG, "x.mine": b"12", "other": b"1"}])))["a.png"].shape == (2, 3, 3)


@pytest.mark.parametrize(
    ("handler", "kept"),
    [(ignore_and_continue, [0, 2, 4]), (ignore_and_stop, [0]), (warn_and_continue, [0, 2, 4]), (warn_and_stop, [0])],
)
def test_every_second_sample_fails_under_each_handler(handler, kept):
    import warnings

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert [sample["cls"] for sample in decode(handler=handler)(SAMPLES)] == kept
    assert bool(caught) == handler.__name__.startswith("warn")


def test_without_a_handler_the_error_comes_out_with_everything_known():
    with pytest.raises(DecodingError, match="field cls, sample 1, a.tar"):
        list(decode(handler=reraise_exception)(SAMPLES))


@pytest.mark.parametrize(
    "wrong", [lambda: decode("rgb9"), lambda: decode(3), lambda: decode(handler=3), lambda: decode("rgb", pre=[3])]
)
def test_wrong_arguments_fail_at_construction(wrong):
    with pytest.raises(SpecError):
        wrong()


def test_only_partial_pre_and_post():
    sample = {"txt": b"a", "cls": b"1"}
    assert list(decode(only="cls")([sample])) == [{"txt": b"a", "cls": 1}]
    assert list(decode(only=["txt"])([sample])) == [{"txt": "a", "cls": b"1"}]
    assert list(decode(partial=True)([{"txt": "done"}])) == [{"txt": "done"}]
    assert list(decode(post=[])([sample])) == [sample]
    assert list(decode(pre=[lambda key, data: key])([sample])) == [{"txt": ".txt", "cls": ".cls"}]


def test_samples_only():
    with pytest.raises(SpecError, match="expected a sample"):
        list(decode()([(1, 2)]))


def test_stages_pickle_compare_and_describe_themselves():
    stage = decode("rgb8", only=["png"])
    assert pickle.loads(pickle.dumps(stage)) == stage
    assert repr(stage) == "decode('rgb8', only=('png',))"
    assert repr(decode(handler=warn_and_continue)) == "decode(handler=warn_and_continue)"
    assert stage.function(Pass())({"png": PNG})["png"].shape == (2, 3, 3)


class TestXDecode:
    def read(self, stream):
        return ("read", stream.read())

    def test_rules_match_the_last_part_bare_or_with_a_dot(self):
        for name, pattern in (
            ("foo", "*.foo"),
            ("foo", "foo"),
            ("A.FOO", "*.foo"),
            ("d/a.foo", "a*"),
            ("q.foo", "*.foo"),
        ):
            assert list(xdecode((pattern, self.read))([{name: b"1"}])) == [{name: ("read", b"1")}]
        for name, pattern in (("a.foo", "foo"), ("A.FOO", "*.FOO"), ("d/a.foo", "d/*"), ("_x", "*.txt")):
            with pytest.raises(ValueError, match=f"No decoder found for {name}"):
                list(xdecode((pattern, self.read))([{name: b"1"}]))

    def test_defaults_keywords_false_and_later_rules(self):
        sample = {"__key__": "a", "x.bin": b"1", "y.TXT": b"hi", "z.pyd": b"N.", "q.foo": b"1", "raw": b"0"}
        stage = xdecode(("*.foo", False), ("*.foo", self.read), raw=False)
        assert list(stage([sample])) == [
            {"__key__": "a", "x.bin": b"1", "y.TXT": "hi", "z.pyd": None, "q.foo": ("read", b"1"), "raw": b"0"}
        ]
        assert list(xdecode(must_decode=False)([{"q.foo": b"1"}])) == [{"q.foo": b"1"}]
        assert list(xdecode(defaults=[("*.txt", self.read)])([{"txt": b"1"}])) == [{"txt": ("read", b"1")}]
        assert find_decoder(default_decoders, "x.nothing") is None

    def test_D17_pickles_go_through_the_one_choke_point(self):
        class Evil:
            def __reduce__(self):
                return os.system, ("echo pwned",)

        with pytest.raises(UnsafeContent, match="field x.pyd"):
            list(xdecode()([{"x.pyd": pickle.dumps(Evil())}]))
        config.safety.enforce = True
        try:
            with pytest.raises(ValueError, match="Unpickling is not allowed for security reasons"):
                list(xdecode()([{"x.pyd": pickle.dumps(1)}]))
        finally:
            config.safety.enforce = None

    def test_errors_and_handlers(self):
        stage = xdecode(cls=lambda stream: int(stream.read()))
        with pytest.raises(DecodingError, match="field cls, sample 1, a.tar"):
            list(stage(SAMPLES))
        stage = xdecode(cls=lambda stream: int(stream.read()), handler=ignore_and_continue)
        assert [sample["cls"] for sample in stage(SAMPLES)] == [0, 2, 4]

    @pytest.mark.parametrize("wrong", ["*.txt", ("*.txt",), (3, len), ("*.txt", 3)])
    def test_wrong_rules_fail_at_construction(self, wrong):
        with pytest.raises(SpecError):
            xdecode(wrong)


@pytest.mark.parametrize("only", ["npyy", ["npyy", "jpgg"]])
def test_only_that_names_no_field_of_the_first_sample_warns_once(only):
    samples = [{"__key__": f"{n}", "cls": b"1", "txt": b"a"} for n in range(3)]
    with pytest.warns(UserWarning, match="no such field; its fields are cls, txt") as caught:
        assert [sample["cls"] for sample in decode(only=only)(samples)] == [b"1"] * 3
    assert len(caught) == 1


def test_only_that_names_a_field_does_not_warn(recwarn):
    assert [sample["cls"] for sample in decode(only="cls jpg")([{"cls": b"1"}, {"txt": b"a", "cls": b"2"}])] == [1, 2]
    assert not recwarn.list


def test_an_unknown_option_suggests_the_near_one():
    with pytest.raises(SpecError, match="no option handlr; did you mean handler"):
        decode("rgb8", handlr=print)
