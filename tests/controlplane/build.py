"""Build the control plane from source, once: python -m tests.controlplane.build [command ...].

The binaries are kept in ~/.cache/kubeshare-py/controlplane/<version>, or in the folder that the
environment variable KUBESHARE_CONTROLPLANE_CACHE names; Helm's beside it. Versions are those of
gomodule/go.mod and helmmodule/go.mod. Programs of ours around parts of Kubernetes are kept there
too, each in a folder for its source: the oracle of tests/differential, the device manager of
tests/kubelet, the costs of tests/policies. Without a Go that is new enough it ends with exit
code 3 and one line that says so.
"""

import fcntl
import hashlib
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

MODULE = Path(__file__).with_name("gomodule")
#: Of its own, because Helm requires another release of Kubernetes' libraries.
HELM_MODULE = Path(__file__).with_name("helmmodule")
#: kube-scheduler's plugins, to be asked about one pod at a time.
ORACLE_MODULE = Path(__file__).parents[1] / "differential/oracle"
ORACLE = "oracle"
#: kubelet's device manager.
DEVICE_MANAGER_MODULE = Path(__file__).parents[1] / "kubelet/device_manager"
DEVICE_MANAGER = "device_manager"
#: What conditions of admission policies cost.
CEL_COST_MODULE = Path(__file__).parents[1] / "policies/cel_cost"
CEL_COST = "cel_cost"
#: Modules of ours, by the commands that they are.
OWN_MODULES = {
    ORACLE: ORACLE_MODULE,
    DEVICE_MANAGER: DEVICE_MANAGER_MODULE,
    CEL_COST: CEL_COST_MODULE,
}
#: The Go module and package of each command.
COMMANDS = {
    "etcd": (MODULE, "go.etcd.io/etcd/server/v3"),
    "kube-apiserver": (MODULE, "k8s.io/kubernetes/cmd/kube-apiserver"),
    "kube-controller-manager": (MODULE, "k8s.io/kubernetes/cmd/kube-controller-manager"),
    "kube-scheduler": (MODULE, "k8s.io/kubernetes/cmd/kube-scheduler"),
    "kubectl": (MODULE, "k8s.io/kubernetes/cmd/kubectl"),
    "helm": (HELM_MODULE, "helm.sh/helm/v4/cmd/helm"),
    **{name: (module, ".") for name, module in OWN_MODULES.items()},
}
#: What a control plane consists of, for tests with a scheduler of their own.
NEEDED = ("etcd", "kube-apiserver", "kube-controller-manager", "kubectl")
#: What the end-to-end tests run.
TESTED = (*NEEDED, "kube-scheduler", "helm", *OWN_MODULES)
#: Compilers at a time; the linker alone takes 1.5 GB.
PARALLEL = os.environ.get("KUBESHARE_CONTROLPLANE_JOBS", "2")
#: Seconds that each takes on two cores, downloads included, in the order of TESTED: what the first
#: compiles the next ones find compiled.
SECONDS = {
    "etcd": 60,
    "kube-apiserver": 300,
    "kube-controller-manager": 120,
    "kubectl": 60,
    "kube-scheduler": 60,
    "helm": 120,
}
_OWN_SECONDS = 40
NOT_RUN = 3


class NoGo(Exception):
    """There is no Go here that can build it. The text says which one is needed."""


def kubernetes_version() -> str:
    """Of the release that is built, as v1.36.3."""
    return _pinned(MODULE, r"k8s\.io/kubernetes (v\S+)")


def helm_version() -> str:
    """As v4.3.1."""
    return _pinned(HELM_MODULE, r"helm\.sh/helm/v4 (v\S+)")


def folder() -> Path:
    """Where the binaries of that release of Kubernetes are kept."""
    given = os.environ.get("KUBESHARE_CONTROLPLANE_CACHE")
    root = Path(given) if given else Path.home() / ".cache/kubeshare-py/controlplane"
    return root / kubernetes_version()


def kept(command: str) -> Path:
    """Where this command is, or will be once it is built."""
    module, _ = COMMANDS[command]
    beside = folder()
    if module == HELM_MODULE:
        beside = beside.with_name(f"helm-{helm_version()}")
    elif command in OWN_MODULES:
        beside = beside.with_name(f"{command}-{_digest(module)}")
    return beside / command


def build(commands: Iterable[str] = NEEDED) -> Path:
    """Build what is missing. Raises NoGo, CalledProcessError.

    Returns the folder of Kubernetes' binaries; `kept` says where the others are.
    """
    missing = [name for name in commands if not kept(name).exists()]
    for place, name in enumerate(missing):
        module, _ = COMMANDS[name]
        _require_go(module)
        if place == 0:
            _say(_announcement(missing))
        with _turn():
            _build(name, f"{place + 1} of {len(missing)}")
    return folder()


@contextmanager
def _turn() -> Iterator[None]:
    """Wait for other processes that build into the same cache: two need twice the memory."""
    root = folder().parent
    root.mkdir(parents=True, exist_ok=True)
    with (root / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _announcement(missing: Sequence[str]) -> str:
    """What is built, for how long and into which folder, for those who wait for it."""
    minutes = math.ceil(sum(SECONDS.get(name, _OWN_SECONDS) for name in missing) / 60)
    return (
        f"building with Go, once: {', '.join(missing)}. "
        f"About {minutes} minutes on two cores; they are kept in {folder().parent}"
    )


def _build(name: str, place: str) -> None:
    module, package = COMMANDS[name]
    target = kept(name)
    if target.exists():
        return  # another process built it meanwhile
    target.parent.mkdir(exist_ok=True)
    # In the same file system, so that a binary appears whole or not at all.
    with tempfile.TemporaryDirectory(prefix=".building-", dir=target.parent.parent) as scratch:
        _say(f"building {name} for Kubernetes {kubernetes_version()} ({place}) ...")
        made = Path(scratch) / name
        _compile(module, package, made)
        made.replace(target)


def _compile(module: Path, package: str, target: Path) -> None:
    command = ["go", "build", "-p", PARALLEL, "-ldflags", _flags()]
    if shutil.which("nice"):
        command = ["nice", "-n", "10", *command]
    environment = {**os.environ, "CGO_ENABLED": "0"}
    command += ["-o", str(target), package]
    subprocess.run(command, cwd=module, env=environment, check=True, stdout=sys.stderr)


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
    named = {f"k8s.io/component-base/version.{name}": value for name, value in values.items()}
    named["helm.sh/helm/v4/internal/version.version"] = helm_version()
    return " ".join(["-s -w", *(f"-X {name}={value}" for name, value in named.items())])


def _digest(module: Path) -> str:
    """Of a module's own source: another one is another program."""
    found = hashlib.sha256()
    for file in sorted(module.iterdir()):
        found.update(f"{file.name} {file.stat().st_size} ".encode() + file.read_bytes())
    return found.hexdigest()[:16]


def _require_go(module: Path) -> None:
    needed = _pinned(module, r"^go (\S+)$")
    wanted = f"Kubernetes {kubernetes_version()} needs Go {needed} or newer to be built"
    if shutil.which("go") is None:
        raise NoGo(f"{wanted}; there is no go on the PATH")
    # In the module's folder: where Go may fetch a newer toolchain it answers with that one.
    asked = subprocess.run(
        ["go", "env", "GOVERSION"], cwd=module, check=False, capture_output=True, text=True
    )
    found = asked.stdout.strip().removeprefix("go")
    if asked.returncode or _numbers(found) < _numbers(needed):
        found = found or re.sub(r"^go: ", "", asked.stderr.strip().splitlines()[-1])
        raise NoGo(f"{wanted}; found {found}")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(digits) for digits in re.findall(r"\d+", version)[:3])


def _pinned(module: Path, pattern: str) -> str:
    found = re.search(pattern, (module / "go.mod").read_text(), re.MULTILINE)
    if found is None:
        raise LookupError(f"{module / 'go.mod'} has no {pattern}")
    return found[1]


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(commands: list[str]) -> int:
    """Print the folder of the binaries."""
    try:
        print(build(commands or TESTED))
    except NoGo as error:
        _say(f"not run: {error}")
        return NOT_RUN
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
