"""What fails in a check of parameters is shown as it is in a test."""

import pytest

pytest.register_assert_rewrite("tests.legacy.parameters")
