"""A `requests` session with limits on the size and time of answers, and a callback for each."""

import io
import time
from collections.abc import Callable

import msgspec
import requests
from urllib3.exceptions import HTTPError

#: The cards of 5,000 nodes with eight each are 20 MB.
MAX_BYTES = 128 * 2**20
#: The most seconds until the whole answer has arrived, however slowly.
MAX_S = 60.0
_PIECE = 2**16
_ERROR = b'{"status":"error"'


class AnswerRefused(requests.RequestException):
    """The answer is not read, or says itself that it is an error."""


class _Error(msgspec.Struct):
    error: str = ""
    errorType: str = ""


def bounded_session(
    on_body: Callable[[bytes], object], *, most_bytes: int = MAX_BYTES, most_s: float = MAX_S
) -> requests.Session:
    """A session that calls `on_body` with the body of each answer.

    Its requests raise AnswerRefused.
    """

    def read(response: requests.Response, **_options: object) -> None:
        body = _body(response, most_bytes, most_s)
        # The rest is read from here; it is no longer compressed.
        response.raw = io.BytesIO(body)
        on_body(body)
        if response.ok and body[: len(_ERROR) + 8].replace(b" ", b"").startswith(_ERROR):
            raise AnswerRefused(_error(body))

    session = requests.Session()
    session.hooks["response"].append(read)
    return session


def _body(response: requests.Response, most_bytes: int, most_s: float) -> bytes:
    body, until = bytearray(), time.monotonic() + most_s
    try:
        for piece in response.raw.stream(_PIECE, decode_content=True):
            body += piece
            if len(body) > most_bytes:
                raise AnswerRefused(f"an answer of more than {most_bytes} bytes")
            if time.monotonic() > until:
                raise AnswerRefused(f"an answer that takes more than {most_s:.0f} s")
    except HTTPError as error:
        raise AnswerRefused(f"{type(error).__name__}: {error}") from error
    except AnswerRefused:
        response.close()
        raise
    return bytes(body)


def _error(body: bytes) -> str:
    try:
        found = msgspec.json.decode(body, type=_Error)
    except (msgspec.DecodeError, RecursionError):
        return "an error that cannot be read"
    return ": ".join(part for part in (found.errorType, found.error) if part) or "an error"
