"""A part of the node agent: something that it does on its node with the pods and cards there."""

from collections.abc import Callable
from typing import Protocol

from kubeshare_py.exporters.metric import Metric
from kubeshare_py.exporters.metric_values import Values
from kubeshare_py.node_agent.agent_report import PartReport
from kubeshare_py.node_agent.tenants import AgentState


class AgentPart(Protocol):
    """One part. All of its methods are called on the agent's event loop."""

    #: Set by the agent. The part calls it when `report` has changed.
    on_report: Callable[[], None]

    @property
    def name(self) -> str:
        """Unique, for probes: `/readyz/NAME`."""

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The metrics that it has values of."""

    def take(self, state: AgentState) -> None:
        """Cards or pods of the node have changed. It must not wait nor raise."""

    def report(self) -> PartReport | None:
        """Its contribution to the Node's annotation; None if it does not know it yet.

        The annotation of the process before this one stays until every part knows.
        """

    def values(self) -> Values:
        """The values of its metrics now."""

    def problem(self) -> str:
        """Why it does not work now, "" if it does; without addresses and names of users."""

    async def run(self) -> None:
        """Work until cancelled. What it raises ends the agent."""
