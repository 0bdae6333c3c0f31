"""The agent of one node: keeps its pods and cards as values, and gives them to its parts."""

import asyncio
from collections.abc import Sequence

from kubeshare_py.domain.identity import NodeName
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.node.agent_annotation import AgentAnnotation
from kubeshare_py.edges.node.agent_part import AgentPart
from kubeshare_py.edges.node.card_sampler import CardSampler
from kubeshare_py.edges.node.tenant_watch import TenantWatch
from kubeshare_py.exporters.node_agent_metrics import AgentFigures
from kubeshare_py.node_agent.agent_report import PartReport
from kubeshare_py.node_agent.history import given_away
from kubeshare_py.node_agent.tenants import AgentState


class NodeAgent:
    """The agent with its parts, which are told of every change of the node's pods and cards."""

    def __init__(
        self, client: KubeClient, sampler: CardSampler, parts: Sequence[AgentPart] = ()
    ) -> None:
        self.parts = parts
        self.state = AgentState()
        self.sampler = sampler
        self.watch = TenantWatch(client, self.node, self._look)
        self._annotation = AgentAnnotation(client, self.node, self.reports)
        sampler.on_reading = self._look
        for part in parts:
            part.on_report = self._annotation.on_report

    @property
    def node(self) -> NodeName:
        """The node that it runs on."""
        return self.sampler.node

    def reports(self) -> list[PartReport] | None:
        """What each part has to say; None until all of them know."""
        found = self._known()
        return found if len(found) == len(self.parts) else None

    def figures(self) -> AgentFigures:
        """The figures for its metrics."""
        cards, tenants = self.state.cards, self.state.tenants
        pods = None if tenants is None else [*tenants.values()]
        return AgentFigures(
            node=self.node,
            is_connected=self.watch.is_connected,
            cards=None if cards is None else len(cards),
            pods=None if pods is None else sum(one.holds_cards for one in pods),
            unreadable=None if pods is None else sum(bool(one.problem) for one in pods),
            enforces={one for report in self._known() for one in report.enforces},
        )

    def unlisted(self) -> str:
        """Why the node's pods are not known, "" if they are."""
        return "" if self.watch.tenants.is_listed else "the node's pods are not listed yet"

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.sampler.run())
            group.create_task(self.watch.run())
            group.create_task(self._annotation.run())
            for part in self.parts:
                group.create_task(part.run())

    def _known(self) -> list[PartReport]:
        return [found for part in self.parts if (found := part.report()) is not None]

    def _look(self) -> None:
        is_read = self.sampler.age_s is not None
        cards = given_away(self.sampler.cards()) if is_read else None
        state = AgentState(cards, self.watch.tenants.by_uid)
        if state == self.state:
            return
        self.state = state
        for part in self.parts:
            part.take(state)
