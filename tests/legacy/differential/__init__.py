"""The same pipelines for two libraries. Run by `test_differential.py`, once with each."""
