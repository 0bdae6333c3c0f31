"""Selectors and terms about pods and nodes as text: `app in (web, db) by zone; where=team=a`."""

import re
from typing import Any

Json = dict[str, Any]

_COMMAS = re.compile(r",\s*(?![^(]*\))")
_SET = re.compile(r"(?P<key>\S+) (?P<operator>in|notin) \((?P<values>.*)\)")
_COMPARED = re.compile(r"(?P<key>[^=!<>]+)(?P<operator>!=|=|<|>)(?P<values>.*)")
_OPERATORS = {
    **{"in": "In", "notin": "NotIn", "=": "In", "!=": "NotIn"},
    **{">": "Gt", "<": "Lt"},
}
#: Selects everything, and nothing.
ALL, NONE = "*", "-"
_NAME_FIELD = "metadata.name"


def requirements(text: str) -> list[Json]:
    """`matchExpressions` of kubectl's way to write a selector, with `size>5` and `size<5`."""
    return [_requirement(one.strip()) for one in _COMMAS.split(text)]


def _requirement(text: str) -> Json:
    found = _SET.fullmatch(text) or _COMPARED.fullmatch(text)
    if found:
        values = [one.strip() for one in found["values"].split(",")]
        operator = _OPERATORS[found["operator"]]
        return {"key": found["key"], "operator": operator, "values": values}
    if text.startswith("!"):
        return {"key": text[1:], "operator": "DoesNotExist"}
    return {"key": text, "operator": "Exists"}


def label_selector(text: str) -> Json:
    """A metav1.LabelSelector."""
    return {} if text == ALL else {"matchExpressions": requirements(text)}


def node_term(text: str) -> Json:
    """A node selector term; `metadata.name` is a field, and `-` the term without any."""
    if text == NONE:
        return {}
    both = requirements(text)
    fields = [one for one in both if one["key"] == _NAME_FIELD]
    labels = [one for one in both if one["key"] != _NAME_FIELD]
    term = {"matchExpressions": labels, "matchFields": fields}
    return {name: given for name, given in term.items() if given}


def preferred_node_term(text: str) -> Json:
    """`5 * disk=ssd`, a preferred node selector term."""
    weight, _, term = text.partition(" * ")
    return {"weight": int(weight), "preference": node_term(term)}


def pod_term(text: str) -> Json:
    """`app=web by zone`: a pod affinity term.

    Options: `namespaces=a,b`, `match=key` (matchLabelKeys), `mismatch=key`, and, at the end,
    `where=` a selector of namespaces.
    """
    words, options = _options(text)
    selector, _, key = words.rpartition(" by ")
    term: Json = {"topologyKey": key}
    if selector != NONE:
        term["labelSelector"] = label_selector(selector)
    if "where" in options:
        term["namespaceSelector"] = label_selector(options["where"])
    names = ("namespaces", "namespaces"), ("match", "matchLabelKeys")
    for option, field in (*names, ("mismatch", "mismatchLabelKeys")):
        if option in options:
            term[field] = options[option].split(",")
    return term


def preferred_pod_term(text: str) -> Json:
    """`5 * app=web by zone`, a weighted pod affinity term."""
    weight, _, term = text.partition(" * ")
    return {"weight": int(weight), "podAffinityTerm": pod_term(term)}


def spread_constraint(text: str) -> Json:
    """`1 by zone of app=web`: a topology spread constraint; `1 softly by zone` is ScheduleAnyway.

    Options: `min=3` (minDomains), `affinity=Ignore`, `taints=Honor`, `match=key`.
    """
    words, options = _options(text)
    skew, _, rest = words.partition(" ")
    way, _, rest = rest.partition("by ")
    key, _, selector = rest.partition(" of ")
    made: Json = {
        "maxSkew": int(skew),
        "topologyKey": key,
        "whenUnsatisfiable": "ScheduleAnyway" if way else "DoNotSchedule",
    }
    if selector and selector != NONE:
        made["labelSelector"] = label_selector(selector)
    if "min" in options:
        made["minDomains"] = int(options["min"])
    if "affinity" in options:
        made["nodeAffinityPolicy"] = options["affinity"]
    if "taints" in options:
        made["nodeTaintsPolicy"] = options["taints"]
    if "match" in options:
        made["matchLabelKeys"] = options["match"].split(",")
    return made


def _options(text: str) -> tuple[str, dict[str, str]]:
    words, _, rest = text.partition("; ")
    before, has_where, where = rest.partition("where=")
    options = dict(one.split("=", 1) for one in before.split())
    if has_where:
        options["where"] = where
    return words, options
