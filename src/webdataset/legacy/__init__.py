"""The public project's module names: its imports work with this package.

In: names and call forms of other versions. Out: this library, called through them. This folder is on the path of the
package, so that `legacy/filters.py` is `webdataset.filters`. It has imports and thin adapters only, and no other
package imports from it. (`webdataset.handlers`, `webdataset.cache` and `webdataset.pipeline` are packages of their own,
which have the public names of those modules.)

* `autodecode.py`, `compat.py`, `extradatasets.py`, `filters.py`, `gopen.py`, `mix.py`, `multi.py`, `pytorch.py`,
  `shardlists.py`, `tariterators.py`, `tenbin.py`, `utils.py`, `writer.py`: the modules of the 1.0 series
* `iterators.py`: a module of the 0.1 series; `typecheck.py`: one of the 0.2 series
* `older.py`: names of the 0.1 and 0.2 series that later versions dropped
* `_live.py`: module attributes that are read and set like variables, and modules that can be called
"""
