"""The files of the page, and the headers of every answer.

Nothing in the page is written as markup, and the policy lets no script run but the page's own
modules: a name of a pod cannot become one. https://www.w3.org/TR/CSP3/
"""

from dataclasses import dataclass
from hashlib import sha256

#: The page asks for these files and for nothing else, of this server alone. `require-trusted-types`
#: makes the browser refuse text as markup wherever a script would give it one.
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
#: Of answers about the cluster: no cache keeps them.
PRIVATE = {"Cache-Control": "no-store"}
TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
FOLDER, INDEX = "page", "index.html"


@dataclass(frozen=True, slots=True)
class Asset:
    """A file as it is served; `etag` is that of its bytes."""

    body: bytes
    content_type: str
    etag: str


def asset(name: str, body: bytes) -> Asset:
    """A file of this name. Raises KeyError for a kind that the page does not have."""
    kind = TYPES[name.rpartition(".")[2]]
    return Asset(body, kind, f'"{sha256(body).hexdigest()[:32]}"')


def is_fresh(asked: str, etag: str) -> bool:
    """Whether a browser's If-None-Match has this ETag; RFC 9110, 13.1.2."""
    given = [one.strip().removeprefix("W/") for one in asked.split(",")]
    return etag in given or "*" in given


def is_of_another_site(fetch_site: str) -> bool:
    """Whether another site's page sent this request, by its Sec-Fetch-Site.

    With a proxy in between that adds a token to each request, such a page would ask as the viewer.
    """
    return fetch_site in ("cross-site", "same-site")
