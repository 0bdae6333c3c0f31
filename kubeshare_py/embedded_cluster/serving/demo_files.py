"""Files that come with the package: the demo's cluster, workloads and definitions."""

from pathlib import Path
from typing import Any

from kubeshare_py.documents.problems import DocumentProblem
from kubeshare_py.documents.yaml_text import read_yaml_documents
from kubeshare_py.edges.process.document_files import read_bytes
from kubeshare_py.embedded_cluster.nodes.cluster_file import SimulatedNode, read_cluster

_PACKAGE = Path(__file__).parents[2]
#: In a wheel they are in the package, in a checkout in `config/` and in the chart.
_PLACES = (
    _PACKAGE / "config",
    _PACKAGE.parent / "config",
    _PACKAGE.parent / "deploy/chart/kubeshare",
)


def find(name: str) -> Path:
    """The path of a file of the package; raises DocumentProblem if it is missing."""
    for place in _PLACES:
        if (place / name).is_file():
            return place / name
    raise DocumentProblem(name, "", "is missing from this installation")


def read_nodes(path: str | None) -> tuple[SimulatedNode, ...]:
    """The nodes of a cluster file, the demo's without a path; raises DocumentProblem."""
    file = Path(path) if path else find("demo-cluster.yaml")
    return read_cluster(_bytes(file), str(file))


def read_workloads(path: str | None) -> tuple[dict[str, Any], ...]:
    """The objects of a YAML file, the demo's without a path; raises DocumentProblem."""
    file = Path(path) if path else find("demo-workloads.yaml")
    documents: list[Any] = [one for one in read_yaml_documents(_bytes(file), str(file)) if one]
    for number, found in enumerate(documents):
        where = f"document {number + 1}"
        if not isinstance(found, dict) or not {"apiVersion", "kind"} <= found.keys():
            raise DocumentProblem(str(file), where, "needs apiVersion and kind")
        wanted = (("apiVersion", str), ("kind", str), ("metadata", dict))
        wrong = [name for name, kind in wanted if not isinstance(found.get(name, kind()), kind)]
        if wrong:
            raise DocumentProblem(str(file), f"{where}.{wrong[0]}", "has the wrong type")
    return tuple(documents)


def _bytes(file: Path) -> bytes:
    try:
        return read_bytes(file)
    except OSError as error:
        raise DocumentProblem(str(file), "", str(error.strerror)) from error
