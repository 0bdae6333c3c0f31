"""The annotation `sharedgpu/allocation`: all that a restarted scheduler needs of a placement.

Every placement has it, in whatever dialect it was requested; a bound pod is read back from it.
Version 1 is of pods whose containers all see the same cards. A claim is one card:

    {"v":1,"token":"s1-42","dialect":"sharedgpu",
     "claims":[{"uuid":"GPU-1","milli":500,"bytes":8589934592,"model":"Tesla-V100","cell":"n/1"}],
     "exclusive":false,"port":50051,"group":"train","min":3,"isolation":"mps","limit":1000}

Version 2 is of pods whose containers differ. A claim is what one container has of some cards,
`exclusive` is said of each card, and two claims may have the same card:

    {"v":2,"token":"s1-43","dialect":"other",
     "claims":[{"container":"container-0","limit_milli":500,
                "cards":[{"uuid":"GPU-1","milli":500,"bytes":8589934592,"model":"Tesla-V100"}]},
               {"container":"init-1","limit_milli":1000,
                "cards":[{"uuid":"GPU-2","milli":1000,"bytes":17179869184,"exclusive":true}]}],
     "port":50051,"group":"train","min":3,"isolation":"mps","limit":1000}

All but `v`, `token` and `claims` may be absent, and of a card all but `uuid`, `milli` and `bytes`;
`container`, `limit_milli` and `cards` are always there.

Fields that this version does not know are ignored: leaving a placement out of the ledger because a
newer scheduler wrote more about it would give its cards away twice. A change of meaning changes
`v`. Of a version that is not known the cards are held wholly if they can be read
(`whole_cards_of`).
"""

import msgspec

from kubeshare_py.dialects.stored_allocation import (
    BY_CONTAINER,
    POD_WIDE,
    StoredContainers,
    StoredPlacement,
    by_container,
    pod_wide,
    stored,
)
from kubeshare_py.domain.allocation import Allocation

_PLACEMENT = msgspec.json.Decoder(StoredPlacement)
_CONTAINERS = msgspec.json.Decoder(StoredContainers)
_ENCODER = msgspec.json.Encoder()
#: Deep nesting and lone surrogates do not raise DecodeError.
_UNDECODABLE = (msgspec.DecodeError, UnicodeError, RecursionError)


class _StoredVersion(msgspec.Struct):
    v: int


_VERSION = msgspec.json.Decoder(_StoredVersion)


def write_allocation(allocation: Allocation) -> str:
    """Write the annotation's value."""
    return _ENCODER.encode(stored(allocation)).decode()


def read_allocation(text: str) -> Allocation | str:
    """Read the annotation's value; a sentence that says what is wrong if it is none.

    Never raises: every user who may annotate pods may write it.
    """
    try:
        placement = _PLACEMENT.decode(text)
    except _UNDECODABLE as error:
        version = written_version(text)
        return str(error) if version in (None, POD_WIDE) else _of_version(version, text)
    return pod_wide(placement) if placement.v == POD_WIDE else _of_version(placement.v, text)


def written_version(text: str) -> int | None:
    """The version of the annotation's value; None if it names none."""
    try:
        return _VERSION.decode(text).v
    except _UNDECODABLE:
        return None


def _of_version(version: int | None, text: str) -> Allocation | str:
    if version != BY_CONTAINER:
        return f"version {version} is not known to this scheduler - at `$.v`"
    try:
        return by_container(_CONTAINERS.decode(text))
    except _UNDECODABLE as error:
        return str(error)
