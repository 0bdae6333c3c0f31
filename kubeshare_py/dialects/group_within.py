"""The annotation with the node label of which all nodes of a group must share a value."""

import re
from collections.abc import Mapping

from kubeshare_py.domain.request import InvalidRequest

#: On members, and on PodGroup objects.
WITHIN = "sharedgpu/group_within"

#: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set
LABEL_KEY = r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
WITHIN_RULE = "must be the name of a node label, such as topology.kubernetes.io/zone"
_LABEL_KEY = re.compile(LABEL_KEY)
#: The most characters of a bad value that are shown.
SHOWN = 60


def within_problem(annotations: Mapping[str, str]) -> InvalidRequest | None:
    """What is wrong with the annotation; None if it is not there."""
    text = annotations.get(WITHIN)
    if not text or _LABEL_KEY.fullmatch(text):
        return None
    shown = text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
    return InvalidRequest(field=WITHIN, value=shown, rule=WITHIN_RULE)
