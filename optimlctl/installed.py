"""Versions of what is installed."""

from importlib.metadata import PackageNotFoundError, version

__all__ = ["package_version"]


def package_version(name: str) -> str:
    """Return the version of an installed distribution; `not installed` for a bare checkout on the path."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
