"""Optional dependencies, and the extras of the distribution that install them."""

from __future__ import annotations

from importlib.util import find_spec


def missing_packages(extra: str, *packages: str) -> str | None:
    """Return a phrase about what to install; None if all `packages` can be imported.

    The phrase follows the name of the feature: "Spark " + "needs pyspark: pip install 'tidelog[spark]'".
    `extra` is the name of the extra in pyproject.toml that contains `packages`. No package is imported.
    """
    missing = [package for package in packages if find_spec(package) is None]
    if not missing:
        return None
    return f"needs {', '.join(missing)}: pip install 'tidelog[{extra}]'"
