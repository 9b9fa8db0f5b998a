"""Every stage that takes a handler treats a failure the same way: asked once, type kept, place added."""

import warnings

import pytest

from tests.stages.contract import samples
from webdataset import handlers
from webdataset.errors import SpecError
from webdataset.stages import (
    associate,
    extract_keys,
    map,
    map_dict,
    map_tuple,
    rename,
    rename_keys,
    select,
    to_tuple,
)


def refuse_odd(number):
    if number % 2:
        raise KeyError(f"odd {number}")
    return number


def odd_ones_lack_x():
    return [{**sample, **({} if sample["n"] % 2 else {"x": sample["n"]})} for sample in samples(6)]


STAGES = {
    "map": (lambda h: map(lambda s: refuse_odd(s["n"]), handler=h), samples(6), KeyError),
    "select": (lambda h: select(lambda s: refuse_odd(s["n"]) >= 0, handler=h), samples(6), KeyError),
    "map_dict": (lambda h: map_dict(n=refuse_odd, handler=h), samples(6), KeyError),
    "map_tuple": (lambda h: map_tuple(None, refuse_odd, handler=h), [(0, n) for n in range(6)], KeyError),
    "associate": (lambda h: associate(lambda key: {"y": refuse_odd(int(key))}, handler=h), samples(6), KeyError),
    "to_tuple": (lambda h: to_tuple("n", "x", handler=h), odd_ones_lack_x(), ValueError),
    "rename": (lambda h: rename(y="x", handler=h), odd_ones_lack_x(), ValueError),
    "extract_keys": (lambda h: extract_keys("x", handler=h), odd_ones_lack_x(), ValueError),
    "rename_keys": (lambda h: rename_keys(y="x", handler=h), odd_ones_lack_x(), ValueError),
}


def make(name):
    build, items, error = STAGES[name]
    return build, [dict(item) if isinstance(item, dict) else item for item in items], error


@pytest.fixture(params=STAGES)
def case(request):
    return make(request.param)


def test_reraise_keeps_the_type(case):
    build, items, error = case
    results = build(handlers.reraise_exception)(iter(items))
    next(results)
    with pytest.raises(error) as caught:
        next(results)
    assert isinstance(caught.value, error)


@pytest.mark.parametrize("name", ["ignore_and_continue", "warn_and_continue"])
def test_continue_leaves_out_every_second_sample(case, name):
    build, items, _ = case
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert len(list(build(getattr(handlers, name))(iter(items)))) == 3


@pytest.mark.parametrize("name", ["ignore_and_stop", "warn_and_stop"])
def test_stop_ends_the_stream_at_the_first_failure(case, name):
    build, items, _ = case
    rest = iter(items)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert len(list(build(getattr(handlers, name))(rest))) == 1
    assert len(list(rest)) == 4  # and takes nothing more from upstream


def test_D25_the_handler_is_called_once_per_failure(case):
    build, items, error = case
    seen = []
    list(build(lambda exn: seen.append(exn) or True)(iter(items)))
    assert len(seen) == 3 and len({id(exn) for exn in seen}) == 3
    assert all(isinstance(exn, error) for exn in seen)


def test_D40_warnings_do_not_sleep(monkeypatch):
    import time

    monkeypatch.setattr(time, "sleep", lambda seconds: pytest.fail("slept"))

    class Unheard(Exception):  # warnings of one kind are thinned out over the whole process
        pass

    def fail(item):
        raise Unheard(item)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert list(map(fail, handler=handlers.warn_and_continue)(range(3))) == []
    assert len(caught) == 3


def test_what_a_handler_raises_comes_out():
    def replace(exn):
        raise OSError("instead") from exn

    with pytest.raises(OSError, match="instead"):
        list(map(refuse_odd, handler=replace)(range(6)))


def test_the_exception_is_told_where_it_happened():
    with pytest.raises(KeyError) as caught:
        list(map(lambda sample: refuse_odd(sample["n"]), handler=handlers.reraise_exception)(samples(6)))
    note = caught.value.__notes__[0]
    assert note.startswith("in map(") and "sample 0001" in note and "0.tar" in note and "0x" not in note


def test_our_own_errors_are_located_not_noted():
    def fail(sample):
        raise SpecError("no good")

    with pytest.raises(SpecError) as caught:
        list(map(fail)(samples(1)))
    assert caught.value.where.key == "0000" and caught.value.where.stage.startswith("map(")
    assert "sample 0000" in str(caught.value)


def test_a_function_may_end_the_stream_itself():
    from webdataset.flow import EndOfStreamError

    def until_two(number):
        if number == 2:
            raise EndOfStreamError
        return number

    assert list(map(until_two, handler=handlers.reraise_exception)(range(5))) == [0, 1]


def test_keyboard_interrupts_are_not_offered_to_handlers():
    def interrupt(sample):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(map(interrupt, handler=handlers.ignore_and_continue)(samples(1)))


@pytest.mark.parametrize("name", STAGES)
def test_a_handler_that_cannot_be_called_fails_at_once(name):
    with pytest.raises(SpecError, match="handler"):
        make(name)[0]("warn")
