"""Kubeconfig files as kubectl reads them: several files merged, sections chosen by name.

Rules: https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kubeshare_py.documents.problems import DocumentProblem
from kubeshare_py.documents.yaml_text import read_yaml
from kubeshare_py.edges.kube.credential_reading import KubeConfigError
from kubeshare_py.edges.process.document_files import read_bytes

_LISTS = {"clusters": "cluster", "users": "user", "contexts": "context"}
_KINDS = {str: "a string", bool: "true or false", list: "a list", dict: "a mapping"}


@dataclass(frozen=True, slots=True)
class Section:
    """One cluster, user or context, and the folder that its relative paths start from."""

    where: str
    folder: Path
    fields: Mapping[str, Any]

    def text(self, name: str) -> str:
        """A string field, "" if it is absent; raises KubeConfigError for another type."""
        return str(self._typed(name, str) or "")

    def flag(self, name: str) -> bool:
        """A boolean field, False if it is absent."""
        return bool(self._typed(name, bool))

    def entries(self, name: str) -> list[Any]:
        """A list of anything, empty if it is absent."""
        return list(self._typed(name, list) or ())

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of strings."""
        return tuple(map(str, self._typed(name, list) or ()))

    def inner(self, name: str) -> "Section | None":
        """A mapping inside this one, None if it is absent."""
        found = self._typed(name, dict)
        return None if found is None else Section(f"{self.where}.{name}", self.folder, found)

    def path(self, name: str) -> Path | None:
        """The file in a field, None if it is absent."""
        text = self.text(name)
        return self.folder / Path(text).expanduser() if text else None

    def with_fields(self, given: Mapping[str, Any]) -> "Section":
        """The section with options of the command line in place of its fields."""
        return Section(self.where, self.folder, {**self.fields, **given})

    def _typed(self, name: str, kind: type) -> Any:
        value = self.fields.get(name)
        if value is not None and not isinstance(value, kind):
            raise KubeConfigError(f"{self.where}: {name} is not {_KINDS[kind]}")
        return value


@dataclass(slots=True)
class Kubeconfig:
    """All files together: of two sections with one name, the first counts."""

    source: str
    current: str = ""
    clusters: dict[str, Section] = field(default_factory=dict)
    users: dict[str, Section] = field(default_factory=dict)
    contexts: dict[str, Section] = field(default_factory=dict)

    def context(self, name: str | None) -> Section | None:
        """The named context, or the current one; None if there is neither.

        Raises KubeConfigError for a context that does not exist.
        """
        wanted = name or self.current
        return self.section("contexts", wanted) if wanted else None

    def section(self, kind: str, name: str) -> Section:
        """A section by name; raises KubeConfigError, which lists the existing ones."""
        there: dict[str, Section] = getattr(self, kind)
        if name not in there:
            known = ", ".join(sorted(there)) or "none"
            raise KubeConfigError(
                f"{self.source}: {_LISTS[kind]} {name!r} does not exist (there are: {known})"
            )
        return there[name]


def kubeconfig_paths(given: str | None, environ: Mapping[str, str]) -> list[Path]:
    """The files to merge: the given one, $KUBECONFIG (a list), or ~/.kube/config."""
    if given:
        return [Path(given).expanduser()]
    listed = [part for part in environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    home = environ.get("HOME") or str(Path.home())
    return [Path(part) for part in listed] or [Path(home) / ".kube" / "config"]


def read_kubeconfig(paths: list[Path], *, must_exist: bool) -> Kubeconfig | None:
    """Merge the files that exist; None if none does.

    Raises KubeConfigError for files that cannot be read, and with `must_exist` for absent ones.
    """
    config = Kubeconfig(f"kubeconfig {os.pathsep.join(map(str, paths))}")
    found = False
    for path in paths:
        try:
            text = read_bytes(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise KubeConfigError(f"kubeconfig {path}: {error.strerror or error}") from error
        found = True
        _merge(config, path, _decoded(path, text))
    if not found and must_exist:
        raise KubeConfigError(f"{config.source}: no such file")
    return config if found else None


def _decoded(path: Path, text: bytes) -> dict[str, Any]:
    try:
        document = read_yaml(text, f"kubeconfig {path}") if text.strip() else {}
    except DocumentProblem as problem:
        raise KubeConfigError(str(problem)) from problem
    if not isinstance(document, dict):
        raise KubeConfigError(f"kubeconfig {path}: not a kubeconfig")
    return document


def _merge(config: Kubeconfig, path: Path, document: Mapping[str, Any]) -> None:
    whole = Section(f"kubeconfig {path}", path.parent, document)
    config.current = config.current or whole.text("current-context")
    for kind, inside in _LISTS.items():
        there: dict[str, Section] = getattr(config, kind)
        for entry in whole.entries(kind):
            if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
                raise KubeConfigError(f"{whole.where}: {kind} has an entry without a name")
            fields = Section(whole.where, path.parent, entry).inner(inside)
            where = f"{whole.where}: {inside} {entry['name']}"
            section = Section(where, path.parent, fields.fields if fields else {})
            there.setdefault(entry["name"], section)
