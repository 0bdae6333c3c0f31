"""Jobs and their pods as a controller has seen them, and which Jobs need a look."""

from collections.abc import Iterable, Mapping

from kubeshare_py.simulation.job_pods import owning_job
from kubeshare_py.simulation.jobs import Finished, JobWork, finish_of, work_for
from kubeshare_py.simulation.loose_objects import LooseObject


class JobBook:
    """What is known. Nothing is to be done before both lists are in."""

    def __init__(self) -> None:
        self._jobs: dict[str, LooseObject] | None = None
        self._pods: dict[str, LooseObject] | None = None
        self._pods_of: dict[str, set[str]] = {}
        self._finished: dict[str, dict[str, Finished]] = {}
        self._created: dict[str, float] = {}
        self._gone: set[str] = set()
        self._dirty: set[str] = set()

    def jobs_listed(self, jobs: Iterable[LooseObject]) -> None:
        """Take in all Jobs there are."""
        self._jobs = {job.uid: job for job in jobs}
        self._dirty.update(self._jobs)

    def job_seen(self, job: LooseObject) -> None:
        """Take in a Job as it is now."""
        if self._jobs is not None:
            self._jobs[job.uid] = job
            self._dirty.add(job.uid)

    def job_gone(self, uid: str) -> None:
        """Take in that a Job was deleted."""
        (self._jobs or {}).pop(uid, None)
        self._finished.pop(uid, None)

    def pods_listed(self, pods: Iterable[LooseObject], asked_at: float) -> None:
        """Take in all pods there were after `asked_at`, seconds of the clock of `pod_created`.

        A pod created later than that may be missing from the list and is kept.
        """
        old = self._pods or {}
        self._pods = {pod.uid: pod for pod in pods if owning_job(pod) is not None}
        for uid in [uid for uid in old if uid not in self._pods]:
            if self._created.get(uid, asked_at - 1) >= asked_at:
                self._pods[uid] = old[uid]
            else:
                self._unlink(old[uid])
        for pod in self._pods.values():
            self._link(pod)

    def pod_created(self, pod: LooseObject, now: float) -> None:
        """Take in the answer to a creation; the watch may have shown the pod before, or its end."""
        if self._pods is not None and pod.uid not in self._pods and pod.uid not in self._gone:
            self._pods[pod.uid] = pod
            self._created[pod.uid] = now
            self._link(pod)

    def pod_seen(self, pod: LooseObject) -> None:
        """Take in a pod as it is now."""
        if self._pods is not None and owning_job(pod) is not None:
            self._created.pop(pod.uid, None)
            self._pods[pod.uid] = pod
            self._link(pod)

    def pod_gone(self, uid: str) -> None:
        """Take in that a pod was deleted."""
        self._created.pop(uid, None)
        self._gone.add(uid)
        pod = (self._pods or {}).pop(uid, None)
        if pod is not None:
            self._unlink(pod)

    def look_again(self, uid: str) -> None:
        """A Job needs another look, because something about it failed."""
        self._dirty.add(uid)

    def has_work(self) -> bool:
        """Whether some Job needs a look."""
        return bool(self._dirty) and self._jobs is not None and self._pods is not None

    def work(self, now: float) -> list[tuple[LooseObject, JobWork]]:
        """Each Job that needs a look, with what it needs.

        To be called when everything that the last call asked for has been answered.
        """
        if not self.has_work():
            return []
        jobs, pods = self._jobs or {}, self._pods or {}
        dirty, self._dirty = sorted(self._dirty), set()
        self._gone.clear()
        return [
            (job, work_for(job, self._pods_of_job(uid, pods), self._finished.get(uid, {}), now))
            for uid in dirty
            if (job := jobs.get(uid)) is not None
        ]

    def _pods_of_job(self, uid: str, pods: Mapping[str, LooseObject]) -> list[LooseObject]:
        return [pods[pod] for pod in sorted(self._pods_of.get(uid, ()))]

    def _link(self, pod: LooseObject) -> None:
        owner = owning_job(pod)
        if owner is None:
            return
        self._pods_of.setdefault(owner, set()).add(pod.uid)
        end = finish_of(pod)
        if end is not None and (self._jobs is None or owner in self._jobs):
            self._finished.setdefault(owner, {})[pod.uid] = end
        self._dirty.add(owner)

    def _unlink(self, pod: LooseObject) -> None:
        owner = owning_job(pod)
        if owner is not None:
            self._pods_of.get(owner, set()).discard(pod.uid)
            self._dirty.add(owner)
