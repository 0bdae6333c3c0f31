"""Manifests from files and from standard input."""

import sys

from kubeshare_py.documents.problems import DocumentProblem
from kubeshare_py.documents.yaml_text import MAX_BYTES, read_yaml_documents
from kubeshare_py.edges.process.document_files import read_bytes

#: The name of standard input, as for kubectl.
STANDARD_INPUT = "-"


class UnreadableManifest(Exception):
    """A file cannot be read, or is no YAML; the text names it."""


def read_manifests(path: str) -> tuple[object, ...]:
    """The documents of a file in order, without empty ones. Raises UnreadableManifest."""
    is_input = path == STANDARD_INPUT
    source = "standard input" if is_input else path
    try:
        data = sys.stdin.buffer.read(MAX_BYTES + 1) if is_input else read_bytes(path)
        found = read_yaml_documents(data, source)
    except OSError as error:
        raise UnreadableManifest(f"{source}: {error.strerror}") from error
    except DocumentProblem as problem:
        raise UnreadableManifest(str(problem)) from problem
    return tuple(one for one in found if one is not None)
