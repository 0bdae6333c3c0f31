"""Which devices of one node satisfy claims without an allocation, and the allocation to write."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kubeshare_py.devices.device_pools import NodeDevices, PooledDevice
from kubeshare_py.devices.device_verdicts import CannotJudge, DeviceVerdicts, NotYet
from kubeshare_py.domain.cluster_objects import Requirement
from kubeshare_py.domain.device import (
    MAX_RESULTS,
    AllocatedDevice,
    AllocationMode,
    ClaimAllocation,
    DeviceAttribute,
    DeviceClass,
    DeviceConfiguration,
    DeviceKey,
    DeviceRequest,
    MatchAttribute,
    ResourceClaim,
)
from kubeshare_py.domain.pod import NodeTerm

# Which devices of one node satisfy claims that are not allocated yet: a bounded search.
#
# Like kube-scheduler, it takes the first solution, with requests, alternatives and devices in their
# order: https://github.com/kubernetes/kubernetes/tree/master/staging/src/k8s.io/
# dynamic-resource-allocation/structured. Devices of one request are interchangeable, so that each
# set of them is tried once.


#: Devices that are tried for one node, and the steps that each takes (see `device_verdicts`).
MAX_TRIED = 5000
_STEPS = 10
#: The most characters of a claim's different selectors: half a second to parse them, once.
MAX_SELECTORS = 16_384

#: Why a device is not free, in words that follow "devices are"; "" if it is.
InUse = Callable[[PooledDevice], str]
#: The devices of one claim, each with its request.
Chosen = tuple[tuple[DeviceRequest, PooledDevice], ...]


@dataclass(frozen=True, slots=True)
class Impossible:
    """The claims cannot be allocated on the node; `reason` names a claim and what is missing.

    `is_unfinished`: the question had no steps left, and the next one goes on. `is_given_up`: the
    search reached `MAX_TRIED`, and would again.
    """

    reason: str
    is_unfinished: bool = False
    is_given_up: bool = False


class _TooLong(Exception):
    """The search took too many steps."""


def allocate(
    claims: Sequence[ResourceClaim],
    classes: Mapping[str, DeviceClass],
    node: NodeDevices,
    verdicts: DeviceVerdicts,
    in_use: InUse,
) -> tuple[Chosen, ...] | Impossible:
    """The devices of each claim, or why there are none.

    The claims must have passed `problem_of`.
    """
    search = _Search(claims, classes, node, verdicts, in_use)
    try:
        found = search.run()
        return Impossible(search.reason()) if found is None else found
    except CannotJudge as error:
        reason = f"{claims_in_words(search.at(claims))}: {error}"
        return Impossible(reason, is_unfinished=isinstance(error, NotYet))
    except _TooLong:
        return too_long(claims)


def too_long(claims: Sequence[ResourceClaim]) -> Impossible:
    """The claims are given up on the node."""
    reason = f"{claims_in_words(claims)}: the search for devices takes too long"
    return Impossible(reason, is_given_up=True)


def problem_of(claim: ResourceClaim, classes: Mapping[str, DeviceClass]) -> str:
    """Why a claim cannot be allocated on any node; "" if it may be."""
    named = claims_in_words((claim,))
    if claim.problem:
        return f"{named} cannot be read: {claim.problem}"
    characters = sum(len(one) for one in _selectors(claim))
    if characters > MAX_SELECTORS:
        return f"{named}: its selectors have more than {MAX_SELECTORS} characters in all"
    if claim.unsupported:
        return f"{named}: not supported yet: {', '.join(claim.unsupported)}"
    for request in (one for alternatives in claim.requests for one in alternatives):
        known = classes.get(request.device_class)
        if known is None:
            return f"request {request.name}: device class {request.device_class} does not exist"
        if known.problem:
            return f"{named}: device class {known.name} cannot be read: {known.problem}"
    return ""


def _selectors(claim: ResourceClaim) -> Iterable[str]:
    """The different expressions of a claim's requests."""
    requests = (one for alternatives in claim.requests for one in alternatives)
    return {expression for one in requests for expression in one.selectors}


def claims_in_words(claims: Sequence[ResourceClaim]) -> str:
    """`resourceclaim a/b`, or several of them."""
    return f"resourceclaim {', '.join(f'{one.namespace}/{one.name}' for one in claims)}"


@dataclass(slots=True)
class _Search:
    """One search. `_taken` are the devices chosen so far; `_values` those of each constraint."""

    claims: Sequence[ResourceClaim]
    classes: Mapping[str, DeviceClass]
    node: NodeDevices
    verdicts: DeviceVerdicts
    in_use: InUse
    _taken: set[DeviceKey] = field(default_factory=set)
    _chosen: list[list[tuple[DeviceRequest, PooledDevice]]] = field(default_factory=list)
    _values: list[list[list[DeviceAttribute]]] = field(default_factory=list)
    _matching: dict[tuple[int, str], list[PooledDevice]] = field(default_factory=dict)
    _allowed: dict[tuple[int, str, DeviceKey], bool] = field(default_factory=dict)
    _tried: int = 0
    #: How far the search got at most: the claim and the request that it could not satisfy.
    _furthest: tuple[int, int] = (0, 0)
    _judging: int = 0

    def run(self) -> tuple[Chosen, ...] | None:
        self._chosen = [[] for _ in self.claims]
        self._values = [[[] for _ in one.constraints] for one in self.claims]
        return tuple(map(tuple, self._chosen)) if self._request(0, 0) else None

    def at(self, claims: Sequence[ResourceClaim]) -> Sequence[ResourceClaim]:
        """The claim whose devices were judged last."""
        return claims[self._judging : self._judging + 1]

    def _request(self, claim: int, number: int) -> bool:
        """Satisfy this request of a claim, and all that follow."""
        if claim == len(self.claims):
            return True
        requests = self.claims[claim].requests
        if number == len(requests):
            return self._request(claim + 1, 0)
        self._furthest = max(self._furthest, (claim, number))
        for alternative in requests[number]:
            if self._alternative(claim, number, alternative):
                return True
        return False

    def _alternative(self, claim: int, number: int, request: DeviceRequest) -> bool:
        wants_all = request.mode is AllocationMode.ALL
        matching = self._all_matching(claim, request) if wants_all else self.node.devices
        count = len(matching) if wants_all else request.count
        if wants_all and (not matching or self.node.unusable):
            return False
        if len(self._chosen[claim]) + count > MAX_RESULTS or count > len(matching):
            return False
        return self._devices(claim, number, request, matching, 0, count)

    def _devices(
        self,
        claim: int,
        number: int,
        request: DeviceRequest,
        matching: Sequence[PooledDevice],
        start: int,
        missing: int,
    ) -> bool:
        """Take `missing` devices from `start` on, and satisfy what follows."""
        if not missing:
            return self._request(claim, number + 1)
        for position in range(start, len(matching) - missing + 1):
            candidate = matching[position]
            is_taken = candidate.key in self._taken and request.mode is not AllocationMode.ALL
            if is_taken or not self._is_allowed(claim, request, candidate):
                continue
            self._tried += 1
            if self._tried > MAX_TRIED:
                raise _TooLong
            self.verdicts.spend(_STEPS)
            if not self._may_take(claim, request, candidate):
                if request.mode is AllocationMode.ALL:
                    return False
                continue
            self._take(claim, request, candidate)
            if self._devices(claim, number, request, matching, position + 1, missing - 1):
                return True
            self._give_back(claim, request, candidate)
        return False

    def _all_matching(self, claim: int, request: DeviceRequest) -> list[PooledDevice]:
        """All devices that the selectors of a request allow, free or not."""
        key = (claim, request.name)
        if key not in self._matching:
            self._judging = claim
            of = self.classes[request.device_class]
            self._matching[key] = [
                one for one in self.node.devices if self.verdicts.satisfies(one, request, of)
            ]
        return self._matching[key]

    def _is_allowed(self, claim: int, request: DeviceRequest, candidate: PooledDevice) -> bool:
        """Whether a device is free and matches; it is judged when the search comes to it.

        A selector that cannot be evaluated for a device matters only then, as in kube-scheduler,
        and not for a device that another request has.
        """
        if request.mode is AllocationMode.ALL:
            return True
        key = (claim, request.name, candidate.key)
        if key not in self._allowed:
            self._judging = claim
            of = self.classes[request.device_class]
            self._allowed[key] = self._is_usable(request, candidate) and self.verdicts.satisfies(
                candidate, request, of
            )
        return self._allowed[key]

    def _is_usable(self, request: DeviceRequest, candidate: PooledDevice) -> bool:
        device = candidate.device
        return (
            not device.unsupported
            and not any(device.repelling(request.tolerations))
            and not self.in_use(candidate)
        )

    def _may_take(self, claim: int, request: DeviceRequest, candidate: PooledDevice) -> bool:
        if candidate.key in self._taken:
            return False
        if request.mode is AllocationMode.ALL and not self._is_usable(request, candidate):
            return False
        for constraint, values in self._concerned(claim, request):
            own = candidate.device.attribute(constraint.domain, constraint.name)
            if own is None or (values and not values[0].equals(own)):
                return False
        return True

    def _take(self, claim: int, request: DeviceRequest, candidate: PooledDevice) -> None:
        self._taken.add(candidate.key)
        self._chosen[claim].append((request, candidate))
        for constraint, values in self._concerned(claim, request):
            own = candidate.device.attribute(constraint.domain, constraint.name)
            assert own is not None
            values.append(own)

    def _give_back(self, claim: int, request: DeviceRequest, candidate: PooledDevice) -> None:
        self._taken.discard(candidate.key)
        self._chosen[claim].pop()
        for _, values in self._concerned(claim, request):
            values.pop()

    def _concerned(
        self, claim: int, request: DeviceRequest
    ) -> Iterator[tuple[MatchAttribute, list[DeviceAttribute]]]:
        """The constraints on a request's devices, with the values of those taken."""
        constraints = self.claims[claim].constraints
        for constraint, values in zip(constraints, self._values[claim], strict=True):
            if constraint.concerns(request):
                yield constraint, values

    def reason(self) -> str:
        """What was missing where the search got furthest."""
        claim, number = self._furthest
        requests = self.claims[claim].requests[number]
        told = [self._missing(claim, one) for one in requests]
        names = f"{claims_in_words((self.claims[claim],))}, request {requests[0].top_name}"
        pools = f" ({', '.join(self.node.unusable)})" if self.node.unusable else ""
        return f"cannot allocate all claims: {names}: {' or '.join(dict.fromkeys(told))}{pools}"

    def _missing(self, claim: int, request: DeviceRequest) -> str:
        of = self.classes[request.device_class]
        matching = [one for one in self.node.devices if self.verdicts.satisfies(one, request, of)]
        if not matching:
            return "no device matches"
        fields = sorted({name for one in matching for name in one.device.unsupported})
        if fields:
            return f"devices with {', '.join(fields)} are not supported yet"
        if any(any(one.device.repelling(request.tolerations)) for one in matching):
            return "devices are tainted"
        wanted = len(matching) if request.mode is AllocationMode.ALL else request.count
        used = [why for why in map(self.in_use, matching) if why]
        if len(matching) - len(used) < wanted:
            return f"devices are {' or '.join(sorted(set(used)))}" if used else "too few devices"
        return "no devices that go together"


# What an allocation says of a claim: devices, the nodes that it binds to, and parameters.


def allocation_of(
    claim: ResourceClaim, chosen: Chosen, classes: Mapping[str, DeviceClass]
) -> ClaimAllocation:
    """The allocation of a claim with these devices."""
    return ClaimAllocation(
        devices=tuple(
            AllocatedDevice(request.name, one.key, tolerations=request.tolerations)
            for request, one in chosen
        ),
        terms=_terms(chosen),
        configurations=(*_of_classes(claim, chosen, classes), *_of_claim(claim, chosen)),
    )


def _terms(chosen: Chosen) -> tuple[NodeTerm, ...] | None:
    """The nodes from which all devices may be used; None for all nodes."""
    labels: list[Requirement] = []
    fields: list[Requirement] = []
    for _, one in chosen:
        nodes = one.slice.nodes_of(one.device)
        if nodes is None:
            continue
        if nodes.name is not None:
            return (NodeTerm(fields=(Requirement("metadata.name", "In", (nodes.name,)),)),)
        for term in nodes.terms or ():
            labels += term.labels
            fields += term.fields
    if not labels and not fields:
        return None
    return (NodeTerm(tuple(dict.fromkeys(labels)), tuple(dict.fromkeys(fields))),)


def _of_classes(
    claim: ResourceClaim, chosen: Chosen, classes: Mapping[str, DeviceClass]
) -> Iterator[DeviceConfiguration]:
    """The parameters of each class once, for all requests of it."""
    requests: dict[str, list[str]] = {}
    for one in _selected(claim, chosen):
        requests.setdefault(one.device_class, []).append(one.name)
    for name, names in requests.items():
        for configuration in classes[name].configurations:
            yield DeviceConfiguration(configuration.source, tuple(names), configuration.content)


def _of_claim(claim: ResourceClaim, chosen: Chosen) -> Iterator[DeviceConfiguration]:
    names = {name for one in _selected(claim, chosen) for name in (one.name, one.top_name)}
    for one in claim.configurations:
        if not one.requests or _meets(one.requests, names):
            yield one


def _selected(claim: ResourceClaim, chosen: Chosen) -> Sequence[DeviceRequest]:
    """The alternative of each request that was chosen."""
    taken = {request.name for request, _ in chosen}
    return [one for alternatives in claim.requests for one in alternatives if one.name in taken]


def _meets(names: Iterable[str], others: set[str]) -> bool:
    return any(name in others for name in names)
