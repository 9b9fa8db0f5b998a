"""Packages: how they import each other, how long files are, which words a package may use, how deep calls go.

Layers and cycles are checked by import-linter (`make lint`); what it cannot see is checked here.
"""

import ast
import functools
import importlib
import io
import re
import statistics
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest

from webdataset.testing import make_shard

SOURCE = Path(__file__).parents[1] / "src" / "webdataset"
FILES = sorted(SOURCE.rglob("*.py"))
PACKAGES = sorted(init.parent for init in SOURCE.glob("*/__init__.py"))
LAZY = [each.name for each in PACKAGES if "import lazy_names" in (each / "__init__.py").read_text()]


@functools.cache
def tree_of(path):
    return ast.parse(path.read_text())


def package_of(path):
    relative = path.relative_to(SOURCE)
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


def ids(paths):
    return [str(path.relative_to(SOURCE)) for path in paths]


# --- imports -----------------------------------------------------------------------------------------------------


def imports(path):
    """(module, names) of every import of ours, as written; relative ones with their dots."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or ""), [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            yield from ((alias.name, []) for alias in node.names)


@pytest.mark.parametrize("path", FILES, ids=ids(FILES))
def test_no_import_of_a_private_file_of_another_package(path):
    """Other packages are imported from their `__init__`; from the root only modules are imported."""
    for module, names in imports(path):
        parts = module.split(".")
        typed = path == SOURCE / "__init__.py" and module == "webdataset.legacy._live"  # the types of callable modules
        if parts[0] == "webdataset" and len(parts) > 2 and parts[1] != package_of(path) and not typed:
            assert not parts[2].startswith("_"), f"{module}: import from webdataset.{parts[1]}"
        if module == "webdataset" and path != SOURCE / "__init__.py":
            modules = {p.stem for p in SOURCE.glob("*.py")} | {package.name for package in PACKAGES}
            assert set(names) <= modules, f"import {names} from their packages"


@pytest.mark.parametrize("package", PACKAGES, ids=ids(PACKAGES))
def test_a_package_docstring_names_every_file(package):
    text = ast.get_docstring(tree_of(package / "__init__.py")) or ""
    files = [path.stem for path in package.glob("*.py") if path.stem != "__init__"]
    assert [name for name in files if re.search(rf"\b{name}\b", text) is None] == []


def test_a_private_file_name_occurs_once():
    """`_pool.py` in two packages would make every search for it a guess."""
    private = [path.name for path in (*FILES, *(SOURCE.parent / "wids").glob("*.py")) if path.stem[:2] != "__"]
    private = [name for name in private if name.startswith("_")]
    assert sorted({name for name in private if private.count(name) > 1}) == []


@pytest.mark.parametrize("package", [each for each in PACKAGES if each.name != "legacy"], ids=lambda each: each.name)
def test_a_package_lists_its_names_in_order(package):
    exported = importlib.import_module(f"webdataset.{package.name}").__all__
    assert exported == sorted(exported, key=_constants_first) or exported == sorted(exported)
    assert len(set(exported)) == len(exported)


@pytest.mark.parametrize("package", LAZY)
def test_type_checkers_see_the_names_that_are_loaded_when_they_are_used(package):
    block = next(node for node in tree_of(SOURCE / package / "__init__.py").body if isinstance(node, ast.If))
    nodes = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    seen = {alias.asname: (node.module, alias.name) for node in nodes for alias in node.names}
    others = [node for node in block.body if isinstance(node, ast.Assign)]
    seen |= {node.targets[0].id: seen[node.value.id] for node in others}
    assert seen == importlib.import_module(f"webdataset.{package}")._LAZY


@pytest.mark.parametrize("package", LAZY)
def test_every_name_that_is_loaded_when_it_is_used_is_where_the_table_says(package):
    module = importlib.import_module(f"webdataset.{package}")
    assert sorted(module._LAZY) == module.__all__
    for name, (file, _) in module._LAZY.items():
        home = str(getattr(getattr(module, name), "__module__", None))  # of an alias it is that of the type
        assert home.endswith(file) or not home.startswith("webdataset."), name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        module.nothing  # noqa: B018


def _constants_first(name):
    kind = 0 if name.isupper() else 1 if name[0].isupper() else 2
    return kind, name


# --- sizes -------------------------------------------------------------------------------------------------------


def test_files_are_short():
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


# Metaphors and words for persons, which a reader has to translate. `tests/test_messages.py` has those of messages.
UNPLAIN = re.compile(
    r"\b(nobody|somebody|anybody|whoever|deaf|told|asks?|asked|asking|wants?|at hand|lets? go|obeys|puzzles?|riddles?"
    r"|travels?|lives|hands? (?:on|over|out|back)|gives? back)\b",
    re.IGNORECASE,
)
PLAIN = set("cache index loader order pipeline plan samples shards stages tar writers".split())
# A word in its ordinary meaning: data, and code in it, that asks for something that the user did not allow.
ORDINARY = ("UnsafeContent (ValueError)", "Data asks for something")


def prose(path):
    """(line number, line) of all docstrings and comments of a file."""
    for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
        is_docstring = token.type == tokenize.STRING and token.string.lstrip("rRbB").startswith('"""')
        if is_docstring or token.type == tokenize.COMMENT:
            yield from enumerate(token.string.splitlines(), token.start[0])


@pytest.mark.parametrize(
    "path", [path for path in FILES if package_of(path) in PLAIN or path.parent == SOURCE], ids=lambda path: path.name
)
def test_docstrings_and_comments_are_plain(path):
    found = [(number, line.strip()) for number, line in prose(path) if UNPLAIN.search(line)]
    assert [entry for entry in found if not any(ordinary in entry[1] for ordinary in ORDINARY)] == []


def words(path):
    """Every word in the identifiers of a file: `shard_url` says shard and url."""
    found = set()
    for node in ast.walk(tree_of(path)):
        for attribute in ("id", "attr", "arg", "name"):
            value = getattr(node, attribute, None)
            if isinstance(value, str):
                found.update(re.sub(r"([a-z])([A-Z])", r"\1_\2", value).lower().replace(".", "_").split("_"))
    return found


# Words that no identifier of a package or module contains. `shard=` in an error's `Where` is a word of errors.
UNKNOWN = {
    "tar": "sample samples url urls rank worker torch",
    "stores": "tar member members sample samples rank torch",
    "stages": "tar rank ranks torch",
    "samples": "rank worker queue torch",
    "codecs": "tar url rank worker",
    "index": "rank worker",
    "cache": "member sample samples rank",
    "writers": "rank worker torch",
    "flow": "tar torch thread threads threading",
    "order": "url urls torch tar thread process",
}
# Exceptions, each with its reason.
ALLOWED = {
    "stages/_collate.py": {"torch"},  # a column of tensors is stacked by torch
    "stages/_log_keys.py": {"rank"},  # the public format of the log has a column for it
    "stages/_padded.py": {"torch"},  # as _collate
}


@pytest.mark.parametrize("package", UNKNOWN)
def test_identifiers_stay_inside_their_layer(package):
    said = {}
    for path in sorted((SOURCE / package).rglob("*.py")) or [SOURCE / f"{package}.py"]:
        name = str(path.relative_to(SOURCE))
        forbidden = (words(path) & set(UNKNOWN[package].split())) - ALLOWED.get(name, set())
        if forbidden:
            said[name] = sorted(forbidden)
    assert said == {}


# What our own processes send each other, and fields of samples, which `codecs/_pickle.py` checks first.
UNPICKLING = {
    "codecs/_pickle.py",
    "codecs/_pickle_scalars.py",
    "pipeline/_spawn_pickling.py",
    "loader/_transfer.py",
    "loader/_worker.py",
    "stores/_broker.py",
    "testing/_stage_contract.py",
}


def calls(path):
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func)


@pytest.mark.parametrize(
    ("what", "where"),
    [
        (r"print", set()),
        # `echo` of cli/_output.py escapes what a terminal would obey; a version and colours of our own are harmless.
        (r"click\.s?echo", {"cli/_output.py", "cli/_main.py", "cli/_show_command.py"}),
        # Formats that run programs or open further files are never tried: `codecs.open_image`, `codecs.open_media`.
        # The viewer opens a picture that it has made itself.
        (r"(.*\.)?(Image|pil|images)\.open", {"codecs/_decode_pixels.py", "viewer/_find_problems.py"}),
        (r"av\.open", {"codecs/_open_media.py", "codecs/_video.py"}),
        (r"(time\.)?sleep", {"stores/_resuming_stream.py"}),
        (r"pickle\.(loads?|Unpickler)", UNPICKLING),
        (r"os\.(getenv|putenv)", {"config.py"}),
        (r"(sys\.)?exit", set()),
        # Commands end with this process; the doctor asks tar for its version.
        (r"subprocess\.(Popen|run|call|check_\w+)", {"child_processes.py", "tools/_doctor.py"}),
    ],
)
def test_only_these_files_call_it(what, where):
    found = {
        str(path.relative_to(SOURCE)) for path in FILES for call in calls(path) if re.fullmatch(what, call) is not None
    }
    assert found <= where


def test_a_question_about_a_path_does_not_fail_untyped():
    """`Path.is_file()` raises an OSError of the machine (EIO, EMFILE); `os.path.isfile` answers, and opening tells why."""
    no_paths = {"entry", "info", "s", "self._fs", "os.path"}  # of os.scandir, of zipfile, a LocalFile, of fsspec
    asked = re.compile(r"(.*)\.(is_file|is_dir|exists)")
    found = [
        (str(path.relative_to(SOURCE)), call)
        for path in FILES
        for call in calls(path)
        if (match := asked.fullmatch(call)) and match[1] not in no_paths
    ]
    assert found == []


def test_only_config_reads_the_environment():
    assert {path.name for path in FILES if "environ" in words(path)} == {"config.py"}


def test_no_package_imports_from_legacy():
    """Only the root names its modules, for type checkers, and `cache` one of them, by name, when an old program asks."""
    modules = {path.stem for path in (SOURCE / "legacy").glob("*.py")} - {"__init__"}
    ours = {package.name for package in PACKAGES} | {path.stem for path in SOURCE.glob("*.py")}
    legacy = {"webdataset.legacy"} | {f"webdataset.{name}" for name in modules - ours}
    found = {
        (str(path.relative_to(SOURCE)), module)
        for path in FILES
        if package_of(path) not in {"legacy", "__init__"}
        for module, names in imports(path)
        if module in legacy
        or module.startswith("webdataset.legacy.")
        or (module == "webdataset" and set(names) & (modules - ours))
    }
    assert found == set()


def test_only_world_asks_torch_who_we_are():
    asking = {"get_rank", "get_world_size"}
    found = set()
    for path in FILES:
        names = {getattr(node, "attr", None) for node in ast.walk(tree_of(path))}
        if names & asking:
            found.add(path.name)
    assert found == {"world.py"}


def test_only_these_files_import_torch_when_they_are_imported():
    """Everything else imports torch inside functions: `import webdataset` and plain reading do without it."""
    found = set()
    for path in FILES:
        for node in tree_of(path).body:
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            modules += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
            if any(module.split(".")[0] == "torch" for module in modules):
                found.add(str(path.relative_to(SOURCE)))
    assert found == {"loader/_processes.py", "loader/_collate_shared.py"}


# --- depth -------------------------------------------------------------------------------------------------------


def deepest(dataset, through=""):
    """The longest stack of our functions during `next(iter(dataset))`, of those that pass through a package."""
    longest = []

    def note(frame, event, argument):
        nonlocal longest
        stack = []
        while event == "call" and frame is not None:
            path = Path(frame.f_code.co_filename)
            if SOURCE in path.parents:
                stack.append(f"{path.relative_to(SOURCE)}:{frame.f_code.co_name}")
            frame = frame.f_back
        if len(stack) > len(longest) and any(call.startswith(through) for call in stack):
            longest = stack

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        next(iter(dataset))
    finally:
        sys.setprofile(before)
    return longest


def test_the_call_path_to_the_first_sample_is_short(tmp_path):
    import webdataset as wds

    with wds.TarWriter(str(tmp_path / "a.tar")) as sink:
        for number in range(30):
            sink.write({"__key__": f"{number:04}", "txt": "x", "cls": number})
    dataset = wds.WebDataset(str(tmp_path / "a.tar"), index=False)
    plain = deepest(dataset)
    assert 5 < len(plain) <= 12, plain
    longer = dataset.shuffle(10).decode().batched(4)
    to_the_bytes = deepest(longer, through="tar/")
    assert 5 < len(to_the_bytes) <= 12, to_the_bytes
    dataset.close()
    longer.close()


def test_the_architecture_page_names_files_that_exist():
    page = (SOURCE.parents[1] / "docs" / "architecture.md").read_text()
    named = set(re.findall(r"`(\w+/_\w+\.py)`", page))
    assert len(named) > 20
    assert [name for name in sorted(named) if not (SOURCE / name).exists()] == []


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


# Files that only some programs need. All together they would take 25 ms of the first sample.
UNUSED = [
    "webdataset.index._indexed_shards",
    "webdataset.index._shard_index",
    "webdataset.order._epoch_order",
    "webdataset.pipeline._mix",
    "webdataset.plan._array_batches",
    "webdataset.plan._read_planned",
    "webdataset.shards._yaml_spec",
    "webdataset.tar._damage",
]


def loaded_after(statement, watched=HEAVY):
    code = f"import sys\n{statement}\nprint(' '.join(m for m in {watched!r} if m in sys.modules))"
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


def test_the_first_sample_of_a_stream_loads_no_file_that_it_does_not_need(tmp_path):
    url = make_shard(tmp_path / "a.tar", [{"__key__": "0", "txt": "x"}])
    read = f"import webdataset as wds\nnext(iter(wds.WebDataset({url!r}, shardshuffle=False)))"
    assert loaded_after(read, UNUSED) == []
    indexed = f"import webdataset as wds\nnext(iter(wds.WebDataset({url!r}, index=True)))"
    assert "webdataset.plan._read_planned" in loaded_after(indexed, UNUSED)
