"""The authorities that an API server trusts when it calls a webhook: concatenated PEM.

Each process of the webhook is its own authority and keeps its keys; a bundle has them all.
"""

import re
from datetime import datetime

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

#: More than the replicas and the restarts of a day. The newest are kept, and a live process whose
#: own one is dropped adds it again.
MAX = 32

_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


def with_authority(bundle: bytes, own: bytes, now: datetime) -> bytes:
    """The bundle with `own`, without expired, duplicate and invalid certificates."""
    found: dict[x509.Certificate, None] = {}
    for text in (*_CERTIFICATE.findall(bundle), own):
        try:
            certificate = x509.load_pem_x509_certificate(text)
        except ValueError:
            continue
        if certificate.not_valid_after_utc > now:
            found[certificate] = None
    kept = sorted(found, key=lambda one: one.not_valid_before_utc)[-MAX:]
    return b"".join(one.public_bytes(Encoding.PEM) for one in kept)
