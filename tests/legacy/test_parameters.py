"""Every parameter of the public constructors does something that can be seen.

One small test for each (constructor, parameter); `test_no_parameter_is_forgotten` compares with the public signatures.
"""

from pathlib import Path

import pytest

from tests.legacy.parameters import CHECKS, Room

SIGNATURES = Path(__file__).parent / "public_names.txt"
CHECKED = """
WebDataset TarWriter ShardWriter SimpleShardList ResampledShards RandomMix RoundRobin shuffle detshuffle Decoder
LMDBCached MockDataset LRUCleanup FileCache StreamingOpen DirectoryShardList batched to_tuple rename info
""".split()


def public_parameters():
    for paragraph in SIGNATURES.read_text().split("\n\n"):
        for line in paragraph.splitlines()[1:]:
            name, _, parameters = line.rstrip(")").partition("(")
            if name in CHECKED:
                yield from (
                    f"{name}.{p}" for p in parameters.split(", ") if p and p[0] != "*" and p not in {"data", "src"}
                )


def test_no_parameter_is_forgotten():
    assert set(public_parameters()) - set(CHECKS) == set()


@pytest.mark.parametrize("name", sorted(CHECKS))
def test_a_parameter_does_what_it_says(name, tmp_path, caplog):
    CHECKS[name](Room(tmp_path, caplog))
