"""The public names, exactly; and that they are called as the public library's are.

Names and parameters of the public library stand in `tests/legacy/public_names.txt`: one module per paragraph.
"""

import ast
import importlib
import inspect
from pathlib import Path

import pytest

import webdataset as wds

ROOT = Path(__file__).parents[1]
PARAGRAPHS = (Path(__file__).parent / "legacy" / "public_names.txt").read_text().strip().split("\n\n")
PUBLIC_LIBRARY = {lines[0]: lines[1:] for lines in (paragraph.splitlines() for paragraph in PARAGRAPHS)}

# Everything beyond the public library's names: our own, the seeds', and those of older series.
OWN = """
AccessDenied ArrayBatches BadHeader ChoppedDataset CommandFailed Composable DBCache Dataset DirectoryShardList DuplicateField
EncodingError FakeLength FileCache FormatError IndexedDataset MissingDependency MultiDataset PickleLoader Processor
PytorchShardList ResampledShardList ResizedDataset SampleEqually ShardList ShardNotFound Shorthands SpecError
SplitSample StageError StaleIndex StateError StoreError StoreTimeout StreamingOpen TruncatedShard UnknownScheme
UnsafeContent UnsupportedMember WebDatasetError bucketed cached_tarfile_samples cached_tarfile_to_samples
cached_url_opener cbors2_to_samples cbors_to_samples connect dali decode_image default_collation_fn from_hf group_by_keys handlers
index_shards interop iterators join_columns listed log_keys lru_cleanup map_shards maybe_cached_tarfile_to_samples merge_states packed
padded_collation profile progress rng serve_on_ray tar_file_expander to_hf unlisted unsafe_pickle url_opener
""".split()


def names_of(module):
    return [line.split("(")[0] for line in PUBLIC_LIBRARY[module]]


def test_all_is_exact_and_sorted():
    assert wds.__all__ == sorted(wds.__all__)
    assert set(wds.__all__) == {*names_of("webdataset"), *OWN}


@pytest.mark.parametrize("name", wds.__all__)
def test_every_public_name_is_there(name):
    assert getattr(wds, name) is not None


def test_dir_lists_the_public_names():
    assert dir(wds) == wds.__all__


def test_star_import_brings_the_public_names():
    namespace = {}
    exec("from webdataset import *", namespace)
    assert set(wds.__all__) <= set(namespace)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        wds.nothing  # noqa: B018
    with pytest.raises(ImportError):
        importlib.import_module("webdataset.nothing")


@pytest.mark.parametrize("module", PUBLIC_LIBRARY)
def test_every_name_of_the_public_library_is_in_the_same_module(module):
    here = importlib.import_module(module)
    missing = [name for name in names_of(module) if not hasattr(here, name)]
    assert not missing


def test_type_checkers_see_the_same_names():
    """The imports that only type checkers read, against the table that is used."""
    tree = ast.parse((ROOT / "src/webdataset/__init__.py").read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {}
    for node in block.body:
        if isinstance(node, ast.ImportFrom):
            assert all(alias.asname == alias.name for alias in node.names), "only `x as x` is visible to users"
            seen.update({alias.name: node.module for alias in node.names})
    lazy = {name: home.replace("webdataset.", "webdataset.legacy.") for name, home in wds._LAZY.items()}
    for name, home in seen.items():
        if name in wds._LAZY:
            assert home in {wds._LAZY[name], lazy[name]}
    assert sorted([*seen, "__version__", "pytorch_weights_only"]) == wds.__all__


# --- calls -------------------------------------------------------------------------------------------------------


def parameters(function):
    return [
        parameter.name
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind in {parameter.POSITIONAL_OR_KEYWORD, parameter.POSITIONAL_ONLY, parameter.KEYWORD_ONLY}
    ]


def signatures():
    for module, lines in PUBLIC_LIBRARY.items():
        for line in lines:
            name, bracket, rest = line.partition("(")
            if bracket:
                yield pytest.param(
                    module, name, rest.rstrip(")").split(", ") if rest != ")" else [], id=f"{module}.{name}"
                )


@pytest.mark.parametrize(("module", "name", "expected"), list(signatures()))
def test_it_can_be_called_as_the_public_library_s(module, name, expected):
    """Same parameters, in the same order; more may follow."""
    value = getattr(importlib.import_module(module), name)
    try:
        signature = inspect.signature(value)
    except ValueError:
        pytest.skip("a builtin without a signature")
    takes_any = {p.kind for p in signature.parameters.values()} & {
        inspect.Parameter.VAR_KEYWORD,
        inspect.Parameter.VAR_POSITIONAL,
    }
    if takes_any:
        return
    here = [name for name in parameters(value) if name != "items"]
    wanted = [name for name in expected if not name.startswith("*")]
    if wanted[:1] != here[:1] and wanted[:1] in (["data"], ["source"], ["src"]):
        wanted = wanted[1:]  # a stage takes its stream later, or calls it items
    if len(wanted) == 1 and not inspect.isclass(value):
        assert here  # a single argument is never passed by name
    else:
        assert here[: len(wanted)] == wanted


# --- the fluid interface -----------------------------------------------------------------------------------------

# Methods that are not a stage of the same name.
OTHER = {"compose", "pipe", "then", "mcached", "lmdb_cached", "dbcache", "ddp_equalize"}


def fluid_methods():
    return [name for name, _ in inspect.getmembers(wds.FluidInterface, inspect.isfunction) if not name.startswith("_")]


@pytest.mark.parametrize("name", [name for name in fluid_methods() if name not in OTHER])
def test_a_fluid_method_takes_what_its_stage_takes(name):
    from webdataset import stages

    method = inspect.signature(getattr(wds.FluidInterface, name)).parameters
    stage = inspect.signature(getattr(stages, name)).parameters
    for parameter in list(method.values())[1:]:
        if parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}:
            continue
        if name == "shuffle" and parameter.name == "size":
            continue  # the public library calls it bufsize on the stage
        assert parameter.name in stage, f"{name}: the stage has no {parameter.name}"
        if parameter.default is not parameter.empty:
            assert parameter.default == stage[parameter.name].default
    passes_on = any(p.kind == p.VAR_KEYWORD for p in method.values())
    if not passes_on:
        missing = [
            p.name for p in stage.values() if p.name not in method and p.kind not in {p.VAR_POSITIONAL, p.VAR_KEYWORD}
        ]
        assert not missing, f"{name}: not reachable through the method"


FLUID = """
batched unbatched listed unlisted log_keys shuffle map decode map_dict select to_tuple map_tuple slice rename rsample
rename_keys extract_keys xdecode mcached lmdb_cached associate info detshuffle pipe then dbcache ddp_equalize
""".split()


@pytest.mark.parametrize("cls", ["WebDataset", "WebLoader", "FluidWrapper"])
def test_every_fluid_method_is_there(cls):
    assert [name for name in FLUID if not callable(getattr(getattr(wds, cls), name, None))] == []


# --- examples ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [n for n in wds.__all__ if n not in {"__version__", "pytorch_weights_only"}])
def test_every_public_function_starts_with_an_example(name):
    """The examples themselves run as doctests."""
    value = getattr(wds, name)
    if inspect.ismodule(value) or isinstance(value, dict) or not callable(value):
        return
    if inspect.isclass(value) and issubclass(value, Exception):
        return
    documented = value if value.__doc__ and ">>>" in value.__doc__ else getattr(value, "f", value)
    assert ">>>" in (documented.__doc__ or ""), f"{name} has no example"
