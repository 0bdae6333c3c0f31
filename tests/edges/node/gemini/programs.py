"""The stand-ins as programs in a folder, and what they log."""

import json
import os
import socket
import struct
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.edges.node.gemini.stand_in import ANSWER, parsed, receive, request

_STAND_IN = Path(__file__).with_name("stand_in.py")


def installed(folder: Path) -> Path:
    """gem-schd and gem-pmgr in this folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("gem-schd", "gem-pmgr"):
        program = folder / name
        program.write_text(f'#!/bin/sh\nexec {sys.executable} {_STAND_IN} {name} "$@"\n')
        program.chmod(0o755)
    return folder


def logged(folder: Path, name: str) -> list[dict[str, Any]]:
    """What the programs of this name logged."""
    log = folder / name.replace("/", "_")
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def starts(folder: Path, name: str) -> list[int]:
    """The processes of this name that came to listen."""
    return [line["pid"] for line in logged(folder, name) if "listens" in line]


def runs(pid: int) -> bool:
    """Whether the process has not ended."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def ask(port: int, name: str, kind: int, payload: bytes = b"") -> bytes:
    """Ask a pod manager as the library in a pod's container does; the answer's payload."""
    with socket.create_connection(("127.0.0.1", port)) as stream:
        message = request(name, 7, kind, payload)
        assert parsed(message)[:3] == (name, 7, kind)
        stream.sendall(message)
        found = receive(stream, ANSWER)
    assert struct.unpack_from("@i", found) == (7,)
    return found[4:]


def free_port(count: int = 1) -> int:
    """A port that nothing listens on now, nor on the ports after it, `count` in all."""
    while True:
        with ExitStack() as stack:
            first = stack.enter_context(socket.socket())
            first.bind(("127.0.0.1", 0))
            port: int = first.getsockname()[1]
            try:
                for number in range(1, count):
                    stack.enter_context(socket.socket()).bind(("127.0.0.1", port + number))
            except OSError:
                continue
            return port


def kill(pid: int) -> None:
    """kill -9."""
    os.kill(pid, 9)
