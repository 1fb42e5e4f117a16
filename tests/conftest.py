"""Settings of all tests: on CI Hypothesis looks at the same examples every time, elsewhere at new ones."""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")
