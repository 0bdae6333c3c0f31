"""Write go.mod and go.sum for a release: python -m tests.controlplane.repin v1.36.3.

Those of the control plane, and those of our programs around parts of Kubernetes.

`k8s.io/kubernetes` requires its staging modules at v0.0.0 and replaces them by folders of its
repository. Replacements of a dependency do not count, so that ours name the published modules:
v1.X.Y of Kubernetes goes with v0.X.Y of each. etcd is the release that Kubernetes requires.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from tests.controlplane.build import COMMANDS, MODULE, OWN_MODULES

_STAGED = re.compile(r"^\s*(k8s\.io/[a-z-]+) => \./staging/", re.MULTILINE)
_ETCD = re.compile(r"go\.etcd\.io/etcd/client/v3 (v\S+)")
_GO = re.compile(r"^go (\S+)$", re.MULTILINE)


def main(release: str) -> None:
    """Download the release's go.mod, write ours, let Go complete it."""
    theirs = _downloaded(release)
    (MODULE / "go.mod").write_text(_control_plane(release, theirs))
    for name, module in OWN_MODULES.items():
        (module / "go.mod").write_text(_module(name, release, theirs, []))
    for module in (MODULE, *OWN_MODULES.values()):
        _go("mod", "tidy", module=module)


def server_module(release: str, module: Path) -> None:
    """Write the go.mod of a module that builds this release's kube-apiserver and nothing else."""
    theirs = _downloaded(release)
    tool = "tool k8s.io/kubernetes/cmd/kube-apiserver"
    (module / "go.mod").write_text(_module("server", release, theirs, [tool]))
    _go("mod", "tidy", module=module)


def _downloaded(release: str) -> str:
    """The go.mod of a release of Kubernetes."""
    answer = _go("mod", "download", "-json", f"k8s.io/kubernetes@{release}")
    return Path(json.loads(answer)["GoMod"]).read_text()


def _control_plane(release: str, theirs: str) -> str:
    etcd = _ETCD.search(theirs)
    if etcd is None:
        raise SystemExit(f"the go.mod of {release} names no etcd")
    lines = [
        f"require go.etcd.io/etcd/server/v3 {etcd[1]}",
        *(f"tool {package}" for module, package in COMMANDS.values() if module == MODULE),
    ]
    return _module("controlplane", release, theirs, lines)


def _module(name: str, release: str, theirs: str, lines: Iterable[str]) -> str:
    staged = release.replace("v1.", "v0.", 1)
    go = _GO.search(theirs)
    if go is None:
        raise SystemExit(f"the go.mod of {release} names no Go")
    written = [
        "// Written by tests/controlplane/repin.py.",
        f"module kubeshare.example/{name}",
        f"go {go[1]}",
        f"require k8s.io/kubernetes {release}",
        *lines,
        *(f"replace {name} => {name} {staged}" for name in sorted(set(_STAGED.findall(theirs)))),
    ]
    return "\n".join(written) + "\n"


def _go(*arguments: str, module: Path = MODULE) -> str:
    command = ["go", *arguments]
    return subprocess.run(command, cwd=module, check=True, stdout=subprocess.PIPE, text=True).stdout


if __name__ == "__main__":
    main(sys.argv[1])
