"""The build of the running program, and its addresses."""

import platform
from collections.abc import Iterable
from importlib import metadata

from kubeshare_py.edges.process import decision_log
from kubeshare_py.exporters.metric import Build

UNKNOWN = "unknown"


def running_build() -> Build:
    """The build of this process; the version is "unknown" if the package is not installed."""
    try:
        version = metadata.version("kubeshare-py")
    except metadata.PackageNotFoundError:
        version = UNKNOWN
    return Build(version=version, python_version=platform.python_version())


def say_started(program: str, **fields: object) -> None:
    """Log one line: this program, of this version, has started."""
    build = running_build()
    about = {"program": program, "version": build.version, "python": build.python_version}
    decision_log.inform("started", **about, **fields)


def say_listening(
    program: str, addresses: Iterable[tuple[str, int]], scheme: str, **fields: object
) -> None:
    """Log one line per socket, with its URL: two for "all addresses" of a host with IPv6."""
    urls = [url(scheme, *address) for address in addresses]
    say_started(program, addresses=urls, **fields)


def url(scheme: str, host: str, port: int) -> str:
    """The URL of a server's root, without a trailing slash."""
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"
