"""How long tests wait for what has to happen: one deadline for all of them.

A test waits for the event itself, so that only a test that fails ever reaches the deadline. What
has to happen *soon* is counted, in looks or requests, since a busy machine makes seconds worthless.
"""

#: Seconds; far more than anything is meant to take, on a busy machine too.
PATIENCE_S = 180.0
