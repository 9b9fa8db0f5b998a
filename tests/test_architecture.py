"""The house: doors, layers, sizes, and words that a room does not know.

Layers and cycles are import-linter's (`make lint`); what it cannot see is here.
"""

import ast
import functools
import re
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "webdataset"
FILES = sorted(SOURCE.rglob("*.py"))
ROOMS = sorted(door.parent for door in SOURCE.glob("*/__init__.py"))


@functools.cache
def tree_of(path):
    return ast.parse(path.read_text())


def room_of(path):
    relative = path.relative_to(SOURCE)
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


def ids(paths):
    return [str(path.relative_to(SOURCE)) for path in paths]


# --- doors -------------------------------------------------------------------------------------------------------


def imports(path):
    """(module, names) of every import of ours, as written; relative ones with their dots."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or ""), [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            yield from ((alias.name, []) for alias in node.names)


@pytest.mark.parametrize("path", FILES, ids=ids(FILES))
def test_rooms_are_entered_through_their_doors(path):
    """No import of another room's `_file`, and nothing but modules from the root."""
    for module, names in imports(path):
        parts = module.split(".")
        if parts[0] == "webdataset" and len(parts) > 2 and parts[1] != room_of(path):
            assert not parts[2].startswith("_"), f"{module}: use the door of {parts[1]}"
        if module == "webdataset" and path != SOURCE / "__init__.py":
            modules = {p.stem for p in SOURCE.glob("*.py")} | {room.name for room in ROOMS}
            assert set(names) <= modules, f"{names} come from the root"


@pytest.mark.parametrize("room", ROOMS, ids=ids(ROOMS))
def test_a_door_names_every_file_of_its_room(room):
    door = ast.get_docstring(tree_of(room / "__init__.py")) or ""
    files = [path.stem for path in room.glob("*.py") if path.stem != "__init__"]
    assert [name for name in files if re.search(rf"\b{name}\b", door) is None] == []


def test_a_private_file_name_occurs_once():
    """`_pool.py` in two packages would make every search for it a guess."""
    private = [path.name for path in (*FILES, *(SOURCE.parent / "wids").glob("*.py")) if path.stem[:2] != "__"]
    private = [name for name in private if name.startswith("_")]
    assert sorted({name for name in private if private.count(name) > 1}) == []


@pytest.mark.parametrize("room", [room for room in ROOMS if room.name != "legacy"], ids=lambda room: room.name)
def test_a_door_says_what_can_be_had(room):
    module = tree_of(room / "__init__.py")
    exported = next(
        (
            ast.literal_eval(node.value)
            for node in module.body
            if isinstance(node, ast.Assign) and node.targets[0].id == "__all__"
        ),
        None,
    )
    assert exported is not None, "no __all__"
    assert exported == sorted(exported, key=_constants_first) or exported == sorted(exported)
    assert len(set(exported)) == len(exported)


def _constants_first(name):
    kind = 0 if name.isupper() else 1 if name[0].isupper() else 2
    return kind, name


# --- sizes -------------------------------------------------------------------------------------------------------


def test_files_are_short():
    """The table of public names in the package's own door is a list, not code."""
    lengths = {path: len(path.read_text().splitlines()) for path in FILES}
    assert {str(path): n for path, n in lengths.items() if n > 400} == {}
    assert statistics.median(lengths.values()) <= 150


def functions(path):
    for node in ast.walk(tree_of(path)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node


def body_lines(node):
    first = node.body[0]
    documented = (
        isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
    )
    body = node.body[1:] if documented else node.body
    return body[-1].end_lineno - body[0].lineno + 1 if body else 0


def test_functions_are_short():
    lengths = {f"{path.name}:{node.name}": body_lines(node) for path in FILES for node in functions(path)}
    assert {name: n for name, n in lengths.items() if n > 60} == {}
    assert statistics.quantiles(lengths.values(), n=10)[-1] <= 25


# --- words -------------------------------------------------------------------------------------------------------


def words(path):
    """Every word in the identifiers of a file: `shard_url` says shard and url."""
    found = set()
    for node in ast.walk(tree_of(path)):
        for attribute in ("id", "attr", "arg", "name"):
            value = getattr(node, attribute, None)
            if isinstance(value, str):
                found.update(re.sub(r"([a-z])([A-Z])", r"\1_\2", value).lower().replace(".", "_").split("_"))
    return found


# What a room does not know, it has no word for. `shard=` in an error's `Where` is the word of errors, not of the room.
UNKNOWN = {
    "tar": "sample samples url urls rank worker torch",
    "stores": "tar member members sample samples rank torch",
    "stages": "tar rank ranks torch",
    "samples": "rank worker queue torch",
    "codecs": "tar url rank worker",
    "index": "rank worker",
    "cache": "member sample samples rank",
    "writers": "rank worker torch",
}
# Words that a room must take into its mouth, each with its reason.
ALLOWED = {
    "stages/_collate.py": {"torch"},  # a column of tensors is stacked by torch
    "stages/_log_keys.py": {"rank"},  # the public format of the log has a column for it
    "stages/_padded.py": {"torch"},  # as _collate
}


@pytest.mark.parametrize("room", UNKNOWN)
def test_a_room_has_no_words_for_what_it_does_not_know(room):
    said = {}
    for path in sorted((SOURCE / room).rglob("*.py")):
        name = str(path.relative_to(SOURCE))
        forbidden = (words(path) & set(UNKNOWN[room].split())) - ALLOWED.get(name, set())
        if forbidden:
            said[name] = sorted(forbidden)
    assert said == {}


def calls(path):
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func)


@pytest.mark.parametrize(
    ("what", "where"),
    [
        (r"print", set()),
        (r"(time\.)?sleep", {"stores/_resuming_stream.py"}),
        (r"os\.(getenv|putenv)", {"config.py"}),
        (r"(sys\.)?exit", set()),
    ],
)
def test_only_one_place_does_it(what, where):
    found = {
        str(path.relative_to(SOURCE)) for path in FILES for call in calls(path) if re.fullmatch(what, call) is not None
    }
    assert found <= where


def test_only_config_reads_the_environment():
    assert {path.name for path in FILES if "environ" in words(path)} == {"config.py"}


def test_only_world_asks_torch_who_we_are():
    asking = {"get_rank", "get_world_size"}
    found = set()
    for path in FILES:
        names = {getattr(node, "attr", None) for node in ast.walk(tree_of(path))}
        if names & asking:
            found.add(path.name)
    assert found == {"world.py"}


# --- the import --------------------------------------------------------------------------------------------------

HEAVY = [
    "numpy",
    "torch",
    "PIL",
    "cv2",
    "yaml",
    "urllib3",
    "tqdm",
    "lmdb",
    "obstore",
    "fsspec",
    "av",
    "msgpack",
    "asyncio",
]


def loaded_after(statement):
    code = f"import sys\n{statement}\nprint(' '.join(m for m in {HEAVY!r} if m in sys.modules))"
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()


def test_D54_the_import_loads_nothing_heavy():
    assert loaded_after("import webdataset") == []


def test_D54_reading_and_batching_load_no_framework(tmp_path):
    statement = f"""
import webdataset as wds
with wds.TarWriter({str(tmp_path / "a.tar")!r}) as sink:
    sink.write({{"__key__": "0", "txt": "x", "cls": 1}})
batches = list(wds.WebDataset({str(tmp_path / "a.tar")!r}, shardshuffle=False).decode().to_tuple("txt", "cls").batched(2))
assert len(batches) == 1
"""
    assert set(loaded_after(statement)) <= {"numpy"}
