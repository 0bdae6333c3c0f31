"""Locks of device plugins on Nodes, taken and freed by JSON patches that test the annotation.

The API server refuses the patch with 422 if the annotation is not what it is thought to be, and a
change of anything else of the Node does not matter. A test for null holds where there is nothing:
https://datatracker.ietf.org/doc/html/rfc6902 leaves that open, and kube-apiserver's library
(gopkg.in/evanphx/json-patch.v4) has it so.
"""

import msgspec

#: The status if the annotation is not what the patch says.
TEST_FAILED = 422


def lock_patch(key: str, text: str) -> bytes:
    """Take a free lock."""
    path = _pointer(key)
    return msgspec.json.encode(
        [
            {"op": "test", "path": path, "value": None},
            {"op": "add", "path": path, "value": text},
        ]
    )


def unlock_patch(key: str, text: str) -> bytes:
    """Free a lock that still has this text."""
    path = _pointer(key)
    return msgspec.json.encode(
        [{"op": "test", "path": path, "value": text}, {"op": "remove", "path": path}]
    )


def _pointer(key: str) -> str:
    """A JSON pointer: https://datatracker.ietf.org/doc/html/rfc6901."""
    return f"/metadata/annotations/{key.replace('~', '~0').replace('/', '~1')}"
