"""Stand-ins for gem-schd and gem-pmgr: their options, files, events and messages, without a GPU.

    python stand_in.py gem-schd OPTIONS
    python stand_in.py gem-pmgr

Written after their behaviour (src/scheduler.cpp, src/pod-manager.cpp and src/comm.cpp of
github.com/NTHU-LSALab/Gemini, v1.0-kubeshare). Each writes what it does into a file of the folder
$GEMINI_LOG, one JSON line each.
"""

import argparse
import ctypes
import json
import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

REQUEST, ANSWER = 80, 40
QUOTA, MEM_LIMIT, MEM_UPDATE = 0, 1, 2
IN_CLOSE_WRITE = 0x8


@dataclass
class Client:
    """A pod, as gem-schd reads it from its file."""

    request: float
    limit: float
    memory: int
    quota: float = 0.0


def request(name: str, number: int, kind: int, payload: bytes = b"") -> bytes:
    """80 bytes: the length of the name, the name with a zero, number, kind, payload."""
    text = name.encode()
    message = struct.pack("@N", len(text)) + text + b"\0" + struct.pack("@ii", number, kind)
    assert len(message + payload) <= REQUEST, "it would be written past the end of the message"
    return (message + payload).ljust(REQUEST, b"\0")


def parsed(message: bytes) -> tuple[str, int, int, bytes]:
    """Name, number, kind, payload."""
    (length,) = struct.unpack_from("@N", message)
    at = struct.calcsize("@N")
    number, kind = struct.unpack_from("@ii", message, at + length + 1)
    return message[at : at + length].decode(), number, kind, message[at + length + 9 :]


def answer(number: int, payload: bytes) -> bytes:
    """40 bytes: the request's number, payload."""
    return (struct.pack("@i", number) + payload).ljust(ANSWER, b"\0")


def receive(stream: socket.socket, size: int) -> bytes:
    """A whole message; nothing at the end of the connection."""
    found = b""
    while len(found) < size and (more := stream.recv(size - len(found))):
        found += more
    return found if len(found) == size else b""


def read_config(text: str) -> dict[str, Client]:
    """As `fin >> number`, then name, request, limit and memory of each."""
    words = text.split()
    found = {}
    for at in range(1, 1 + 4 * int(words[0]), 4):
        name, least, most, memory = words[at : at + 4]
        found[name] = Client(float(least), float(most), int(memory))
    return found


def next_quota(client: Client, burst: float, base: float, least: float, window: float) -> float:
    """Half of the last quota and half of the burst, between `least` and the pod's limit."""
    if burst < 1e-9:
        client.quota = base
    else:
        client.quota = min(max((burst + client.quota) / 2, least), client.limit * window)
    return client.quota


def grant_order(
    clients: Mapping[str, Client], used: Mapping[str, float], window: float
) -> list[str]:
    """The waiting pods below their limit: those below their request first, the neediest ahead."""

    def key(name: str) -> tuple[bool, float]:
        missing = clients[name].request * window - used[name]
        if missing > 0:
            return False, -missing / (missing + used[name])
        return True, used[name]

    waiting = [name for name in used if clients[name].limit * window > used[name]]
    return sorted(waiting, key=key)


def log(name: str, **fields: object) -> None:
    """Write one line."""
    with (Path(os.environ["GEMINI_LOG"]) / name.replace("/", "_")).open("a") as file:
        file.write(json.dumps({"pid": os.getpid(), **fields}) + "\n")


def served(port: int, host: str = "0.0.0.0") -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((host, port))
    listener.listen()
    return listener


class Scheduler:
    """gem-schd."""

    def __init__(self, arguments: list[str]) -> None:
        parser = argparse.ArgumentParser()
        for option in "Pqmwpf":
            parser.add_argument(f"-{option}")
        given = parser.parse_args(arguments)
        self.arguments = arguments
        self.folder, self.name, self.port = Path(given.p), given.f, int(given.P)
        self.base, self.least, self.window = float(given.q), float(given.m), float(given.w)
        self.clients: dict[str, Client] = {}
        self.watches = threading.Event()

    def run(self) -> None:
        threading.Thread(target=self.watch, daemon=True).start()
        self.watches.wait()
        self.read()
        listener = served(self.port)
        log(f"schd-{self.name}", listens=self.port, arguments=self.arguments)
        while True:
            stream, _ = listener.accept()
            threading.Thread(target=self.serve, args=(stream,), daemon=True).start()

    def read(self) -> None:
        path = self.folder / self.name
        if not path.exists():
            os._exit(1)
        text = path.read_text()
        self.clients.update(read_config(text))  # those that are not listed any more stay
        log(f"schd-{self.name}", read=text)

    def watch(self) -> None:
        libc = ctypes.CDLL(None)
        events = libc.inotify_init()
        libc.inotify_add_watch(events, str(self.folder).encode(), IN_CLOSE_WRITE)
        self.watches.set()
        while data := os.read(events, 65536):
            at = 0
            while at < len(data):
                length = struct.unpack_from("iIII", data, at)[3]
                name = data[at + 16 : at + 16 + length].rstrip(b"\0").decode()
                at += 16 + length
                if name == self.name:
                    self.read()

    def serve(self, stream: socket.socket) -> None:
        while message := receive(stream, REQUEST):
            name, number, kind, payload = parsed(message)
            client = self.clients.get(name)
            if client is None:
                continue  # as the original: the caller waits
            if kind == MEM_LIMIT:
                stream.sendall(answer(number, struct.pack("@NN", 0, client.memory)))
            elif kind == QUOTA:
                _, burst = struct.unpack_from("@dd", payload)
                quota = next_quota(client, burst, self.base, self.least, self.window)
                stream.sendall(answer(number, struct.pack("@d", quota)))


def manage() -> None:
    """gem-pmgr."""
    name, port = os.environ["POD_NAME"], int(os.environ["POD_MANAGER_PORT"])
    above = socket.create_connection(
        (os.environ["SCHEDULER_IP"], int(os.environ["SCHEDULER_PORT"]))
    )
    above.sendall(request(name, 1, MEM_LIMIT))
    used, limit = struct.unpack_from("@NN", receive(above, ANSWER), 4)
    assert used == 0
    helper = subprocess.Popen(["sleep", "600"])
    listener = served(port, os.environ["POD_MANAGER_IP"])
    log(f"pmgr-{name}", listens=port, limit=limit, helper=helper.pid)
    held = {"used": used}
    lock = threading.Lock()

    def serve(stream: socket.socket) -> None:
        while message := receive(stream, REQUEST):
            pod, number, kind, payload = parsed(message)
            with lock:
                if kind == MEM_LIMIT:
                    found = struct.pack("@NN", held["used"], limit)
                elif kind == MEM_UPDATE:
                    size, is_new = struct.unpack_from("@Ni", payload)
                    fits = not is_new or held["used"] + size <= limit
                    held["used"] += (size if is_new else -size) if fits else 0
                    found = struct.pack("@i", fits)
                else:
                    above.sendall(request(pod, number, kind, payload[:16]))
                    found = receive(above, ANSWER)[4:]
            stream.sendall(answer(number, found))

    while True:
        stream, _ = listener.accept()
        threading.Thread(target=serve, args=(stream,), daemon=True).start()


if __name__ == "__main__":
    if sys.argv[1] == "gem-schd":
        Scheduler(sys.argv[2:]).run()
    else:
        manage()
