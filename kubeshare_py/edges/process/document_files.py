"""Files that people write, off the disk."""

from pathlib import Path

from kubeshare_py.documents.yaml_text import MOST_BYTES


def read_bytes(path: str | Path) -> bytes:
    """What is in a file, of one that is too large to be read as YAML only the beginning.

    Raises OSError.
    """
    with open(path, "rb") as file:
        return file.read(MOST_BYTES + 1)
