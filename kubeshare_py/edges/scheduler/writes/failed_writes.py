"""Writes that the API server did not perform, or not for certain: counted, and in the log.

One missing right or one policy may refuse thousands of writes, and all for the same reason. So the
log has a line a minute for each kind of write and each answer, with the text of one of them.
"""

from collections import Counter
from enum import StrEnum

from kubeshare_py.edges.kube.client import ApiContact
from kubeshare_py.edges.kube.errors import KubeError, KubeFailure, KubeWithheld
from kubeshare_py.edges.process import decision_log
from kubeshare_py.edges.process.decision_log import LogLimit
from kubeshare_py.exporters.client_metrics import NO_ANSWER


class Write(StrEnum):
    """What was not written; the words of the log lines."""

    BINDING = "not bound"
    EVICTION = "not evicted"
    NOMINATION = "not nominated"
    OBJECT = "not written"
    CONDITION = "condition not written"
    EVENT = "event not written"


class FailedWrites:
    """The failed writes of one process to one API server."""

    def __init__(self, contact: ApiContact) -> None:
        """While `contact` says that the server is away, that has log lines of its own."""
        self._contact = contact
        self._lines = LogLimit()
        #: Since the last line about the same.
        self._left_out: Counter[str] = Counter()
        #: By the name of the write (`binding`, `event`) and the HTTP code.
        self.counts: Counter[tuple[str, str]] = Counter()

    def failed(self, write: Write, error: KubeFailure, **about: object) -> None:
        """A write failed with this error; `about` are fields of its log line.

        The line says how many more failed in the same way since the last line, if any. What was
        never sent, because another process may lead, has none.
        """
        if isinstance(error, KubeWithheld):
            return
        code = str(error.status) if isinstance(error, KubeError) else NO_ANSWER
        self.counts[write.name.lower(), code] += 1
        fields = {**about, "code": code, "message": str(error)}
        key = f"{write} {code}"
        if self._contact.is_away or not self._lines.is_due(key):
            self._left_out[key] += 1
            decision_log.detail(write, **fields)
            return
        more = self._left_out.pop(key, 0)
        decision_log.warn(write, **fields, **({"more": more} if more else {}))
