"""The errors of credentials for the API server, and of requests to it.

The fields of the latter are those of its Status object:
https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/status/
"""

from http import HTTPStatus

import msgspec

from kubeshare_py.manifests.decoding import UNDECODABLE


class KubeConfigError(Exception):
    """Credentials cannot be used; the text names the file and the problem."""


class KubeFailure(Exception):
    """A request did not succeed."""

    @property
    def may_pass(self) -> bool:
        """Whether the same request may succeed later."""
        return True


class KubeUnreachable(KubeFailure):
    """No answer: refused, cut or timed out. A write may have been stored."""


class KubeWithheld(KubeFailure):
    """Nothing was sent: this process may not write, because another one may be leading."""


class KubeError(KubeFailure):
    """An error was answered; fields as in the API server's Status object, "" where absent.

    `is_status`: the body is such an object, so the API server itself wrote it, and no proxy on the
    way.
    """

    def __init__(
        self,
        status: int,
        reason: str = "",
        message: str = "",
        details_kind: str = "",
        retry_after_s: float | None = None,
        *,
        is_status: bool = False,
    ) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.details_kind = details_kind
        self.retry_after_s = retry_after_s
        self.is_status = is_status

    @property
    def may_pass(self) -> bool:
        """Whether the same request may succeed later."""
        return (
            self.status == HTTPStatus.TOO_MANY_REQUESTS
            or self.status >= HTTPStatus.INTERNAL_SERVER_ERROR
        )

    @property
    def is_gone(self) -> bool:
        """Whether a write that named a uid found no object, or another one under the name.

        A patch cannot change a uid (422); a PUT, a Binding and a DELETE state it as a precondition
        (409).
        """
        if self.status == HTTPStatus.UNPROCESSABLE_ENTITY:
            return "metadata.uid" in self.message
        return self.status in (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT)


class _Details(msgspec.Struct):
    kind: str | None = None
    retryAfterSeconds: float | None = None


class _ErrorStatus(msgspec.Struct):
    kind: str | None = None
    reason: str | None = None
    message: str | None = None
    details: _Details | None = None


def kube_error(status: int, phrase: str, retry_after: str, body: bytes) -> KubeError:
    """Read an error answer; `phrase` is the HTTP reason phrase, `retry_after` the header or ""."""
    try:
        said = msgspec.json.decode(body, type=_ErrorStatus)
    except UNDECODABLE:
        # From a proxy, a load balancer, or the server's own panic handler.
        said = _ErrorStatus(message=body[:500].decode(errors="replace"))
    details = said.details or _Details()
    return KubeError(
        status,
        said.reason or phrase,
        said.message or "",
        details.kind or "",
        float(retry_after) if retry_after.isdecimal() else details.retryAfterSeconds,
        is_status=said.kind == "Status",
    )
