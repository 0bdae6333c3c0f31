"""An API server with SharePods and pods, kubelets and garbage collection, as plain books.

The reconciler sees it only through watch events that come late, and answers that come late or are
lost. What the world does not allow, as a second pod of a name, it refuses as API servers do.
"""

import random
from collections import deque
from dataclasses import dataclass, field

from kubeshare_py.domain.identity import PodKey, PodUid
from kubeshare_py.domain.values import replace
from kubeshare_py.sharepods.effects import (
    AdoptPod,
    CreatePod,
    DeletePod,
    PodBehindGone,
    PodBehindSeen,
    PodFound,
    PodsBehindListed,
    RequestDone,
    RequestFailed,
    RequestOutcome,
    SharePodEvent,
    SharePodGone,
    SharePodRequest,
    SharePodSeen,
    SharePodsListed,
    SharePodStored,
    WriteCardName,
    WriteStatus,
)
from kubeshare_py.sharepods.share_pod import (
    PodBehind,
    PodMirror,
    SharePod,
    SharePodTemplate,
    SharePodUid,
)

POLICIES = ("Always", "OnFailure", "Never")
REFUSED = "refused"


@dataclass(slots=True)
class World:
    """`news` are events that no watch has delivered yet: of SharePods, and of pods."""

    rng: random.Random
    version: int = 0
    shares: dict[PodKey, SharePod] = field(default_factory=dict)
    pods: dict[PodKey, PodBehind] = field(default_factory=dict)
    news: tuple[deque[SharePodEvent], deque[SharePodEvent]] = field(
        default_factory=lambda: (deque(), deque())
    )
    #: SharePods whose pod ended so that it must not be made again, as far as anybody could know.
    made_for: list[SharePodUid] = field(default_factory=list)
    ended: set[SharePodUid] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)

    def next(self) -> str:
        self.version += 1
        return str(self.version)

    def put_share(self, share: SharePod) -> SharePod:
        stored = replace(share, version=self.next())
        self.shares[share.key] = stored
        self.news[0].append(SharePodSeen(stored))
        return stored

    def put_pod(self, pod: PodBehind) -> PodBehind:
        version = self.next()
        metadata = f'{{"uid":"{pod.uid}","v":"{version}"}}'.encode()
        stored = replace(pod, version=version, mirror=replace(pod.mirror, metadata=metadata))
        self.pods[pod.key] = stored
        self.news[1].append(PodBehindSeen(stored))
        return stored

    def remove_share(self, key: PodKey) -> None:
        share = self.shares.pop(key)
        self.news[0].append(SharePodGone(key, share.uid))

    def remove_pod(self, key: PodKey) -> None:
        pod = self.pods.pop(key)
        share = self.shares.get(key)
        if share is not None and share.uid == pod.owner and share.is_finished(pod.mirror.phase):
            self.ended.add(share.uid)
        self.news[1].append(PodBehindGone(replace(pod, version=self.next())))

    def lists(self, now: float) -> list[SharePodEvent]:
        """What a process that starts is told first; what was on its way is not.

        How a pod ended that went meanwhile can be known only from what its SharePod shows.
        """
        for waiting in self.news:
            waiting.clear()
        shares = self.shares.values()
        self.ended &= {one.uid for one in shares if one.is_finished(one.status.mirror.phase)}
        return [
            SharePodsListed(tuple(self.shares.values())),
            PodsBehindListed(pods=tuple(self.pods.values()), asked_at=now),
        ]

    def garbage(self) -> None:
        """Collect the pods of SharePods that are gone, and end foreground deletions."""
        for key, share in [*self.shares.items()]:
            pod = self.pods.get(key)
            if share.is_deleting and pod is not None and pod.owner == share.uid:
                self.remove_pod(key)
            elif share.is_deleting:
                self.remove_share(key)
        uids = {one.uid for one in self.shares.values()}
        for key, pod in [*self.pods.items()]:
            if pod.owner and pod.owner not in uids:
                self.remove_pod(key)

    def perform(self, request: SharePodRequest) -> RequestOutcome:
        """As the API server does it."""
        if isinstance(request, CreatePod):
            return self._create(request.share_pod)
        if isinstance(request, DeletePod):
            return self._delete(request)
        return self._adopt(request) if isinstance(request, AdoptPod) else self._write(request)

    def _adopt(self, request: AdoptPod) -> RequestOutcome:
        pod = self.pods.get(request.share_pod.key)
        if pod is None or pod.uid != request.uid or pod.has_controller:
            return RequestFailed(message="conflict")
        owner = request.share_pod.uid
        return PodFound(self.put_pod(replace(pod, owner=owner, has_controller=True)))

    def _write(self, request: WriteStatus | WriteCardName) -> RequestOutcome:
        key = request.share_pod.key
        share = self.shares.get(key)
        if share is None or share.uid != request.share_pod.uid:
            return RequestFailed(message="not found", is_definite=True)
        if isinstance(request, WriteStatus):
            return SharePodStored(self.put_share(replace(share, status=request.status)))
        named = replace(share, card_name=request.card_name, assigned_card_name=request.card_name)
        return SharePodStored(self.put_share(named))

    def _create(self, asked: SharePod) -> RequestOutcome:
        key, there = asked.key, self.pods.get(asked.key)
        if there is not None:
            return PodFound(there)
        if REFUSED in asked.template.manifest.decode():
            return RequestFailed(message="no", is_definite=True)
        if asked.uid in self.ended:
            self.problems.append(f"{key}: a finished pod is made again")
        if asked.problem or asked.is_deleting:
            self.problems.append(f"{key}: made although {asked.problem or 'it is deleted'}")
        self.made_for.append(asked.uid)
        uid = f"p{len(self.made_for)}"
        made = PodBehind(
            key=key,
            uid=PodUid(uid),
            owner=asked.uid,
            has_controller=True,
            is_marked=True,
            field_hashes=asked.template.field_hashes,
            card_name=asked.card_name if asked.chooses_card_name else "",
            mirror=PodMirror(pod_uid=PodUid(uid), phase="Pending", status=b"{}"),
        )
        return PodFound(self.put_pod(made))

    def _delete(self, request: DeletePod) -> RequestOutcome:
        pod = self.pods.get(request.key)
        if pod is None:
            return RequestDone()
        if pod.uid != request.uid or request.version not in ("", pod.version):
            return RequestFailed(message="conflict")
        share = self.shares.get(request.key)
        if pod.owner != request.owner:
            self.problems.append(f"{request.key}: a pod of others is deleted")
        if pod.is_bound and share is not None and share.uid == pod.owner:
            self.problems.append(f"{request.key}: a pod that runs is deleted")
        self.remove_pod(request.key)
        return RequestDone()

    def somebody_acts(self, key: PodKey) -> None:
        """A user, the scheduler, a kubelet, or another controller does something."""
        acts = [self._user_makes] * 3 + [self._user_edits, self._user_deletes, self._foreground]
        acts += [self._binds, self._runs, self._ends] * 4 + [self._pod_deleted] * 2 + [self._other]
        self.rng.choice(acts)(key)

    def _user_makes(self, key: PodKey) -> None:
        if key in self.shares:
            return
        word = self.rng.choice(["a", "b", "a", "b", REFUSED])
        self.put_share(
            SharePod(
                key=key,
                uid=SharePodUid(f"s{self.next()}"),
                version="",
                template=_template(word),
                restart_policy=self.rng.choice(POLICIES),
                problem=self.rng.choice(["", "", "", "gpu_mem"]),
                card_name=self.rng.choice(["", "", "mine"]),
            )
        )

    def _user_edits(self, key: PodKey) -> None:
        share = self.shares.get(key)
        if share is not None:
            word = self.rng.choice(["a", "b", "c"])
            self.put_share(replace(share, template=_template(word), problem=""))

    def _user_deletes(self, key: PodKey) -> None:
        if key in self.shares:
            self.remove_share(key)

    def _foreground(self, key: PodKey) -> None:
        share = self.shares.get(key)
        if share is not None:
            self.put_share(replace(share, is_deleting=True))

    def _binds(self, key: PodKey) -> None:
        pod = self.pods.get(key)
        if pod is not None and pod.owner and not pod.is_bound:
            shown = replace(pod.mirror, node="n1", device="GPU-1", port=50051)
            named = pod.card_name or self.rng.choice(["abcde", "fghij"])
            self.put_pod(replace(pod, mirror=shown, card_name=named))

    def _runs(self, key: PodKey) -> None:
        self._phase(key, "Pending", "Running")

    def _ends(self, key: PodKey) -> None:
        self._phase(key, "Running", self.rng.choice(["Succeeded", "Failed"]))

    def _phase(self, key: PodKey, before: str, after: str) -> None:
        pod = self.pods.get(key)
        if pod is not None and pod.is_bound and pod.mirror.phase == before:
            shown = replace(pod.mirror, phase=after, status=f'{{"phase":"{after}"}}'.encode())
            self.put_pod(replace(pod, mirror=shown))

    def _pod_deleted(self, key: PodKey) -> None:
        if key in self.pods:
            self.remove_pod(key)

    def _other(self, key: PodKey) -> None:
        """A pod of others; sometimes one that was a SharePod's and was orphaned."""
        if key not in self.pods:
            uid = PodUid(f"o{self.next()}")
            marked = self.rng.random() < 0.3
            field_hashes = _template("a").field_hashes if marked else ()
            self.put_pod(PodBehind(key=key, uid=uid, is_marked=marked, field_hashes=field_hashes))


def _template(word: str) -> SharePodTemplate:
    return SharePodTemplate(manifest=word.encode(), field_hashes=(("spec.containers", word),))
