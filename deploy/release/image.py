"""The image as an OCI layout: two layers, one configuration, an index; a tar that tools load.

The format: https://github.com/opencontainers/image-spec/blob/main/image-layout.md
What it runs, as whom and with which environment is what deploy/Dockerfile says.
"""

import json
import re
import shlex
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from deploy.release.archive import gzipped, sha256, tar_of

_TYPE = "application/vnd.oci.image"


_DIGEST = re.compile(r"@sha256:[0-9a-f]{64}")


class Unpinned(Exception):
    """A base image that a registry may exchange: it is not named by its digest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a container of the image starts."""

    user: str
    entrypoint: list[str]
    environment: list[str]
    ports: list[str] = field(default_factory=list)


def settings_of(dockerfile: str) -> Settings:
    """Read them from the last stage of a Dockerfile."""
    text = re.sub(r"\\\n\s*", "", dockerfile).rpartition("\nFROM ")[2]
    lines = [line.split(maxsplit=1) for line in text.splitlines() if re.match(r"[A-Z]+ ", line)]

    def all_of(name: str) -> list[str]:
        return [rest for instruction, rest in lines if instruction == name]

    return Settings(
        user=all_of("USER")[-1],
        entrypoint=json.loads(all_of("ENTRYPOINT")[-1]),
        environment=[one for rest in all_of("ENV") for one in shlex.split(rest)],
        ports=all_of("EXPOSE"),
    )


def check_bases(dockerfile: str) -> None:
    """Raise Unpinned unless every base is named by a digest, or must be by who builds it.

    `image@${DIGEST}` is right if DIGEST is an ARG without a default: a builder accepts nothing
    but a digest behind the @.
    """
    stages: set[str] = set()
    required = {*re.findall(r"^ARG ([A-Z_]+)[ \t]*$", dockerfile, re.MULTILINE | re.IGNORECASE)}
    for line in re.findall(r"^FROM[ \t]+(.*)$", dockerfile, re.MULTILINE | re.IGNORECASE):
        words = [word for word in line.split() if not word.startswith("--")]
        base, argument = words[0], re.search(r"@\$\{([A-Z_]+)\}$", words[0])
        by_argument = argument is not None and argument[1] in required
        if not (base in stages or base == "scratch" or by_argument or _DIGEST.search(base)):
            raise Unpinned(
                f"FROM {line}: name the base by its digest, {base}@sha256:…, not by a tag"
            )
        stages.add(words[-1])


def write_layout(
    layers: list[tuple[str, bytes]],
    settings: Settings,
    folder: Path,
    *,
    version: str,
    epoch: int,
) -> None:
    """Write the layout to an empty folder. `layers`: what made each, and its uncompressed tar."""
    created = datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    labels = {
        "org.opencontainers.image.title": "kubeshare-scheduler",
        "org.opencontainers.image.version": version,
        "org.opencontainers.image.licenses": "Apache-2.0",
    }
    config = {
        "created": created,
        "architecture": "amd64",
        "os": "linux",
        "config": {
            "User": settings.user,
            "Env": [*settings.environment, "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"],
            "Entrypoint": settings.entrypoint,
            "ExposedPorts": {f"{port}/tcp": {} for port in settings.ports},
            "WorkingDir": "/",
            "Labels": labels,
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{sha256(tar)}" for _, tar in layers]},
        "history": [{"created": created, "created_by": made_by} for made_by, _ in layers],
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{_TYPE}.manifest.v1+json",
        "config": _blob(folder, f"{_TYPE}.config.v1+json", _json(config)),
        "layers": [_blob(folder, f"{_TYPE}.layer.v1.tar+gzip", gzipped(tar)) for _, tar in layers],
    }
    described = _blob(folder, f"{_TYPE}.manifest.v1+json", _json(manifest))
    name = {"org.opencontainers.image.ref.name": version}
    index = {
        "schemaVersion": 2,
        "mediaType": f"{_TYPE}.index.v1+json",
        "manifests": [
            {**described, "platform": {"architecture": "amd64", "os": "linux"}, "annotations": name}
        ],
    }
    (folder / "index.json").write_bytes(_json(index))
    (folder / "oci-layout").write_bytes(_json({"imageLayoutVersion": "1.0.0"}))


def layout_tar(folder: Path, epoch: int) -> bytes:
    """Return the layout as one file, for `skopeo copy oci-archive:…` and `podman load`."""
    return tar_of(folder, epoch=epoch)


def _blob(folder: Path, media_type: str, content: bytes) -> dict[str, object]:
    digest = sha256(content)
    blobs = folder / "blobs/sha256"
    blobs.mkdir(parents=True, exist_ok=True)
    (blobs / digest).write_bytes(content)
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}


def _json(value: object) -> bytes:
    return json.dumps(value, indent=1, sort_keys=True).encode() + b"\n"
