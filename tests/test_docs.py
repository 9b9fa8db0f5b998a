"""The documents tell the truth: every block of code in them runs, and prints what they say it prints.

`docs/run_page.py` explains the kinds of blocks. A block that cannot run here has a comment that says why:
`<!-- not run: needs a bucket -->`.
"""

import importlib
import importlib.util
import os
import re
import sys
from pathlib import Path

import pytest

import webdataset as wds
from webdataset import stores
from webdataset.config import VARIABLES

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [path for path in sorted(DOCS.rglob("*.md")) if "_build" not in path.parts]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *PAGES, ROOT / "benchmarks" / "README.md"]
HOWTOS = [path for path in sorted((DOCS / "howto").glob("*.md")) if path.name != "index.md"]

# Pages whose shell commands a test of their own runs; here their Python blocks run.
SHELL_ELSEWHERE = {ROOT / "README.md", DOCS / "commands.md", DOCS / "checking.md", ROOT / "CONTRIBUTING.md"}
LANGUAGES = {"python", "console", "bash", "sh", "text", "json", "yaml", "toml", "diff", "", "mermaid"}


def load(name):
    """A program of docs/ as a module."""
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look themselves up there
    spec.loader.exec_module(module)
    return module


run_page = load("run_page")
generate_reference = load("generate_reference")


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    """A directory with a small dataset of the shape that the documents speak of; the environment is restored."""
    run_page.load_make_data()(tmp_path)
    monkeypatch.chdir(tmp_path)
    environment, safety, schemes = dict(os.environ), wds.config.safety, dict(stores.schemes)
    yield tmp_path
    for scheme in set(stores.schemes) - set(schemes):
        del stores.schemes[scheme]
    stores.schemes.update(schemes)
    os.environ.clear()
    os.environ.update(environment)
    safety.enforce = safety.weights_only = None


def named(paths):
    return {"argvalues": paths, "ids": [str(path.relative_to(ROOT)) for path in paths]}


@pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")
@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated:UserWarning")
@pytest.mark.timeout(400)
@pytest.mark.parametrize("path", **named([path for path in DOCUMENTS if "tutorial" not in path.parts]))
def test_every_block_runs_and_prints_what_the_page_says(path, workplace):
    page = run_page.Page(path)
    if path in SHELL_ELSEWHERE:
        page.shell = lambda command: ""
    page.run()


@pytest.mark.parametrize("name", ["write-a-stage", "write-a-store"])
def test_what_a_page_writes_passes_its_whole_contract(name, workplace):
    class Kept(dict):
        def clear(self):
            """The classes of the page are used after it has run."""

    page = run_page.Page(DOCS / "howto" / f"{name}.md")
    page.namespace = Kept(page.namespace)
    page.run()
    (contract,) = [value for name, value in page.namespace.items() if name.startswith("Test")]
    tests = [test for test in dir(contract) if test.startswith("test_") and "pickles" not in test]
    assert len(tests) > 3
    for test in tests:  # a class of a page has no module, so it cannot be pickled
        getattr(contract(), test)()


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("path", **named([path for path in DOCUMENTS if "tutorial" in path.parts]))
def test_the_tutorial_runs_and_prints_what_it_says(path, workplace):
    run_page.Page(path).run()


def test_a_wrong_output_is_found(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.md"
    for source in (
        "```python\nprint(1)\n```\n\n<!-- output -->\n```text\n2\n```\n",
        "```console\n$ echo 1\n2\n```\n",
        "```bash\nfalse\ntrue\n```\n",
    ):
        page.write_text(source)
        with pytest.raises(AssertionError):
            run_page.Page(page).run()
    page.write_text("```console\n$ echo 1 2\n1 ...\n```\n<!-- file: a.py -->\n```python\nx = 1\n```\n")
    run_page.Page(page).run()
    assert (tmp_path / "a.py").read_text() == "x = 1\n"


@pytest.mark.parametrize("path", **named(PAGES))
def test_every_block_has_a_language_that_is_run_or_known(path):
    for block in run_page.blocks(path.read_text()):
        assert block.language in LANGUAGES or block.language.startswith("{"), f"{path.name}:{block.line}"
        assert block.word != "output" or block.source.strip(), f"{path.name}:{block.line}: an output is missing"


@pytest.mark.parametrize("path", **named(HOWTOS))
def test_a_how_to_is_short_and_runs_something(path):
    text = path.read_text()
    lines = [line for line in text.splitlines() if line.strip()]
    assert len(lines) <= 60, "a how-to is one task"
    assert path.name == "migrate.md" or any(block.runs for block in run_page.blocks(text))


# --- names and tables ---------------------------------------------------------------------------------------------


def test_every_public_name_is_in_the_reference_once():
    listed = [name for page in generate_reference.PAGES for name in generate_reference.names_of(page)]
    assert sorted(listed) == sorted(set(listed))
    assert sorted({*listed, *generate_reference.error_names()}) == sorted(
        {*wds.__all__, *generate_reference.error_names()}
    )


def test_every_public_name_has_an_example_that_runs():
    """In its docstring, or in a block of a page."""
    ran = "\n".join(block.source for path in DOCUMENTS for block in run_page.blocks(path.read_text()) if block.runs)
    used = set(re.findall(r"\w+", ran))
    missing = [name for name in wds.__all__ if name not in used and ">>>" not in (getattr(wds, name).__doc__ or "")]
    assert missing == []


def test_every_error_has_a_remedy():
    assert sorted(generate_reference.REMEDIES) == sorted(generate_reference.error_names())


@pytest.mark.parametrize("path", **named(sorted(generate_reference.pages())))
def test_generated_pages_are_up_to_date(path):
    """`python docs/generate_reference.py` writes them anew."""
    assert path.read_text() == generate_reference.pages()[path]


def test_every_public_name_that_a_document_uses_exists():
    for path in DOCUMENTS:
        for name in re.findall(r"\bwds\.([A-Za-z_]\w*)", path.read_text()):
            assert hasattr(wds, name), f"{path.name}: wds.{name}"


def test_no_document_names_a_variable_that_is_not_read():
    text = "\n".join(path.read_text() for path in DOCUMENTS)
    found = set(re.findall(r"\b(?:WDS|GOPEN)_[A-Z_]*[A-Z]\b", text))
    assert found - set(VARIABLES) <= {"WDS_NAME", "WDS_BUCKET", "WDS_COMPLETE"}


@pytest.mark.parametrize("path", **named([*DOCUMENTS, ROOT / "SECURITY.md", ROOT / "CHANGELOG.md"]))
def test_links_between_documents_lead_somewhere(path):
    for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", path.read_text()):
        assert (path.parent / target).exists(), target


@pytest.mark.parametrize(
    "path", **named([DOCS / "pains.md", DOCS / "explanation" / "guarantees.md", ROOT / "SECURITY.md"])
)
def test_tests_that_a_page_names_exist(path):
    """`tests/x/test_y.py` is a file or folder, and `::test_z` a function in it."""
    text = path.read_text()
    assert "`::" not in text, "write the whole name, so that it can be checked"
    files = re.findall(r"(tests/[\w/.]*\w)(?:::(\w+))?", text)
    assert files
    for file, function in files:
        assert (ROOT / file).exists(), file
        assert not function or f"def {function}(" in (ROOT / file).read_text(), f"{file}::{function}"


def test_every_line_of_the_threat_model_names_a_test():
    rows = re.findall(
        r"^\| (?!what \| test|cannot \| test)([^|]+) \| ([^|]+) \|$", (ROOT / "SECURITY.md").read_text(), re.MULTILINE
    )
    assert len(rows) > 25
    for what, tests in rows:
        assert "tests/" in tests, what


def test_the_pictures_are_those_of_the_code():
    """`python docs/draw_order.py` draws them anew."""
    for path, text in load("draw_order").pictures().items():
        assert path.read_text() == text


def test_the_listed_names_of_modules_are_their_public_names():
    """A name that a module no longer has fails when the page is made; `testing` is listed whole."""
    listed = generate_reference.MODULE_PAGES["testing"][3].split()
    assert sorted(listed) == sorted(importlib.import_module("webdataset.testing").__all__)


@pytest.mark.parametrize("path", **named([path for path in DOCUMENTS if "decisions" not in path.parts]))
def test_a_page_says_where_its_data_comes_from(path):
    text = path.read_text()
    reads = any(block.runs and "data/train-" in block.source for block in run_page.blocks(text))
    assert not reads or "data of these pages" in text.lower().replace("-", " "), (
        "link to the data: howto/index.md#the-data-of-these-pages"
    )


@pytest.mark.parametrize("path", **named(DOCUMENTS))
def test_no_page_installs_the_public_library(path):
    """The name on PyPI is the public library; this one is installed from a clone."""
    assert not re.search(
        r"""^\s*(?:\$ )?pip install ['"]?webdataset|`pip install '?webdataset\[""", path.read_text(), re.M
    )


# Words that need translating, and what to write instead.
PLAIN = {
    r"\bhanded on\b|\bhands on\b": "yielded, or delivered",
    r"\btrips? over\b": "say which program is affected",
    r"\bwhat stands\b|\bthat stands\b": "say what is printed",
    r"\btests? that holds? (?:it|them)\b": "the test that proves it",
    r"&& ! ": "one command per line, with its output",
    r"\bbehind\b": "after",
    r"\bnobody\b|\bsomebody\b": "say what happens",
    r"\bis wanted\b|\bare wanted\b": "expected",
    r"\bcannot be had\b": "could not be read",
    r"\bits likes\b": "compatible",
}


@pytest.mark.parametrize(
    "path", **named([p for p in PAGES if "decisions" not in p.parts and not p.name.startswith("api-")])
)
def test_pages_are_in_plain_english(path):
    for pattern, instead in PLAIN.items():
        found = re.search(pattern, path.read_text(), re.IGNORECASE)
        assert not found, f"{found[0]!r}: write {instead!r}"


def test_the_terminal_of_the_readme_is_that_of_the_tutorial():
    """`python docs/draw_demo.py` draws it anew."""
    assert (DOCS / "demo.svg").read_text() == load("draw_demo").picture()
