"""What `dialects/hami/request` adds to new pods, and which it refuses, as CEL variables.

They need `object`, a pod, and `variables.hami`, the settings of the dialect in the pod's profile as
texts, of which the chart has the defaults from here. Amounts are read from limits alone: of an
extended resource an API server accepts no request without a limit.
"""

from collections.abc import Mapping

import msgspec

from kubeshare_py.admission.cel_text import NOTHING, Variables, as_entries, first, literal
from kubeshare_py.dialects.hami.annotations import CARD_CORES, SEED, HamiSettings
from kubeshare_py.dialects.hami.request import (
    COUNT_RULE,
    MOST_MIB,
    MOST_RULE,
    NODE_RULE,
    PERCENT,
    PERCENT_RULE,
    PRIVILEGED_RULE,
    TASK_PRIORITY,
    UNIT_RULE,
    WITHOUT_COUNT,
)
from kubeshare_py.domain.quantity import CLAIMED_CARDS

_HEAD = "{{- /* Rules of kubeshare_py/dialects/hami as CEL; written by `make manifests`. */}}\n"
#: The containers of a pod, by the names of their lists in its spec.
LISTS = ("containers", "initContainers")
_RESOURCES = ("count", "memory", "memory_percentage", "cores", "priority")
_USED = (*_RESOURCES, "default_gpu_num", "memory_factor", "profile")
_COUNT, _MEMORY, _PERCENTAGE, _CORES, _PRIORITY = (f"variables.hami.{key}" for key in _RESOURCES)
_DEFAULT_COUNT = "variables.hami.default_gpu_num"
_IS_SEED = f"variables.hami.profile == {literal(SEED)}"


def settings(own: HamiSettings) -> Mapping[str, str]:
    """Those that the rules depend on, as texts."""
    return {key: str(getattr(own, key)) for key in _USED}


def additions() -> Variables:
    """`hamiAsks`, whether the pod asks for cards, and for each list what its containers get.

    That is `…Added`, a list of limits (`name`, `value`) for each container, and `…Priority`, the
    value of the variable `priorityName`, '' for none.
    """
    every = " + ".join(f"variables.{kind}Limits" for kind in LISTS)
    named = "[" + ", ".join((_COUNT, _MEMORY, _PERCENTAGE, _CORES, _PRIORITY)) + "]"
    found = {
        f"{kind}Limits": (
            f"(has(object.spec.{kind}) ? object.spec.{kind} : []).map(one,\n"
            "has(one.resources) && has(one.resources.limits) ? one.resources.limits : {})"
        )
        for kind in LISTS
    }
    found["hamiAsks"] = (
        f"({every}).exists(limits, {named}.exists(name, {_above_zero('name')}))\n"
        f"&& ({every}).exists(limits, {_asks()})"
    )
    for kind in LISTS:
        found[f"{kind}Added"] = (
            f"variables.{kind}Limits.map(limits, {_IS_SEED} || !({_asks()}) ? [] :\n"
            f"({_COUNT} in limits ? [] : [{{'name': {_COUNT}, 'value': {_DEFAULT_COUNT}}}])\n"
            f"+ ({_is_alone()} ? [{{'name': {_CORES}, 'value': '{CARD_CORES}'}}] : []))"
        )
        found[f"{kind}Priority"] = (
            f"variables.{kind}Limits.map(limits, {_PRIORITY} in limits\n"
            f"? string({_amount(_PRIORITY)}.asInteger()) : {NOTHING})"
        )
    return {**found, "priorityName": literal(TASK_PRIORITY)}


def refusals() -> Variables:
    """`hamiProblem`: why `admission_additions` refuses a pod, '' if it does not.

    They need the variables of `additions`. `hamiAmounts` are the sentences about amounts that
    cannot be meant, of containers as the scheduler reads them.
    """
    init, others = (f"(has(object.spec.{one}) ? object.spec.{one} : [])" for one in reversed(LISTS))
    has_node = "has(object.spec.nodeName) && object.spec.nodeName != ''"
    limits = " + ".join(f"variables.{kind}Limits" for kind in reversed(LISTS))
    named = "variables.hamiPrivileged[0]"
    privileged = literal("container "), named, literal(f" {PRIVILEGED_RULE}")
    return {
        "hamiAmounts": (
            f"{has_node} ? [] : ({limits}).map(limits, {_wrong()})\n.filter(one, one != {NOTHING})"
        ),
        "hamiPrivileged": (
            f"({init} + {others}).filter(one, has(one.securityContext)\n"
            "&& has(one.securityContext.privileged) && one.securityContext.privileged)"
            ".map(one, one.name)"
        ),
        "hamiProblem": first(
            [
                ("size(variables.hamiAmounts) > 0", "variables.hamiAmounts[0]"),
                ("!variables.hamiAsks", NOTHING),
                ("size(variables.hamiPrivileged) > 0", " + ".join(privileged)),
                (has_node, literal(NODE_RULE)),
            ]
        ),
    }


def template() -> str:
    """The content of deploy/chart/kubeshare/templates/_hami.tpl."""
    parts = {
        "hamiDefaults": msgspec.json.encode(settings(HamiSettings())).decode() + "\n",
        "cel.hamiAdditions": as_entries(additions()),
        "cel.hamiRefusals": as_entries(refusals()),
    }
    return _HEAD + "".join(
        f'{{{{- define "kubeshare.{name}" -}}}}\n{text}{{{{- end }}}}\n'
        for name, text in parts.items()
    )


def _amount(resource: str) -> str:
    return f"quantity(string(limits[{resource}]))"


def _above_zero(resource: str) -> str:
    return f"{resource} in limits && {_amount(resource)}.isGreaterThan(quantity('0'))"


def _wrong() -> str:
    """The first sentence about the amounts of a container with these `limits`; '' for none."""
    factor = "variables.hami.memory_factor"
    most = f"string({MOST_MIB} / int({factor}))"
    unit = f"({factor} == '1' ? 'MiB' : {factor} + ' MiB')"
    memory_rule = f"{literal(UNIT_RULE + ' ')} + {unit} + {literal(f', {MOST_RULE} ')} + {most}"
    has_no_default = f"{_COUNT} in limits || {_IS_SEED} || {_DEFAULT_COUNT} == '0'"
    # Of a container that asks for no part, one look at each name is all.
    return first(
        [
            (
                f"({has_no_default}) && !({_above_zero(_COUNT)})",
                "("
                + first(
                    (_above_zero(part), _sentence(part, literal(WITHOUT_COUNT)))
                    for part in (_MEMORY, _PERCENTAGE, _CORES)
                )
                + ")",
            ),
            (_above(_COUNT, str(CLAIMED_CARDS.most)), _sentence(_COUNT, literal(COUNT_RULE))),
            (_above(_MEMORY, most, is_text=True), _sentence(_MEMORY, memory_rule)),
            (_above(_PERCENTAGE, str(PERCENT)), _sentence(_PERCENTAGE, literal(PERCENT_RULE))),
        ]
    )


def _above(resource: str, most: str, *, is_text: bool = False) -> str:
    limit = most if is_text else literal(most)
    return f"{resource} in limits && {_amount(resource)}.isGreaterThan(quantity({limit}))"


def _sentence(resource: str, rule: str) -> str:
    """As `InvalidRequest` writes it."""
    amount = f"string({_amount(resource)}.asInteger())"
    return f"'resources[' + {resource} + ']=\"' + {amount} + '\": ' + {rule}"


def _asks() -> str:
    """Whether a container with these `limits` gets cards: a bool."""
    parts = f"[{_MEMORY}, {_PERCENTAGE}, {_CORES}].exists(part, part in limits)"
    by_default = f"!({_IS_SEED}) && {_DEFAULT_COUNT} != '0' && {parts}"
    return f"({_above_zero(_COUNT)})\n|| ({by_default})"


def _is_alone() -> str:
    """Whether its cores are all by default: a bool."""
    whole = f"{_amount(_PERCENTAGE)}.compareTo(quantity('100')) == 0"
    return f"!({_CORES} in limits) && ({_PERCENTAGE} in limits ? {whole} : !({_MEMORY} in limits))"
