"""The builders, the driver and the world of all tests of the machine.

Values. Each call says only what the test is about, and takes any further field by its name. Those
that plugins' authors need too are from `kubeshare_py.testing`.

    a_gpu("GPU-a", healthy=False)             a card of 40 GiB
    some_gpus("n1", 2)                        the cards of a node: GPU-n1-0, GPU-n1-1
    a_node("n1", cpu=1000, labels={...})      a node with room
    a_claim(500), whole(2)                    half a card; two whole ones
    a_shape(a_claim(500), cpu=200)            what a pod asks for; without a claim no GPU
    a_pod("p", a_shape(...), priority=1)      a pod of ours, default/p with the uid uid-p
    a_share("p", 500, priority=1)             a pod that wants a share of one card; 1000 by default
    members(a_group(2), 3)                    pods g-0, g-1 and g-2 of a gang that needs two
    FREE, held_by("p")                        the lock of a node
    a_machine(document)                       a machine that knows nothing yet
    a_cluster({"n1": 2})                      the lists that show a node with two cards

A machine evicts no pod for others unless its document is PREEMPTION, or another one.

Driver. `Driver({"n1": 2})` is a machine in such a cluster; `now` is the test's to set.

    driver.tell(event, ...)                   the effects; `of(Bind, effects)` are those of one kind
    driver.decide()                           one iteration; the Bindings that it sends
    driver.turn(), driver.later(10)           until nothing is left to do, now or in 10 s
    driver.seen(pod), driver.show(*pods)      the watch shows pods, and then `decide` or `turn`
    driver.place(pod), driver.fill(*pods)     pods are shown, and bound as the machine chooses
    driver.answer(bind, outcome)              the API server answers a Binding
    driver.bound(binds)                       all are stored, and the watch shows it
    driver.leaves("p"), driver.gone("p")      a pod is being deleted, or deleted
    driver.inventory(n1=3)                    the inventory has other cards
    driver.see(object), driver.wrote()        the watch shows another object; a write is answered

What the machine asked for is kept in `effects`, and by kind: `binds`, `told` (the last message of
each pod), `troubles` (warnings), `evicted` and `notes`, `nominated`, `plans`, `writes`. `names`
are those of Bindings, sorted. `driver.machine` is there for everything else.

`calls` counts the calls of functions while something runs.

Clusters that have more: `boards` (cards with links, known by index), `devices` (slices and claims),
`pre_bind` (a plugin whose answers the test sets).

World. `world.World` is an API server with a late watch and answers that get lost, around a machine
whose decisions pass books of the test's own; `world.GangWorld` has gangs too. A history is a list
of numbers. `pre_bind_world` adds claims that are provisioned, `busy_world` all that goes on at
once without books, and `inter_pod_world` has pods that ask something about each other.

Texts. `golden.expect_golden("terminal/gpus", text)` compares a long text with its file.
"""

from tests.making.driver import Driver, names, of
from tests.making.values import (
    FREE,
    GIB,
    LOCK_KEY,
    MODEL,
    NO_PREEMPTION,
    PREEMPTION,
    a_claim,
    a_cluster,
    a_gpu,
    a_group,
    a_machine,
    a_node,
    a_pod,
    a_shape,
    a_share,
    held_by,
    members,
    some_gpus,
    whole,
)

__all__ = [
    "FREE",
    "GIB",
    "LOCK_KEY",
    "MODEL",
    "NO_PREEMPTION",
    "PREEMPTION",
    "Driver",
    "a_claim",
    "a_cluster",
    "a_gpu",
    "a_group",
    "a_machine",
    "a_node",
    "a_pod",
    "a_shape",
    "a_share",
    "held_by",
    "members",
    "names",
    "of",
    "some_gpus",
    "whole",
]
