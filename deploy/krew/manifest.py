"""The manifest of a release for krew's index."""

from collections.abc import Mapping
from pathlib import Path
from string import Template

TEMPLATE = Path(__file__).with_name("kubeshare.yaml")


def archive_name(version: str, platform: str) -> str:
    """Of the archive for a platform of krew, such as linux-amd64."""
    return f"kubectl-kubeshare-{version}-{platform}.tar.gz"


def manifest(version: str, url: str, sums: Mapping[str, str]) -> str:
    """Fill the template; `sums` are SHA-256 sums by platform. Raises KeyError if one is missing."""
    by_name = {platform.replace("-", "_"): digest for platform, digest in sums.items()}
    return Template(TEMPLATE.read_text()).substitute(
        version=version, url=url.rstrip("/"), **by_name
    )
