from webdataset.stages import select


def test_select_keeps_what_is_true():
    assert list(select(lambda n: n)([1, 0, 2])) == [1, 2]


def test_select_contract():
    from tests.stages.contract import assert_contract, samples

    assert assert_contract(samples(4), select(bool)) == samples(4)
