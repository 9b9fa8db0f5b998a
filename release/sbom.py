"""Writes release/webdataset.cdx.json, the bill of materials (CycloneDX) that is put into the wheel (PEP 770).

    python release/sbom.py          a test compares the file with pyproject.toml

It has no time stamp and no random number, so that a wheel that is built twice is the same.
"""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
STORED = ROOT / "release" / "webdataset.cdx.json"


def component(requirement: str, scope: str) -> dict[str, object]:
    name, ranges = re.fullmatch(r"([\w.-]+)(?:\[[^]]*\])?\s*([^;]*)(?:;.*)?", requirement).groups()
    return {
        "type": "library",
        "bom-ref": f"pkg:pypi/{name.lower()}",
        "name": name,
        "scope": scope,
        "purl": f"pkg:pypi/{name.lower()}",
        "properties": [{"name": "version-range", "value": ranges.strip()}],
    }


def bill() -> dict[str, object]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    reference = f"pkg:pypi/{project['name']}@{project['version']}"
    parts = {}
    for requirements in project["optional-dependencies"].values():
        parts |= {one["name"]: one for one in (component(text, "optional") for text in requirements)}
    parts |= {one["name"]: one for one in (component(text, "required") for text in project["dependencies"])}
    required = [one["bom-ref"] for name, one in sorted(parts.items()) if one["scope"] == "required"]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "library",
                "bom-ref": reference,
                "name": project["name"],
                "version": project["version"],
                "licenses": [{"license": {"id": project["license"]}}],
                "purl": reference,
            }
        },
        "components": [parts[name] for name in sorted(parts)],
        "dependencies": [{"ref": reference, "dependsOn": required}],
    }


def text() -> str:
    return json.dumps(bill(), indent=1) + "\n"


if __name__ == "__main__":
    STORED.write_text(text())
