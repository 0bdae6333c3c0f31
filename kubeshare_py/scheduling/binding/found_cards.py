"""Pods whose cards were named by index, once their node's cards are known."""

from collections.abc import Iterator, Mapping

from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.domain.effects import ReportPodWarning
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.scheduling.binding.external_binds import unknown_indices
from kubeshare_py.scheduling.binding.lingering_pods import LingeringPods
from kubeshare_py.scheduling.queue.pod_records import Record


def found_cards(
    ledger: Ledger, records: Mapping[PodUid, Record], lingering: LingeringPods
) -> Iterator[ReportPodWarning]:
    """Let records name the cards that the ledger found; the pods of whose cards some are missing.

    Nearly always there are none.
    """
    for uid in ledger.take_looked_up():
        charge, record = ledger.charge_of(uid), records.get(uid)
        if charge is not None and record is not None:
            record.allocation = charge.allocation
            yield from unknown_indices(record.pod, record.allocation)
        elif (gone := lingering.of(uid)) is not None:
            gone.record.allocation = ledger.lingering[uid].allocation
