"""Training data from plain tar shards: `import webdataset as wds`.

Names are loaded when they are first used, so the import itself costs a few milliseconds and pulls in neither NumPy nor
torch. The public project's module names (`webdataset.filters`, `webdataset.tariterators`, …) live in `legacy/`.
"""

from __future__ import annotations

__version__ = "2.0.0"
