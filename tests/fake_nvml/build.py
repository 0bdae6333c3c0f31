"""Compiles the fake libnvidia-ml.so.1."""

import os
import shutil
import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_name("library.c")
#: What the loader looks for, and therefore what the file is called.
NAME = "libnvidia-ml.so.1"
NO_COMPILER = "no C compiler: neither $CC nor cc, gcc or clang on the PATH"


def compiler() -> str | None:
    """The program, if there is one."""
    names = (os.environ.get("CC", ""), "cc", "gcc", "clang")
    return next((found for name in names if name and (found := shutil.which(name))), None)


def build(folder: Path, program: str) -> Path:
    """The library, in this folder."""
    target = folder / NAME
    options = ("-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC")
    subprocess.run([program, *options, f"-Wl,-soname,{NAME}", "-o", target, SOURCE], check=True)
    return target
