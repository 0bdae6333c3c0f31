"""Build the control plane from source, once: python -m tests.controlplane.build [command ...].

The binaries are kept in ~/.cache/kubeshare-py/controlplane/<version>, or in the folder that the
environment variable KUBESHARE_CONTROLPLANE_CACHE names. Versions are those of gomodule/go.mod.
Without a Go that is new enough it ends with exit code 3 and one line that says so.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

MODULE = Path(__file__).with_name("gomodule")
#: The Go package of each command.
COMMANDS = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
}
#: What the end-to-end tests run. kube-scheduler is for comparisons only.
NEEDED = ("etcd", "kube-apiserver", "kube-controller-manager", "kubectl")
#: Compilers at a time; the linker alone takes 1.5 GB.
PARALLEL = os.environ.get("KUBESHARE_CONTROLPLANE_JOBS", "2")
NOT_RUN = 3


class NoGo(Exception):
    """There is no Go here that can build it. The text says which one is needed."""


def kubernetes_version() -> str:
    """Of the release that is built, as v1.36.3."""
    return _pinned(r"k8s\.io/kubernetes (v\S+)")


def folder() -> Path:
    """Where the binaries of that release are kept."""
    given = os.environ.get("KUBESHARE_CONTROLPLANE_CACHE")
    root = Path(given) if given else Path.home() / ".cache/kubeshare-py/controlplane"
    return root / kubernetes_version()


def build(commands: Iterable[str] = NEEDED) -> Path:
    """Build what is missing; the folder of the binaries. Raises NoGo, CalledProcessError."""
    kept = folder()
    missing = [name for name in commands if not (kept / name).exists()]
    if missing:
        _require_go()
        kept.mkdir(parents=True, exist_ok=True)
        # In the same file system, so that a binary appears whole or not at all.
        with tempfile.TemporaryDirectory(prefix=".building-", dir=kept.parent) as scratch:
            for name in missing:
                _say(f"building {name} of Kubernetes {kubernetes_version()} ...")
                made = Path(scratch) / name
                _compile(COMMANDS[name], made)
                made.replace(kept / name)
    return kept


def _compile(package: str, target: Path) -> None:
    command = ["go", "build", "-p", PARALLEL, "-ldflags", _flags()]
    if shutil.which("nice"):
        command = ["nice", "-n", "10", *command]
    environment = {**os.environ, "CGO_ENABLED": "0"}
    command += ["-o", str(target), package]
    subprocess.run(command, cwd=MODULE, env=environment, check=True, stdout=sys.stderr)


def _flags() -> str:
    """No symbols; and a version, without which kubectl and others refuse to talk."""
    version = kubernetes_version()
    _, minor, _ = version.removeprefix("v").split(".")
    values = {
        "gitVersion": version,
        "gitMajor": "1",
        "gitMinor": minor,
        "gitCommit": "unknown",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
    }
    package = "k8s.io/component-base/version"
    return " ".join(["-s -w", *(f"-X {package}.{name}={value}" for name, value in values.items())])


def _require_go() -> None:
    needed = _pinned(r"^go (\S+)$")
    wanted = f"Kubernetes {kubernetes_version()} needs Go {needed} or newer to be built"
    if shutil.which("go") is None:
        raise NoGo(f"{wanted}; there is no go on the PATH")
    # In the module's folder: where Go may fetch a newer toolchain it answers with that one.
    asked = subprocess.run(
        ["go", "env", "GOVERSION"], cwd=MODULE, check=False, capture_output=True, text=True
    )
    found = asked.stdout.strip().removeprefix("go")
    if asked.returncode or _numbers(found) < _numbers(needed):
        found = found or re.sub(r"^go: ", "", asked.stderr.strip().splitlines()[-1])
        raise NoGo(f"{wanted}; found {found}")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(digits) for digits in re.findall(r"\d+", version)[:3])


def _pinned(pattern: str) -> str:
    found = re.search(pattern, (MODULE / "go.mod").read_text(), re.MULTILINE)
    if found is None:
        raise LookupError(f"{MODULE / 'go.mod'} has no {pattern}")
    return found[1]


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(commands: list[str]) -> int:
    """Print the folder of the binaries."""
    try:
        print(build(commands or NEEDED))
    except NoGo as error:
        _say(f"not run: {error}")
        return NOT_RUN
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
