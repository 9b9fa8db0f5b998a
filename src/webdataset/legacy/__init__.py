"""The public project's module names: what was imported from there can be imported from here.

In comes code written for other versions, with their names and call forms; out goes the library itself, called through
them. This folder is put on the path of the package, so that `legacy/filters.py` is `webdataset.filters`. It holds
imports and thin adapters only, and no other package imports from it. (`webdataset.handlers`, `webdataset.cache` and
`webdataset.pipeline` are packages of their own, and carry the public names of those modules themselves.)

* `autodecode.py`, `compat.py`, `extradatasets.py`, `filters.py`, `gopen.py`, `mix.py`, `multi.py`, `pytorch.py`,
  `shardlists.py`, `tariterators.py`, `tenbin.py`, `utils.py`, `writer.py`: the modules of the 1.0 series
* `iterators.py`: a module of the 0.1 series; `typecheck.py`: one of the 0.2 series
* `older.py`: names of the 0.1 and 0.2 series that later versions dropped
* `_live.py`: module attributes that are read and set like variables, and modules that can be called
"""
