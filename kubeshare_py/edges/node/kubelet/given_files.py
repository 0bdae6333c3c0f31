"""Files of the device plugins: what they gave, and a CDI specification for each claim.

A container runtime reads the specifications when it makes a container:
https://github.com/cncf-tags/container-device-interface/blob/main/SPEC.md
Each file is written beside its place and moved there, so that readers find it whole or not at all.
"""

import os
from pathlib import Path

import msgspec

from kubeshare_py.edges.process import decision_log
from kubeshare_py.node_agent.device_plugin.container_edits import ContainerEdits, HostMount
from kubeshare_py.node_agent.device_plugin.given import Given, restored, stored

KIND = "kubeshare.io/claim"
_PREFIX, _SUFFIX = "kubeshare.io-claim-", ".json"
#: Understood by containerd from 1.7 on.
_CDI_VERSION = "0.5.0"


def cdi_device(claim: str) -> str:
    """The qualified name of a claim."""
    return f"{KIND}={claim}"


def claim_of(device: str) -> str:
    """The claim of a qualified name, "" if it is of another kind."""
    kind, _, claim = device.partition("=")
    return claim if kind == KIND else ""


class GivenFiles:
    """The files below the node's `root`. All methods raise OSError where a file cannot be used."""

    def __init__(self, root: Path) -> None:
        self.given_file = root / "var/lib/kubeshare/device-plugins.json"
        self.claims = root / "var/run/cdi"

    def load(self) -> Given:
        """What was given before; nothing if the file is missing or cannot be read."""
        try:
            return restored(self.given_file.read_bytes())
        except FileNotFoundError:
            return Given()
        except ValueError as error:
            decision_log.warn("device-plugins", file=self.given_file.name, message=str(error))
            return Given()

    def store(self, given: Given) -> None:
        """Keep what is given, also through a loss of power."""
        _put(self.given_file, stored(given), synchronised=True)

    def write(self, claim: str, given: ContainerEdits) -> None:
        """Write the specification of a claim."""
        edits: dict[str, object] = {
            "env": [f"{name}={value}" for name, value in given.variables.items()]
        }
        if given.mounts:
            edits["mounts"] = [_mount(one) for one in given.mounts]
        document = {
            "cdiVersion": _CDI_VERSION,
            "kind": KIND,
            "devices": [{"name": claim, "containerEdits": edits}],
        }
        _put(self._path(claim), msgspec.json.encode(document), synchronised=False)

    def tidy(self, given: Given) -> None:
        """Remove the specifications of claims that are not given."""
        kept = {self._path(one.name) for one in given.claims}
        for path in self.claims.glob(f"{_PREFIX}*"):
            if path not in kept:
                path.unlink(missing_ok=True)

    def _path(self, claim: str) -> Path:
        return self.claims / f"{_PREFIX}{claim}{_SUFFIX}"


def _mount(one: HostMount) -> dict[str, object]:
    options = ["rbind", "nosuid", "nodev", "ro" if one.read_only else "rw"]
    return {"hostPath": one.host, "containerPath": one.container, "options": options}


def _put(path: Path, content: bytes, *, synchronised: bool) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # Runtimes read files that end in .json or .yaml.
    new = path.with_name(f"{path.name}.new")
    with new.open("wb") as file:
        file.write(content)
        if synchronised:
            file.flush()
            os.fsync(file.fileno())
    new.replace(path)
