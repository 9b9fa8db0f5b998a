"""All messages of the package, as a table (`pytest -s tests/test_messages.py`), and the rules for them.

A message says what happened, where, and what to do: the last is the `hint=` of a `WebDatasetError`.
"""

import ast
import functools
import re
from pathlib import Path

import pytest

from webdataset import errors

ROOT = Path(__file__).parents[1] / "src"
FILES = sorted(ROOT.rglob("*.py"))
OURS = {
    name
    for name, value in vars(errors).items()
    if isinstance(value, type) and issubclass(value, errors.WebDatasetError)
}
# These classes write the hint themselves.
WITH_OWN_HINT = {"MissingDependency", "DecodingError"}

# Metaphors, persons, and words that a reader whose first language is not English has to translate.
UNPLAIN = re.compile(
    r"\b(behind|nobody|somebody|whoever|is wanted|are wanted|stands?|lies|lie|cannot be had|mend|for want of|"
    r"at hand|house|rooms?|doors?|parcels?|desks?)\b|(?<![tT]here )\b(is|are) no "
)

# What a message without `hint=` says instead: what was expected, or why there is nothing to do.
SAYS_WHAT_TO_DO = re.compile(
    r"\b(expected|must|needs?|give|choose|is not allowed|cancelled|at least|at most|not callable|no option)\b"
)
# Codecs do not know the shard: `DecodingError` and `EncodingError` are raised from their errors, with place and hint.
RAISED_AGAIN = ("webdataset/codecs/", "webdataset/stages/_db_cache.py", "webdataset/stages/_lmdb_cached.py")
# Shown by a command, which adds the remedy where there is one; not reviewed as a list yet.
OF_COMMANDS = tuple(f"webdataset/{name}/" for name in ("cli", "interop", "serve", "tools", "viewer"))
# Other errors without a remedy, each with the reason.
NO_REMEDY = {
    ("webdataset/tar/_rewindable_bytes.py", "TruncatedShard"): "a finding of `wds check`, which has the remedy",
    ("wids/wids_dl.py", "CommandFailed"): "the text of the command",
    ("webdataset/flow.py", "StateError"): "cannot happen unless a stage breaks the protocol",
    ("webdataset/pipeline/_running_pass.py", "StateError"): "caught, and the state is counted instead",
    ("webdataset/pipeline/_nested_join.py", "StateError"): "caught, and the state is counted instead",
    ("webdataset/loader/_worker.py", "StageError"): "carries the traceback of a worker; its last line has the hint",
    ("webdataset/stores/_ais.py", "StoreError"): "retried; the last error says how often",
    ("webdataset/stores/_fsspec.py", "StoreError"): "the text of the store itself",
    ("webdataset/stores/_http.py", "StoreError"): "retried; the last error says how often",
    ("webdataset/stores/_huggingface.py", "StoreError"): "retried; the last error says how often",
    ("webdataset/stores/_system_errors.py", "StoreError"): "the text of the operating system",
    ("webdataset/stores/_request.py", "StoreError"): "retried; the last error says how often",
    ("webdataset/stores/_request.py", "StoreTimeout"): "retried; the last error says how often",
    ("webdataset/stores/_resuming_stream.py", "StoreError"): "retried; the last error says how often",
}


def name_of(call):
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def words_of(node):
    """The text of a message; `…` is what is filled in when it is raised."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "…" for part in node.values)
    if isinstance(node, ast.BinOp):
        return words_of(node.left) + words_of(node.right)
    if isinstance(node, ast.IfExp):
        return f"{words_of(node.body)} | {words_of(node.orelse)}"
    return "…"


@functools.cache
def messages():
    """(file, line, class, message, hint) of every error and warning that the source makes."""
    found = []
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            name = name_of(node)
            if name in OURS or re.fullmatch(r"[A-Z]\w*(Error|Exception|Warning)", name) or name == "warn":
                text = words_of(node.args[0]) if node.args else ""
                hint = next((words_of(keyword.value) for keyword in node.keywords if keyword.arg == "hint"), None)
                if hint is None and any(keyword.arg is None for keyword in node.keywords):
                    hint = "…"
                found.append((str(path.relative_to(ROOT)), node.lineno, name, text, hint))
    return found


def texts(path):
    """Every text of a file that is not a docstring, with its line."""
    tree = ast.parse(path.read_text())
    documents = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documents:
            yield node.lineno, node.value


def test_the_table():
    """Printed with `-s`, to be read once in a while from top to bottom."""
    table = messages()
    for file, line, name, text, hint in table:
        print(f"{file}:{line}  {name}\n    {text}\n    → {hint}")
    assert len(table) > 500
    assert {"SpecError", "StateError", "StoreError", "warn"} <= {name for _, _, name, _, _ in table}


def test_messages_are_plain_english():
    found = [
        (str(path.relative_to(ROOT)), line, text)
        for path in FILES
        for line, text in texts(path)
        if " " in text and UNPLAIN.search(text)
    ]
    assert found == []


def test_an_error_says_what_to_do():
    silent = [
        (file, line, name, text)
        for file, line, name, text, hint in messages()
        if name in OURS - WITH_OWN_HINT
        and hint is None
        and not file.startswith((*RAISED_AGAIN, *OF_COMMANDS))
        and (file, name) not in NO_REMEDY
        and not SAYS_WHAT_TO_DO.search(text)
    ]
    assert silent == []


def test_a_message_says_more_than_the_value_of_an_argument():
    """`order='x'` alone does not say what is wrong with it."""
    bare = re.compile(r"[\w.]*…?(\(\S*\)|=…|\[…\]=…)")
    assert [(file, line, text) for file, line, _, text, _ in messages() if bare.fullmatch(text)] == []


@pytest.mark.parametrize(
    "unplain", ["the bytes behind it", "nobody wants it", "a number is wanted", "where it lies", "'x' is no shard"]
)
def test_the_rule_finds_what_it_looks_for(unplain):
    assert UNPLAIN.search(unplain)
