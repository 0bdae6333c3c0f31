"""Reads files that people write."""

from pathlib import Path

from kubeshare_py.documents.yaml_text import MAX_BYTES


def read_bytes(path: str | Path) -> bytes:
    """The content of a file; only the beginning if it is too large to be read as YAML.

    Raises OSError.
    """
    with open(path, "rb") as file:
        return file.read(MAX_BYTES + 1)
