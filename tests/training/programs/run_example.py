"""Run a program of examples/ as it is, and leave without the end of the interpreter (see `leaving.py`).

run_example.py PROGRAM [arguments]
"""

import runpy
import sys

from leaving import leave

del sys.argv[0]
sys.path[0] = sys.argv[0].rpartition("/")[0]  # as Python does for a script
runpy.run_path(sys.argv[0], run_name="__main__")
leave()
