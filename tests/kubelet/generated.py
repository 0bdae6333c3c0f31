"""Make the modules of kubelet's messages from .proto files: python -m tests.kubelet.generated"""

import sys
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).parents[2]
WIRE = ROOT / "kubeshare_py/edges/node/kubelet/wire"


def generate(folder: Path) -> list[Path]:
    """Write them below `folder`; the files that were made."""
    sources = [str(path.relative_to(ROOT)) for path in sorted(WIRE.glob("*.proto"))]
    options = [f"--proto_path={ROOT}", f"--python_out={folder}", f"--pyi_out={folder}"]
    if protoc.main(["protoc", *options, *(str(ROOT / one) for one in sources)]):
        raise SystemExit("protoc failed")
    return sorted((folder / WIRE.relative_to(ROOT)).glob("*_pb2.py*"))


if __name__ == "__main__":
    sys.stdout.write("".join(f"{path.relative_to(ROOT)}\n" for path in generate(ROOT)))
