"""Synthetic UUIDs for cards without one: equal for equal node and index, everywhere."""

import uuid

_CARDS = uuid.UUID("6f1f4b52-6f0b-4c55-9a53-7d2d1d0f8a11")


def synthetic_uuid(node: str, index: int) -> str:
    """A card UUID in NVIDIA's form (`GPU-xxxxxxxx-xxxx-…`), derived from node name and index."""
    return f"GPU-{uuid.uuid5(_CARDS, f'{node}/{index}')}"
