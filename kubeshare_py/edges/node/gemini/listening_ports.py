"""Which TCP ports are listened on, without connecting: each connection is a client to Gemini.

The table is that of this process's network namespace: proc_net(5). A port is the hexadecimal number
behind the last colon of the local address, and the state LISTEN is 0A.
"""

from pathlib import Path

_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_LISTEN = "0A"


def is_listened_on(port: int) -> bool:
    """Whether a process listens on the port. Raises OSError."""
    ending = f":{port:04X}"
    return any(
        address.endswith(ending) and state == _LISTEN
        for table in _TABLES
        if Path(table).exists()
        for _, address, _, state, *_ in map(str.split, Path(table).read_text().splitlines())
    )
