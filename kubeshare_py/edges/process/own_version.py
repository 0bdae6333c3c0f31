"""The installed version, of the whole package or of the command's own distribution."""

from importlib.metadata import PackageNotFoundError, version

_DISTRIBUTIONS = ("kubeshare-py", "kubectl-kubeshare")


def own_version() -> str:
    """The installed version; "unknown" for files that were copied without their metadata."""
    for name in _DISTRIBUTIONS:
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return "unknown"
