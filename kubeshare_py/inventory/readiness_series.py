"""Which isolation back-ends have what they need of a node's cards, as its collectors report it.

Of cards that are alike, a collector reports only their number. If the numbers do not add up,
because series were dropped on the way, or if collectors differ, the readiness is unknown.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kubeshare_py.domain.identity import GpuUuid
from kubeshare_py.domain.readiness import NEEDY, ReadinessReport, of_labels
from kubeshare_py.inventory.series import OF_CARD, Series


@dataclass(slots=True)
class ReportedReadiness:
    """The reports about one node."""

    _common: set[tuple[str, ReadinessReport, float]] = field(default_factory=set)
    #: The readiness of cards that are not named, unless a report contradicts it.
    _alike: ReadinessReport = ()
    _named: dict[GpuUuid, ReadinessReport] = field(default_factory=dict)

    def take(self, series: Series) -> None:
        """Take in one series of either kind."""
        report = of_labels((backend.value, series.own(backend.label)) for backend in NEEDY)
        if series.name != OF_CARD:
            self._alike = report if not self._common or report == self._alike else ()
            self._common.add((series.instance, report, series.value))
        elif series.value != 0:
            uuid = GpuUuid(series.own("uuid"))
            self._named[uuid] = report if self._named.get(uuid, report) == report else ()

    def of(self, uuid: GpuUuid) -> ReadinessReport:
        """The readiness of one card, if the reports add up."""
        return self._named.get(uuid, self._alike)

    def comes_out(
        self, listed: Mapping[str, set[GpuUuid]], garbled: set[GpuUuid], cards: int
    ) -> bool:
        """Whether all `cards` are there, and of each collector as many unnamed as are alike."""
        return not self._common or (
            len(garbled.union(*listed.values())) == cards
            and all(
                len((listed.get(collector, set()) | garbled) - self._named.keys()) == count
                for collector, _, count in self._common
            )
        )

    def is_named(self, uuid: GpuUuid) -> bool:
        """Whether a report names this card."""
        return uuid in self._named
