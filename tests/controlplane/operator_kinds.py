"""The kinds of the Prometheus operator, as its Go module defines them; the operator is not run.

The release is that of operatormodule/go.mod.
"""

import json
import subprocess
from pathlib import Path

_MODULE = Path(__file__).with_name("operatormodule")
_NAME = "github.com/prometheus-operator/prometheus-operator"
KINDS = ("servicemonitors", "podmonitors", "prometheusrules")


def definitions() -> list[Path]:
    """A file for each of KINDS, downloaded once. Raises CalledProcessError."""
    done = subprocess.run(
        ["go", "mod", "download", "-json", _NAME],
        cwd=_MODULE, check=True, capture_output=True, text=True,
    )  # fmt: skip
    folder = Path(json.loads(done.stdout)["Dir"]) / "example/prometheus-operator-crd"
    return [folder / f"monitoring.coreos.com_{kind}.yaml" for kind in KINDS]
