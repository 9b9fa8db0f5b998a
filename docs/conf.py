"""Sphinx: `make docs` builds the site into docs/_build/html. The pages are Markdown (MyST); names come from docstrings."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "docs")]

import generate_reference  # noqa: E402

import webdataset  # noqa: E402

generate_reference.write_pages()

project = "webdataset"
author = "The webdataset developers"
copyright = "the webdataset developers"
release = version = webdataset.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
exclude_patterns = ["_build"]
nitpicky = False  # docstrings name builtins of many packages; links between pages are checked either way

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
suppress_warnings = ["myst.header"]  # generated pages begin at the level their group needs

default_role = "code"  # docstrings write `name` for code
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
napoleon_google_docstring = True

html_theme = "furo"  # light and dark, search, no request to another host
html_title = f"webdataset {release}"
html_copy_source = False
html_theme_options = {"navigation_with_keys": True, "top_of_page_buttons": []}
