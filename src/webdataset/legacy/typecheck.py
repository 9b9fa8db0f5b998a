"""A module of the 0.2 series that switched run-time type checks on; `mypy --strict` checks this package instead."""
