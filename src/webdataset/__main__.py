"""`python -m webdataset` is `wds`."""

from webdataset.cli import main

main()
