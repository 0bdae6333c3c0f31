"""What is in the image, for people who must know: a CycloneDX bill of materials, and the licences.

Both are read from the image's root, so that nothing is in one and not in the other.
"""

import email
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import Message
from pathlib import Path

from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import DisjunctiveLicense
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

_RULE = "\n" + "=" * 80 + "\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One package. `licence` is what it says of itself; `texts` are paths below the root."""

    kind: str
    name: str
    version: str
    licence: str
    texts: tuple[Path, ...]


def parts_of(root: Path) -> list[Part]:
    """Return the packages of Debian and of Python that are in the root, by kind and name."""
    return [*_debian(root), *_python(root / "app")]


def bill(parts: Iterable[Part], version: str, epoch: int) -> str:
    """Return the bill as CycloneDX 1.6 JSON; equal parts give an equal text."""
    components = [_component(part) for part in parts]
    number = uuid.uuid5(uuid.NAMESPACE_URL, f"pkg:oci/kubeshare-scheduler@{version}")
    bom = Bom(components=components, serial_number=number)
    whole = Component(
        type=ComponentType.CONTAINER, name="kubeshare-scheduler", version=version, bom_ref="image"
    )
    bom.metadata.timestamp = datetime.fromtimestamp(epoch, UTC)
    bom.metadata.component = whole
    bom.register_dependency(whole, components)
    return str(JsonV1Dot6(bom).output_as_string(indent=1)) + "\n"


def licences(parts: Iterable[Part], root: Path) -> str:
    """Return every package with the texts of its licence."""
    pages = []
    for part in parts:
        texts = [(root / path).read_text(encoding="utf-8", errors="replace") for path in part.texts]
        head = f"{part.name} {part.version} ({part.kind}): {part.licence or 'see below'}"
        pages.append("\n\n".join([head, *texts] if texts else [head, "It ships no text of it."]))
    return _RULE.join(pages) + "\n"


def _component(part: Part) -> Component:
    purl = PackageURL(
        type="deb" if part.kind == "Debian" else "pypi",
        namespace="debian" if part.kind == "Debian" else None,
        name=part.name,
        version=part.version,
    )
    return Component(
        type=ComponentType.LIBRARY,
        name=part.name,
        version=part.version,
        purl=purl,
        bom_ref=purl.to_string(),
        licenses=[DisjunctiveLicense(name=part.licence)] if part.licence else [],
    )


def _debian(root: Path) -> Iterable[Part]:
    for file in sorted((root / "var/lib/dpkg/status.d").iterdir()):
        fields = email.message_from_string(file.read_text(encoding="utf-8"))
        # The folder of a library may be a link to that of the package which it is made with.
        copyright_file = root / "usr/share/doc" / file.name / "copyright"
        yield Part(
            kind="Debian",
            name=fields["Package"],
            version=fields["Version"],
            licence="",
            texts=(copyright_file.relative_to(root),) if copyright_file.exists() else (),
        )


def _python(app: Path) -> Iterable[Part]:
    for folder in sorted(app.glob("*.dist-info")):
        fields = email.message_from_string((folder / "METADATA").read_text(encoding="utf-8"))
        texts = {
            path
            for path in folder.rglob("*")
            if path.is_file() and path.name.upper().startswith(("LICEN", "COPYING", "NOTICE"))
        }
        yield Part(
            kind="Python",
            name=fields["Name"],
            version=fields["Version"],
            licence=_licence(fields),
            texts=tuple(path.relative_to(app.parent) for path in sorted(texts)),
        )


def _licence(fields: Message) -> str:
    """Return the expression, the classifiers, or one line of free text."""
    if expression := fields["License-Expression"]:
        return str(expression)
    named = [
        one.rpartition(" :: ")[2]
        for one in fields.get_all("Classifier", [])
        if one.startswith("License :: OSI Approved :: ")
    ]
    free = (fields["License"] or "").strip()
    return ", ".join(named) or ("" if "\n" in free else free)
