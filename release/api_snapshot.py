"""The public API as griffe reads it from the source, stored in release/api.json, and what changed since.

    python release/api_snapshot.py                compares the source with the stored API; exit code 1 if something broke
    python release/api_snapshot.py --write        stores the API
    python release/api_snapshot.py --against v2.0.0    compares with a tag, by griffe's own rules

A name, method or parameter that disappears needs a file `changes/*.removed.md` that contains its name.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path

import griffe

ROOT = Path(__file__).resolve().parents[1]
STORED = ROOT / "release" / "api.json"


def public_names() -> list[str]:
    sys.path.insert(0, str(ROOT / "src"))
    import webdataset

    return list(webdataset.__all__)


def parameters(function: griffe.Function) -> list[str]:
    """Names in their order; `=` after those that have a default."""
    marks = {"variadic positional": "*", "variadic keyword": "**"}
    return [
        f"{marks.get(parameter.kind.value, '')}{parameter.name}{_default(parameter, marks)}"
        for parameter in function.parameters
        if parameter.name != "self"
    ]


def _default(parameter: griffe.Parameter, marks: dict[str, str]) -> str:
    return "=" if parameter.default is not None and parameter.kind.value not in marks else ""


def followed(found: griffe.Object | griffe.Alias) -> griffe.Object | griffe.Alias:
    """What `shuffle = Shuffle` stands for."""
    while found.is_alias or (found.is_attribute and isinstance(found.value, griffe.ExprName)):
        found = found.final_target if found.is_alias else found.parent[found.value.name]
    return found


def described(found: griffe.Object | griffe.Alias) -> dict[str, object]:
    """One name: parameters of a function or constructor, and the methods of a class."""
    if found.is_function:
        return {"parameters": parameters(found)}
    if not found.is_class:
        return {}
    methods = {
        name: parameters(member)
        for name, member in sorted(found.all_members.items())
        if not name.startswith("_") and member.is_function
    }
    return {"parameters": parameters(found), "methods": methods}


def api() -> dict[str, object]:
    package = griffe.load("webdataset", search_paths=[ROOT / "src"], resolve_aliases=True, allow_inspection=False)
    known = {}
    for name in public_names():
        try:
            known[name] = described(followed(package[name]))
        except (KeyError, griffe.AliasResolutionError):
            known[name] = {}  # a value or module that is made at run time
    return known


def broken(before: dict[str, object], now: dict[str, object]) -> list[str]:
    """What a program that used `before` may miss: dotted names."""
    found = [name for name in before if name not in now]
    for name in before.keys() & now.keys():
        old, new = before[name], now[name]
        found += lost_parameters(name, old.get("parameters", []), new.get("parameters", []))
        methods = new.get("methods", {})
        for method, arguments in old.get("methods", {}).items():
            if method not in methods:
                found.append(f"{name}.{method}")
            else:
                found += lost_parameters(f"{name}.{method}", arguments, methods[method])
    return sorted(found)


def lost_parameters(name: str, old: list[str], new: list[str]) -> list[str]:
    if any(argument.startswith("**") for argument in new):
        return []
    left = {argument.rstrip("=") for argument in new}
    return [f"{name}({argument.rstrip('=')})" for argument in old if argument.rstrip("=") not in left]


def unexplained(names: list[str], fragments: list[str]) -> list[str]:
    """Those whose last part no fragment mentions."""
    mentioned = set(re.findall(r"\w+", "\n".join(fragments)))
    return [name for name in names if re.findall(r"\w+", name)[-1] not in mentioned]


def removal_notes() -> list[str]:
    return [path.read_text() for path in sorted((ROOT / "changes").glob("*.removed.md"))]


def against(reference: str) -> int:
    old = griffe.load_git("webdataset", ref=reference, repo=ROOT, search_paths=["src"], resolve_aliases=True)
    new = griffe.load("webdataset", search_paths=[ROOT / "src"], resolve_aliases=True)
    changes = list(griffe.find_breaking_changes(old, new))
    for change in changes:
        print(change.explain())
    return bool(changes)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--against", metavar="TAG")
    arguments = parser.parse_args()
    if arguments.against:
        return against(arguments.against)
    if arguments.write:
        STORED.write_text(json.dumps(api(), indent=1, sort_keys=True) + "\n")
        return 0
    missing = unexplained(broken(json.loads(STORED.read_text()), api()), removal_notes())
    for name in missing:
        print(f"{name} is gone: add a file changes/*.removed.md that names it, or bring it back")
    return bool(missing)


if __name__ == "__main__":
    sys.exit(main())
