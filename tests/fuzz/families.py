"""All families, in the order in which they are run."""

from tests.fuzz import (
    answers,
    clusters,
    event_logs,
    extenders,
    files,
    hami_nodes,
    hami_pods,
    inventories,
    objects,
    queries,
    regions,
    requests,
    reviews,
    share_pod_objects,
    sharepods,
)
from tests.fuzz.family import Family

FAMILIES: tuple[Family, ...] = (
    *objects.FAMILIES,
    *requests.FAMILIES,
    *sharepods.FAMILIES,
    *hami_pods.FAMILIES,
    *hami_nodes.FAMILIES,
    *share_pod_objects.FAMILIES,
    *inventories.FAMILIES,
    *files.FAMILIES,
    *answers.FAMILIES,
    *clusters.FAMILIES,
    *queries.FAMILIES,
    *event_logs.FAMILIES,
    *extenders.FAMILIES,
    *reviews.FAMILIES,
    *regions.FAMILIES,
)
