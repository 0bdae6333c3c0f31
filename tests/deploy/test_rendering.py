"""What the chart renders: correct for a real API server, whatever the values say."""

import argparse
import json
from base64 import b64encode
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import yaml

from kubeshare_cmd.device_options import add_device_options, chosen_devices
from kubeshare_cmd.hami_options import add_hami_options, chosen_hami
from kubeshare_plugins import IN_TREE
from kubeshare_py.configuration.scheduler import read
from kubeshare_py.edges.node.card_child import CDI, GEMINI
from kubeshare_py.edges.node.card_child import MPS as MPS_ALIVE
from kubeshare_py.edges.node.card_sampler import MEMORY_VARIABLE
from kubeshare_py.edges.node.kubelet.container_starts import GivenFiles
from kubeshare_py.edges.node.mps_launcher import proofs_of
from kubeshare_py.edges.scheduler.configuration_file import load
from kubeshare_py.framework.profile_making import profiles
from kubeshare_py.isolation.backends import ALIVE, MPS
from kubeshare_py.isolation.backends import BACKENDS as ALL_BACKENDS
from kubeshare_py.node_agent.devices import KNOWN
from kubeshare_py.node_agent.hami_core import LOCKS, HamiCoreSettings
from kubeshare_py.node_agent.readings import memory_rules
from kubeshare_py.programs.mps import FOLDER
from tests.controlplane.helm import CHART, NAMESPACE, helm, plain_manifests, template
from tests.controlplane.operator_kinds import KINDS, definitions
from tests.controlplane.running import ControlPlane
from tests.controlplane.shipped import MANIFESTS, Json
from tests.deploy.conftest import NAME, kubectl

pytestmark = pytest.mark.real_only("it needs Helm, which make e2e builds")

SUBJECT = '[{"kind": "Group", "name": "researchers", "apiGroup": "rbac.authorization.k8s.io"}]'
CARDS = (
    '{"nodes": [{"names": ["n*"], "cards": [{"model": "A100", "memory": "40GiB", "count": 8}]}]}'
)
BACKENDS = '[{"isolation": ["driver", "none"]}, {"schedulerName": "b"}]'
HALVES = (
    '[{"name": "halves", "resources": ["example.com/half"], "labels": ["example.com/kind"],'
    ' "annotations": ["example.com/how"], "prefixes": ["keys.example.com/"],'
    ' "contested": ["nvidia.com/gpu"], "resultKeys": ["example.com/cards"],'
    ' "devicePluginKeys": {"example.com/ok": "kube-system/halves-plugin"}},'
    ' {"name": "off", "givesWay": true}]'
)
NEWEST = "v1.36.3"
#: Every value at least once as it is not by default, in sets that go together.
VARIANTS = {
    "names demanded": [
        'admission.schedulerName="demand"',
        "admission.validate=false",
        'config.profiles=[{"schedulerName": "b"}, {"schedulerName": "a"}]',
    ],
    "names ignored": ['admission.schedulerName="ignore"'],
    "other names": [
        'name="gpu-scheduler"',
        'labels={"team": "a"}',
        'podAnnotations={"a": "b"}',
        'image={"repository": "registry.example.com/x", "tag": "v1"}',
        'imagePullSecrets=[{"name": "pull"}]',
        'config.profiles=[{"schedulerName": "a"}, {}]',
        'config.server={"bindAddress": "::", "port": 8443}',
        "replicas=3",
        'collector.name="cards"',
        'collector.podAnnotations={"a": "b"}',
    ],
    "strict": [
        'podAntiAffinity="required"',
        'admission.allowVariables=["NVIDIA_GDS"]',
        "networkPolicies.enabled=true",
        'networkPolicies.apiServers=[{"ipBlock": {"cidr": "10.0.0.0/28"}}]',
        'networkPolicies.scrapers=[{"namespaceSelector": {}}]',
        'tolerations=[{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}]',
        'nodeSelector={"pool": "system"}',
        'priorityClassName="system-node-critical"',
        'certificateSecret="of-scheduler"',
        'apiService.caBundle="-----BEGIN CERTIFICATE-----"',
        'extraVolumes=[{"name": "token", "secret": {"secretName": "prometheus"}}]',
        'extraVolumeMounts=[{"name": "token", "mountPath": "/etc/prometheus"}]',
        'config.inventory.bearerTokenFile="/etc/prometheus/token"',
        f'image.digest="sha256:{"0" * 64}"',
        'logLevel="debug"',
        "eventLog.enabled=true",
        'eventLog.existingClaim="events"',
        'eventLog.size="20Gi"',
        f"readers={SUBJECT}",
        f"scrapers={SUBJECT}",
        "collector.migMonitor=true",
        'collector.memory={"GB10": "80%"}',
        'collector.runtimeClassName=""',
        'collector.image={"repository": "registry.example.com/collector", "tag": "v1"}',
        "collector.affinity=null",
        'collector.nodeSelector={"pool": "gpu"}',
        'collector.tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists"}]',
        'collector.priorityClassName="system-cluster-critical"',
        "collector.maxUnavailable=1",
        'collector.extraEnv=[{"name": "LD_LIBRARY_PATH", "value": "/usr/local/nvidia/lib64"}]',
        'collector.extraVolumes=[{"name": "driver", "hostPath": {"path": "/home/nvidia"}}]',
        'collector.extraVolumeMounts=[{"name": "driver", "mountPath": "/usr/local/nvidia"}]',
    ],
    "little": [
        "replicas=1",
        "config.leaderElection.leaderElect=false",
        f"cards={CARDS}",
        'config.inventory.source="file"',
        "policies.results=false",
        "policies.token=false",
        "apiService.enabled=false",
        'admission.by="none"',
        "flowSchemas=false",
        "resources=null",
        "collector.enabled=false",
        "config.parallelBinds=8",
        'config.nativeResources=["nvshare.com/gpu", "example.com/mig-*"]',
    ],
    "for kube-scheduler and HAMi's dashboards": [
        "extender.enabled=true",
        "extender.nodePort=31998",
        'extender.certificateSecret="of-extender"',
        "extender.clientCertificates=true",
        "hamiMetrics.enabled=true",
        "hamiMetrics.nodePort=31994",
        "hamiMetrics.legacy=true",
        'config.profiles=[{}, {"schedulerName": "hami-scheduler", "extender": true}]',
        "networkPolicies.enabled=true",
        'networkPolicies.apiServers=[{"ipBlock": {"cidr": "10.0.0.0/28"}}]',
        'networkPolicies.scrapers=[{"namespaceSelector": {}}]',
        'networkPolicies.extenders=[{"ipBlock": {"cidr": "10.0.1.0/28"}}]',
    ],
    "watched": [
        "serviceMonitor.enabled=true",
        'serviceMonitor.labels={"release": "prometheus"}',
        'serviceMonitor.interval="30s"',
        'certificateSecret="of-scheduler"',
        'serviceMonitor.tlsConfig={"serverName": "kubeshare-scheduler"}',
        "prometheusRule.enabled=true",
        'prometheusRule.labels={"release": "prometheus"}',
        'collector.name="cards"',
        "sharePods.enabled=true",
    ],
    "with boards": [
        "grafana.enabled=true",
        'grafana.labels={"grafana_dashboard": "ours"}',
        'grafana.annotations={"grafana_folder": "GPUs"}',
        'labels={"team": "a"}',
    ],
    "watched by pods": [
        "podMonitor.enabled=true",
        'podMonitor.labels={"release": "prometheus"}',
        'podMonitor.tokenSecret={"name": "prometheus", "key": "bearer"}',
        'name="gpu-scheduler"',
        "sharePods.enabled=true",
    ],
    "with MPS": [
        "mps.enabled=true",
        'mps.resources={"limits": {"memory": "2Gi"}}',
        'config.profiles=[{"isolation": ["mps", "none"]}]',
        'collector.extraEnv=[{"name": "LD_LIBRARY_PATH", "value": "/usr/local/nvidia/lib64"}]',
        'collector.extraVolumes=[{"name": "driver", "hostPath": {"path": "/home/nvidia"}}]',
        'collector.extraVolumeMounts=[{"name": "driver", "mountPath": "/usr/local/nvidia"}]',
        'collector.nodeSelector={"pool": "gpu"}',
        'imagePullSecrets=[{"name": "pull"}]',
        'labels={"team": "a"}',
    ],
    "with a node agent": [
        "nodeAgent.enabled=true",
        "nodeAgent.podResources=false",
        "nodeAgent.resources=null",
        'nodeAgent.podAnnotations={"a": "b"}',
        "networkPolicies.enabled=true",
        'networkPolicies.apiServers=[{"ipBlock": {"cidr": "10.0.0.0/28"}}]',
        "aggregator.enabled=true",
        'aggregator.resources={"limits": {"memory": "1Gi"}}',
        "serviceMonitor.enabled=true",
        'serviceMonitor.labels={"release": "prometheus"}',
        'imagePullSecrets=[{"name": "pull"}]',
    ],
    "with a dashboard": [
        "dashboard.enabled=true",
        'dashboard.certificateSecret="page-tls"',
        'dashboard.resources={"limits": {"memory": "2Gi"}}',
        "networkPolicies.enabled=true",
        'networkPolicies.apiServers=[{"ipBlock": {"cidr": "10.0.0.0/28"}}]',
        'networkPolicies.viewers=[{"podSelector": {"matchLabels": {"app": "ingress"}}}]',
        'imagePullSecrets=[{"name": "pull"}]',
        'nodeSelector={"pool": "system"}',
        'tolerations=[{"operator": "Exists"}]',
    ],
    "with device plugins": [
        "nodeAgent.enabled=true",
        'nodeAgent.devices=["aliyun.com/gpu-mem", "nvidia.com/gpu"]',
        'nodeAgent.memoryUnit="MiB"',
        'nodeAgent.migStrategy="mixed"',
        'collector.extraVolumes=[{"name": "driver", "hostPath": {"path": "/home/nvidia"}}]',
        'collector.extraVolumeMounts=[{"name": "driver", "mountPath": "/usr/local/nvidia"}]',
    ],
    "with SharePods": [
        "sharePods.enabled=true",
        'sharePods.schedulerName="gpu-scheduler"',
        'sharePods.resources={"limits": {"memory": "1Gi"}}',
        "networkPolicies.enabled=true",
        'networkPolicies.apiServers=[{"ipBlock": {"cidr": "10.0.0.0/28"}}]',
        'imagePullSecrets=[{"name": "pull"}]',
        'tolerations=[{"operator": "Exists"}]',
    ],
    "with HAMi-core": [
        "nodeAgent.enabled=true",
        'nodeAgent.devices=["nvidia.com/gpu"]',
        "nodeAgent.gpuSlices=10",
        "nodeAgent.hamiCore.enabled=true",
        'nodeAgent.hamiCore.hookPath="/opt/hami/"',
        'nodeAgent.hamiCore.corePolicy="force"',
        "nodeAgent.hamiCore.oversubscribe=true",
        'nodeAgent.hamiCore.logLevel="3"',
        'nodeAgent.hamiCore.priorityResource="example.com/rank"',
        'nodeAgent.hamiCore.initContainers=[{"name": "library", "image": "hami-core",'
        ' "volumeMounts": [{"name": "vgpu", "mountPath": "/vgpu"}]}]',
        "nodeAgent.hamiCore.metrics.enabled=true",
        "nodeAgent.hamiCore.metrics.legacy=true",
        'config.profiles=[{"isolation": ["hami-core"]}]',
    ],
    "with Gemini": [
        "nodeAgent.enabled=true",
        "nodeAgent.gemini.enabled=true",
        'nodeAgent.gemini.resources={"limits": {"memory": "1Gi"}}',
        'nodeAgent.gemini.initContainers=[{"name": "programs", "image": "gemini",'
        ' "volumeMounts": [{"name": "programs", "mountPath": "/programs"}]}]',
        'config.profiles=[{"isolation": ["gemini", "none"]}]',
        'collector.extraVolumes=[{"name": "driver", "hostPath": {"path": "/home/nvidia"}}]',
        'collector.extraVolumeMounts=[{"name": "driver", "mountPath": "/usr/local/nvidia"}]',
        'collector.extraEnv=[{"name": "LD_LIBRARY_PATH", "value": "/usr/local/nvidia/lib64"}]',
        'imagePullSecrets=[{"name": "pull"}]',
    ],
    "seen isolation": [
        'config.profiles=[{"isolation": ["driver", "mps"]},'
        ' {"schedulerName": "b", "isolation": ["gemini"]}]',
        "mps.external=true",
    ],
    "isolation that is not seen": [
        'config.profiles=[{"isolation": ["driver", "mps", "gemini"]}]',
        "collector.watchIsolation=false",
        "mps.external=true",
    ],
    "cards on their nodes": [
        'config.inventory.source="annotation"',
        "collector.annotateNode=true",
    ],
    "cards of HAMi's device plugins": [
        'config.inventory={"source": "hami", "pluginResource": "hami.io/gpu"}',
        "collector.enabled=false",
    ],
    "plugins, authorities and selectors of one's own": [
        'extraPlugins=["PriceOfPower"]',
        """config.inventory={"source": "scrape", "podSelector": "app=cards,tier in (a, b),!old",
        "scheme": "https", "caFile": "/etc/ssl/certs/ca-certificates.crt", "namespace": "gpu",
        "bearerTokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token",
        "selector": "job=~'kubeshare.*', zone!=`a`,", "url": "https://[::1]:9090/prometheus"}""",
        'config.leaderElection={"leaseDuration": "1m30s", "renewDeadline": "1m"}',
        """config.profiles=[{"isolation": ["driver"], "gpuCapacities": {"A100": 312},
        "plugins": {"score": {"disabled": [{"name": "*"}], "enabled": [{"name": "Random"}]}},
        "pluginConfig": [{"name": "Random", "args": {"seed": 1}}]}]""",
    ],
    "dialects of one's own": [
        f"extraDialects={HALVES}",
        'config.profiles=[{"dialects": [{"name": "sharedgpu", "requireNodeLabel": true},'
        ' {"name": "halves", "args": {}}]}]',
        'admission.dialectPods="all"',
        "admission.contestedPods=true",
    ],
    "pods of HAMi": [
        'config.profiles=[{"schedulerName": "hami-scheduler", "dialects": [{"name": "sharedgpu"},'
        ' {"name": "hami", "args": {"count": "example.com/cards", "default_gpu_num": 0}}]}, {}]',
        "admission.contestedPods=true",
    ],
    "with privileged MPS": [
        "mps.enabled=true",
        "mps.privileged=true",
        'collector.runtimeClassName=""',
        "collector.affinity=null",
        'collector.image={"repository": "registry.example.com/collector", "tag": "v1"}',
    ],
    "told by policy": [
        'admission.by="policy"',
        "admission.others=true",
        f"config.profiles={BACKENDS}",
    ],
    "told by webhook": [
        'admission.by="webhook"',
        "admission.others=true",
        "admission.replicas=3",
        "admission.resources=null",
    ],
    "told by webhook with a certificate": [
        'admission.by="webhook"',
        'admission.certificateSecret="of-admission"',
        'admission.injectCaFrom="kube-system/of-admission"',
        'certificateSecret="of-scheduler"',
        'apiService.injectCaFrom="kube-system/of-scheduler"',
    ],
}


def rendered(*settings: str) -> list[Json]:
    text = template(*(f"--set-json={setting}" for setting in settings))
    return [one for one in yaml.safe_load_all(text) if one]


def of(objects: list[Json], kind: str) -> list[Json]:
    return [one for one in objects if one["kind"] == kind]


def refused(*settings: str, kubernetes: str = NEWEST) -> str:
    """What Helm says to these values."""
    values = (f"--set-json={setting}" for setting in settings)
    done = helm("template", CHART, f"--kube-version={kubernetes}", *values)
    assert done.returncode != 0, done.stdout
    return done.stderr


@pytest.fixture(autouse=True)
def built(bare: ControlPlane) -> None:
    """Helm is there."""


def test_helm_finds_nothing_wrong() -> None:
    done = helm("lint", "--strict", CHART)
    assert done.returncode == 0, done.stdout


def test_the_plain_manifests_are_the_charts_defaults() -> None:
    assert MANIFESTS.read_text() == plain_manifests(), "out of date: make manifests"


@pytest.fixture(scope="module")
def with_operator(bare: ControlPlane) -> Iterator[ControlPlane]:
    """The control plane serves the Prometheus operator's kinds too."""
    files = definitions()
    for file in files:
        bare.create(file)
    for kind in KINDS:
        path = f"/apis/monitoring.coreos.com/v1/{kind}"
        bare.server.wait_until(partial(bare.has, path), timeout_s=30)
    yield bare
    for file in files:
        bare.delete(file)


@pytest.mark.parametrize("settings", [[], *VARIANTS.values()], ids=["defaults", *VARIANTS])
async def test_a_real_api_server_accepts_every_object(
    with_operator: ControlPlane, settings: list[str]
) -> None:
    objects = rendered(*settings)
    text = yaml.safe_dump_all(objects)
    dry = ("apply", "--server-side", "--dry-run=server", "--validate=strict", "--filename=-")
    said = await kubectl(with_operator, *dry, given=text, silent=True)
    assert len(said.splitlines()) == len(objects)


@pytest.mark.parametrize("settings", [[], *VARIANTS.values()], ids=["defaults", *VARIANTS])
def test_the_scheduler_can_use_every_configuration(settings: list[str], tmp_path: Path) -> None:
    [made] = [
        one for one in of(rendered(*settings), "ConfigMap") if "scheduler.yaml" in one["data"]
    ]
    (tmp_path / "scheduler.yaml").write_text(made["data"]["scheduler.yaml"])
    assert profiles(load(str(tmp_path / "scheduler.yaml")), IN_TREE)


def results_policy(*settings: str) -> str:
    """All that the policy of result annotations computes."""
    policies = of(rendered(*settings), "ValidatingAdmissionPolicy")
    [made] = [one["spec"] for one in policies if one["metadata"]["name"] == "kubeshare-pods"]
    return "\n".join(one["expression"] for one in [*made["variables"], *made["validations"]])


def test_results_of_enabled_dialects_are_guarded_and_their_plugins_write_their_own() -> None:
    text = results_policy(*VARIANTS["dialects of one's own"])
    assert '["example.com/cards","example.com/ok"]' in text
    account = "system:serviceaccount:kube-system:halves-plugin"
    assert f'{{"example.com/ok":"{account}"}}' in text
    for settings in ([], [f"extraDialects={HALVES}"]):
        assert "example.com" not in results_policy(*settings)
        assert account not in results_policy(*settings)


def test_hamis_pods_are_admitted_by_what_their_dialect_is_configured_with() -> None:
    kinds = ("MutatingAdmissionPolicy", "ValidatingAdmissionPolicy")

    def policies(*settings: str) -> dict[str, str]:
        made = rendered(*settings)
        specs = [(kind, str(one["spec"])) for kind in kinds for one in of(made, kind)]
        return {kind: spec for kind, spec in specs if "'hamiSettings'" in spec}

    assert policies() == {}
    own = VARIANTS["pods of HAMi"]
    found = policies(*own)
    assert found.keys() == {*kinds}
    for text in found.values():
        assert '"count":"example.com/cards","default_gpu_num":"0"' in text
        assert '"memory":"nvidia.com/gpumem"' in text
    assert policies(*own, 'admission.by="webhook"').keys() == {"ValidatingAdmissionPolicy"}
    assert policies(*own, 'admission.by="none"') == {}


def test_with_device_plugins_results_of_all_our_dialects_are_guarded() -> None:
    """The agent reads what former schedulers wrote, also where no profile enables their dialect."""
    alone = ['config.profiles=[{"dialects": [{"name": "sharedgpu"}]}]']
    served = ["nodeAgent.enabled=true", 'nodeAgent.devices=["nvidia.com/gpu"]']
    forged = ("ALIYUN_COM_GPU_MEM_IDX", "elasticgpu.io/container-")
    assert not any(key in results_policy(*alone) for key in forged)
    assert all(key in results_policy(*alone, *served) for key in forged)


def test_a_dialect_that_is_not_known_is_refused() -> None:
    assert (
        "config.profiles[1].dialects[0].name: no dialect hamy; there are all, cambricon, "
        in refused('config.profiles=[{}, {"schedulerName": "b", "dialects": [{"name": "hamy"}]}]')
    )


def test_other_dialects_start_new_schedulers() -> None:
    def fixed(*settings: str) -> str:
        [made] = [one for one in of(rendered(*settings), "Deployment") if NAME in str(one)][:1]
        found: str = made["spec"]["template"]["metadata"]["annotations"][
            "kubeshare.io/fixed-configuration"
        ]
        return found

    assert fixed() != fixed(*VARIANTS["dialects of one's own"])


def api_services(*settings: str) -> list[Json]:
    return of(rendered(*settings), "APIService")


def test_an_event_log_is_bounded_and_in_a_volume_of_its_own() -> None:
    def scheduler(*settings: str) -> Json:
        [made] = [one for one in of(rendered(*settings), "Deployment") if NAME in str(one)][:1]
        found: Json = made["spec"]["template"]["spec"]
        return found

    assert "event-log" not in str(scheduler())
    bounded = scheduler("eventLog.enabled=true", 'eventLog.size="2Gi"')
    [container] = bounded["containers"]
    place, size = "/var/lib/kubeshare/events", "2Gi"
    assert container["args"][-4:] == ["--event-log", place, "--event-log-size", size]
    assert {"name": "event-log", "mountPath": place} in container["volumeMounts"]
    assert {"name": "event-log", "emptyDir": {}} in bounded["volumes"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    claimed = scheduler("eventLog.enabled=true", 'eventLog.existingClaim="events"')
    volume = {"name": "event-log", "persistentVolumeClaim": {"claimName": "events"}}
    assert volume in claimed["volumes"]


def test_the_api_service_leads_to_the_schedulers_service() -> None:
    [found] = api_services('name="ours"', "config.server.port=8443")
    assert found["spec"]["service"] == {"name": "ours", "namespace": NAMESPACE, "port": 8443}
    # The scheduler says itself whom to trust, and is never trusted blindly.
    assert not {"caBundle", "insecureSkipTLSVerify"} & found["spec"].keys()


def test_whoever_brings_a_certificate_says_whom_to_trust() -> None:
    given = 'certificateSecret="of-scheduler"'
    [found] = api_services(given, 'apiService.caBundle="PEM"')
    assert found["spec"]["caBundle"] == b64encode(b"PEM").decode()
    [found] = api_services(given, 'apiService.injectCaFrom="a/b"')
    assert found["metadata"]["annotations"] == {"cert-manager.io/inject-ca-from": "a/b"}
    assert "certificateSecret" in refused('apiService.injectCaFrom="a/b"')
    assert "certificateSecret" in refused('apiService.caBundle="PEM"')


def test_without_an_api_service_there_are_no_rights_for_it() -> None:
    text = template("--set=apiService.enabled=false")
    for word in ("apiservices", "extension-apiserver-authentication", "kind: APIService"):
        assert word not in text
    assert "apiService: false" in text
    assert "apiservices" not in template("--set=certificateSecret=of-scheduler")


def test_values_that_do_not_exist_or_cannot_be_are_refused() -> None:
    for setting in ("replica=3", "config.server.service=1", "replicas=0", 'image.tags="x"'):
        assert "values don't meet the specifications of the schema" in refused(setting)
    assert "for one replica" in refused("config.leaderElection.leaderElect=false")
    assert "which cards there are" in refused('config.inventory.source="file"')


NO_PLUGIN = "no plugin Sprad; there are AvoidGpuNodes, BinPack, Coscheduling, "


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ('profiles=[{"plugin": {}}]', "at '/config/profiles/0': additional properties 'plugin'"),
        (
            'profiles=[{"plugins": {"scores": {}}}]',
            "at '/config/profiles/0/plugins': additional properties 'scores' not allowed",
        ),
        (
            'profiles=[{}, {"isolation": ["nones"]}]',
            "at '/config/profiles/1/isolation/0': value must be one of 'driver', 'gemini', ",
        ),
        (
            'profiles=[{"plugins": {"score": {"enabled": [{"name": "Sprad"}]}}}]',
            f"config.profiles[0].plugins.score.enabled[0].name: {NO_PLUGIN}",
        ),
        (
            'profiles=[{"plugins": {"filter": {"disabled": [{"name": "Sprad"}]}}}]',
            f"config.profiles[0].plugins.filter.disabled[0].name: {NO_PLUGIN}",
        ),
        (
            'profiles=[{"pluginConfig": [{"name": "Sprad"}]}]',
            f"config.profiles[0].pluginConfig[0].name: {NO_PLUGIN}",
        ),
        (
            "profiles=[{}, {}]",
            "config.profiles[1].schedulerName: kubeshare-scheduler is there twice",
        ),
        (
            'profiles=[{"isolation": ["none", "mps"]}]',
            "config.profiles[0].isolation[1]: mps: needs its daemons on the nodes: mps.enabled",
        ),
        (
            'inventory.source="annotation"',
            "config.inventory.source: annotation: needs collector.annotateNode=true",
        ),
        (
            'inventory.url="prometheus:9090"',
            "config.inventory.url: must be a URL such as http://prometheus-k8s.monitoring:9090, not"
            ' "prometheus:9090"',
        ),
        (
            'inventory.selector="job="',
            "config.inventory.selector: must be conditions on labels as in PromQL between { and },"
            """ such as job="kubeshare-collector", not "job=\"""",
        ),
        (
            'inventory.podSelector="a in (b"',
            "config.inventory.podSelector: must be a label selector such as app=collector,tier in"
            ' (gpu,cpu),!old, not "a in (b"',
        ),
        (
            'inventory.namespace="GPU"',
            "config.inventory.namespace: must be the name of a namespace, such as kube-system, not",
        ),
        (
            'inventory.bearerTokenFile="/etc/prometheus/token"',
            "config.inventory.bearerTokenFile: /etc/prometheus/token: no such file in the pods",
        ),
        ('inventory.caFile="/ca"', "config.inventory.caFile: /ca: no such file in the pods"),
        ('server.tokenFile="/tokens"', "config.server.tokenFile: /tokens: no such file in the"),
        (
            'inventory.cellsFile="cells.yaml"',
            "config.inventory.cellsFile: must be the whole path of a file in the pods, such as",
        ),
        *(
            (
                f"leaderElection.leaseDuration={given}",
                "config.leaderElection.leaseDuration: must be a duration such as 15s, 1m30s or"
                ' 500ms, not "15"',
            )
            for given in ("15", '"15"')
        ),
        (
            'leaderElection.leaseDuration="10m1s"',
            'config.leaderElection.leaseDuration: must be at most 10m, not "10m1s"',
        ),
        ("server.port=99999", "at '/config/server/port': maximum: got 99,999, want 65,535"),
    ],
)
def test_a_configuration_that_the_scheduler_could_not_use_is_refused_with_its_path(
    setting: str, said: str
) -> None:
    assert said in refused(f"config.{setting}")


def test_a_folder_that_is_mounted_holds_files_and_one_beside_it_does_not() -> None:
    mount = 'extraVolumeMounts=[{"name": "token", "mountPath": "/etc/prometheus/"}]'
    template(
        f"--set-json={mount}", "--set=config.inventory.bearerTokenFile=/etc/prometheus/x/token"
    )
    alone = '--set-json=extraVolumeMounts=[{"name": "token", "mountPath": "/token"}]'
    template(alone, "--set=config.inventory.bearerTokenFile=/token")
    beside = 'config.inventory.bearerTokenFile="/etc/prometheus-2/token"'
    assert "no such file in the pods" in refused(mount, beside)


def test_what_others_run_is_not_asked_for() -> None:
    assert template("--set=config.inventory.source=annotation,collector.enabled=false")
    assert template(
        "--set=mps.external=true", '--set-json=config.profiles=[{"isolation": ["mps"]}]'
    )


def test_the_collector_has_the_schedulers_image_or_one_of_its_own() -> None:
    def image(*settings: str) -> str:
        [daemons] = of(rendered(*settings), "DaemonSet")
        [container] = daemons["spec"]["template"]["spec"]["containers"]
        return str(container["image"])

    both = 'image={"repository": "r/x", "tag": "v1", "digest": ""}'
    assert image(both) == "r/x:v1"
    assert image(both, 'collector.image.repository="r/y"') == "r/y:0.1.0"
    assert "schema" in refused('collector.image.tag="v2"')


def test_mig_monitoring_is_asked_of_nvidias_runtime_together_with_the_right_to_it() -> None:
    [daemons] = of(rendered("collector.migMonitor=true"), "DaemonSet")
    [container] = daemons["spec"]["template"]["spec"]["containers"]
    assert {"name": "NVIDIA_MIG_MONITOR_DEVICES", "value": "all"} in container["env"]
    assert container["securityContext"] == {
        "capabilities": {"drop": ["ALL"], "add": ["SYS_ADMIN"]},
        "readOnlyRootFilesystem": True,
    }


def test_every_program_that_reads_cards_knows_the_memory_of_those_that_use_the_nodes() -> None:
    settings = (
        'collector.memory={"NVIDIA GB10": "80%", "Orin": "24Gi"}',
        'config.profiles=[{"isolation": ["mps", "gemini"]}]',
        "mps.enabled=true",
        "nodeAgent.enabled=true",
    )
    daemons = of(rendered(*settings), "DaemonSet")
    readers = [
        {entry["name"]: entry.get("value") for entry in container["env"]}
        for daemon in daemons
        for container in daemon["spec"]["template"]["spec"]["containers"]
        if any(entry["name"] == "NVIDIA_VISIBLE_DEVICES" for entry in container.get("env", []))
    ]
    assert len(readers) > 2
    told = {env[MEMORY_VARIABLE] for env in readers}
    assert told == {"NVIDIA GB10=80%,Orin=24Gi"}
    assert len(memory_rules(told.pop() or "", 2**37)) == 2
    for wrong in ('{"GB10": 80}', '{"GB10": "80"}', '{"a,b": "80%"}'):
        assert "schema" in refused(f"collector.memory={wrong}")


def folders(variant: str) -> dict[str, str]:
    """The node's folders that collectors see, by the volume's name."""
    daemons = of(rendered(*VARIANTS[variant]), "DaemonSet")[0]
    spec = daemons["spec"]["template"]["spec"]
    [container] = spec["containers"]
    mounts = {one["name"]: one for one in container.get("volumeMounts", ())}
    found = {
        one["name"]: one["hostPath"]["path"]
        for one in spec.get("volumes", ())
        if mounts[one["name"]].get("readOnly")
    }
    assert all(mounts[name]["mountPath"] == path for name, path in found.items())
    return found


def test_collectors_see_the_folders_of_the_back_ends_that_are_used_and_no_others() -> None:
    assert folders("seen isolation") == {
        "cdi": f"/{CDI[0]}",
        "gemini": f"/{GEMINI}",
        "mps-alive": f"/{MPS_ALIVE}",
    }
    assert folders("with MPS") == {"mps-alive": ALIVE}
    assert folders("isolation that is not seen") == folders("watched") == {}


def test_no_folder_of_a_pod_is_made_by_who_only_looks() -> None:
    mounted = {volume.path for backend in ALL_BACKENDS.values() for volume in backend.volumes}
    assert len(mounted) == 2
    for path in folders("seen isolation").values():
        assert not any(Path(path).is_relative_to(one) for one in mounted)


def test_without_the_collector_there_is_nothing_of_it() -> None:
    objects = rendered("collector.enabled=false")
    assert "collector" not in str([(one["kind"], one["metadata"]) for one in objects])


def mps(*settings: str) -> Json:
    """The spec of the pods of MPS daemons."""
    found = [
        one for one in of(rendered(*settings), "DaemonSet") if "mps" in one["metadata"]["name"]
    ]
    spec: Json = found[0]["spec"]["template"]["spec"]
    return spec


def test_mps_daemons_are_where_the_collectors_are_and_where_pods_look_for_them() -> None:
    collectors, daemons = of(rendered(*VARIANTS["with MPS"]), "DaemonSet")
    spec, beside = (one["spec"]["template"]["spec"] for one in (daemons, collectors))
    for key in ("affinity", "nodeSelector", "tolerations", "runtimeClassName"):
        assert spec[key] == beside[key]
    [folder] = [one["hostPath"]["path"] for one in spec["volumes"] if one["name"] == "daemons"]
    assert {folder} == {one.path for one in MPS.volumes}
    [container] = spec["containers"]
    mounted = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
    assert mounted["daemons"] == folder == str(FOLDER)
    [proofs] = [one["hostPath"]["path"] for one in spec["volumes"] if one["name"] == "alive"]
    assert mounted["alive"] == proofs == str(proofs_of(FOLDER)) == folders("with MPS")["mps-alive"]
    # A new version ends nobody's daemon, and with it his processes.
    assert daemons["spec"]["updateStrategy"] == {"type": "OnDelete"}


def test_mps_daemons_may_mount_and_reach_all_users_clients_and_nothing_else() -> None:
    spec = mps("mps.enabled=true")
    [container] = spec["containers"]
    assert container["securityContext"] == {
        "readOnlyRootFilesystem": True,
        "appArmorProfile": {"type": "Unconfined"},
        "capabilities": {
            "drop": ["ALL"],
            "add": ["SYS_ADMIN", "CHOWN", "DAC_OVERRIDE", "SETGID", "SETUID"],
        },
    }
    assert spec["automountServiceAccountToken"] is False
    assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
    [privileged] = mps(*VARIANTS["with privileged MPS"])["containers"]
    assert privileged["securityContext"] == {"readOnlyRootFilesystem": True, "privileged": True}


def test_without_the_wish_there_is_nothing_of_mps() -> None:
    assert len(of(rendered(), "DaemonSet")) == 1
    named = {one["metadata"]["name"] for one in yaml.safe_load_all(MANIFESTS.read_text()) if one}
    assert "kubeshare-mps" not in named


def test_where_nobody_elects_there_is_no_fence_and_never_a_second_process() -> None:
    objects = rendered(*VARIANTS["little"])
    policies = [one["metadata"]["name"] for one in of(objects, "ValidatingAdmissionPolicy")]
    assert sorted(policies) == ["kubeshare-label-warnings", "kubeshare-pods"]
    [deployment] = of(objects, "Deployment")
    assert deployment["spec"]["strategy"] == {"type": "Recreate"}
    assert deployment["spec"]["replicas"] == 1


def test_cards_by_hand_are_beside_the_configuration_that_names_them() -> None:
    [made] = of(rendered(*VARIANTS["little"]), "ConfigMap")
    path = Path(read(yaml.safe_load(made["data"]["scheduler.yaml"])).inventory.path)
    [deployment] = of(rendered(*VARIANTS["little"]), "Deployment")
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    mounted = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
    assert str(path.parent) == mounted["config"]
    assert yaml.safe_load(made["data"][path.name])["nodes"][0]["names"] == ["n*"]


def test_all_names_follow_the_name_and_the_namespace() -> None:
    # Policies about pods name the profiles' schedulerNames and say whose work they guard.
    text = template(
        "--set=name=other,admission.by=none,admission.validate=false",
        "--set=admission.schedulerName=ignore,policies.token=false",
        "--namespace=gpu",
    )
    said = [one for one in yaml.safe_load_all(text) if one]
    [deployment] = of(said, "Deployment")
    assert deployment["metadata"]["namespace"] == "gpu"
    # The image's and the profile's names, and those that exist once in a cluster.
    left = text.replace("kubeshare-scheduler:0.1.0", "").replace("only kubeshare-scheduler", "")
    lines = [line for line in left.splitlines() if NAME in line and not line.startswith("#")]
    assert [one for one in lines if "schedulerName" not in one] == ["  name: kubeshare-scheduler"]
    # Who calls an APIService is written down in kube-system, for all of them; former schedulers,
    # which may go on writing their results, were installed there.
    elsewhere = {one["metadata"]["name"] for one in said if "kube-system" in yaml.safe_dump(one)}
    assert elsewhere <= {"other-front-proxy", "kubeshare-pods"}


def test_the_token_of_another_name_is_limited_to_the_pods_of_all_profiles() -> None:
    objects = rendered('config.profiles=[{"schedulerName": "b"}, {}]', 'name="other"')
    made = {one["metadata"]["name"]: one for one in of(objects, "ValidatingAdmissionPolicy")}
    bound = {one["metadata"]["name"] for one in of(objects, "ValidatingAdmissionPolicyBinding")}
    limits = {name for name in made if name.startswith("kubeshare-token-")}
    assert len(limits) == 3
    assert limits <= bound
    for name in limits:
        text = yaml.safe_dump(made[name]["spec"], width=10_000)
        assert "'system:serviceaccount:kube-system:other'" in text
    for name in ("kubeshare-pods", "kubeshare-token-deletions"):
        text = yaml.safe_dump(made[name]["spec"], width=10_000)
        assert 'spec.schedulerName in ["b","kubeshare-scheduler"]' in text


@pytest.mark.parametrize(
    "setting", ['certificateSecret="of-scheduler"', "apiService.enabled=false"]
)
def test_without_a_right_to_the_api_service_no_policy_limits_it(setting: str) -> None:
    more = ('apiService.caBundle="-----BEGIN CERTIFICATE-----"',) if "Secret" in setting else ()
    objects = rendered(setting, *more)
    names = {one["metadata"]["name"] for one in of(objects, "ValidatingAdmissionPolicy")}
    assert "kubeshare-token-deletions" in names
    assert "kubeshare-token-apiservice" not in names


def test_the_webhook_has_no_rights_when_somebody_else_sees_to_its_certificate() -> None:
    own, given = (
        rendered(*VARIANTS[f"told by webhook{how}"]) for how in ("", " with a certificate")
    )
    names = [one["metadata"]["name"] for one in (*of(given, "ClusterRole"), *of(given, "Role"))]
    assert "kubeshare-admission" not in names
    [role] = [one for one in of(own, "ClusterRole") if "admission" in one["metadata"]["name"]]
    assert role["rules"] == [
        {
            "apiGroups": ["admissionregistration.k8s.io"],
            "resources": ["mutatingwebhookconfigurations"],
            "resourceNames": ["kubeshare-admission"],
            "verbs": ["get", "patch"],
        }
    ]
    [hooks] = of(given, "MutatingWebhookConfiguration")
    annotations = hooks["metadata"]["annotations"]
    assert annotations == {"cert-manager.io/inject-ca-from": "kube-system/of-admission"}


def test_a_certificate_of_cert_managers_is_in_the_pods_and_its_authority_is_not_ours_to_say() -> (
    None
):
    objects = rendered(*VARIANTS["told by webhook with a certificate"])
    [deployment] = [
        one for one in of(objects, "Deployment") if one["metadata"]["name"] == "kubeshare-admission"
    ]
    spec = deployment["spec"]["template"]["spec"]
    [container] = spec["containers"]
    [secret] = [one["secret"] for one in spec["volumes"] if "secret" in one]
    assert secret["secretName"] == "of-admission"
    [folder] = [one for one in container["volumeMounts"] if one["name"] == "certificate"]
    for name in ("tls.crt", "tls.key"):
        assert any(one.endswith(f"={folder['mountPath']}/{name}") for one in container["args"])
    assert spec["automountServiceAccountToken"] is False
    [hooks] = of(objects, "MutatingWebhookConfiguration")
    assert not any("caBundle" in one["clientConfig"] for one in hooks["webhooks"])
    said = refused('admission={"by": "webhook", "injectCaFrom": "a/b"}')
    assert "name the Certificate's Secret in admission.certificateSecret" in said


def test_only_pods_of_ours_wait_for_the_webhook() -> None:
    [hooks] = of(rendered(*VARIANTS["told by webhook"]), "MutatingWebhookConfiguration")
    policies = {one["name"]: one["failurePolicy"] for one in hooks["webhooks"]}
    assert policies == {
        "environment.kubeshare.io": "Fail",
        "dialects.kubeshare.io": "Fail",  # where pods of dialects become ours
        "others.kubeshare.io": "Ignore",
    }


def test_a_variable_that_is_allowed_is_left_alone_by_policy_and_webhook_alike() -> None:
    allow = 'admission.allowVariables=["NVIDIA_GDS"]'
    for settings in ([allow], [allow, *VARIANTS["told by webhook"]]):
        objects = rendered(*settings)
        tellers = [*of(objects, "MutatingAdmissionPolicy"), *of(objects, "Deployment")]
        texts = {one["metadata"]["name"]: yaml.safe_dump(one, width=10_000) for one in tellers}
        if "kubeshare-admission" in texts:
            assert "--allow-variable=NVIDIA_GDS" in texts["kubeshare-admission"]
        else:
            assert """!(one.name in ["NVIDIA_GDS"])""" in texts["kubeshare-environment"]


@pytest.mark.parametrize("by", ["none", "nobody"])
def test_pods_of_others_cannot_be_patched_by_nothing(by: str) -> None:
    said = refused(f'admission={{"by": "{by}", "others": true}}')
    assert "admission.others: true: needs admission.by auto, policy or webhook, not none" in said


@pytest.mark.parametrize("version", ["v1.35.4", "v1.30.0", "v1.35.9-gke.1"])
def test_policies_that_the_cluster_does_not_know_are_refused_with_the_way_out(version: str) -> None:
    said = refused('admission.by="policy"', kubernetes=version)
    assert f"admission.by: policy: this cluster ({version}) does not serve" in said
    assert "use auto or webhook" in said


def mutators(*arguments: str, kubernetes: str = NEWEST) -> set[str]:
    """Kinds of what patches new pods, as a user's Helm renders it without a cluster."""
    text = template(*arguments, kubernetes=kubernetes)
    kinds = {one["kind"] for one in yaml.safe_load_all(text) if one}
    return {one for one in kinds if one.startswith("Mutating") and not one.endswith("Binding")}


POLICY, WEBHOOK = {"MutatingAdmissionPolicy"}, {"MutatingWebhookConfiguration"}


@pytest.mark.parametrize(
    ("by", "kubernetes", "found"),
    [
        *(("auto", version, POLICY) for version in ("v1.36.0", "v1.36.1-eks-abc", "v1.37.0")),
        *(("auto", version, WEBHOOK) for version in ("v1.30.0", "v1.35.4", "v1.35.9-gke.1")),
        *(("policy", version, POLICY) for version in ("v1.36.0", "v1.37.0")),
        *(("webhook", version, WEBHOOK) for version in ("v1.30.0", "v1.36.3")),
        *((by, "v1.36.3", set()) for by in ("none", "nobody")),
    ],
)
def test_pods_are_patched_by_what_the_release_of_kubernetes_has(
    by: str, kubernetes: str, found: set[str]
) -> None:
    assert mutators(f"--set=admission.by={by}", kubernetes=kubernetes) == found
    if by == "auto":
        assert mutators(kubernetes=kubernetes) == found  # the default


def test_what_the_cluster_serves_goes_before_its_version() -> None:
    served = "--api-versions=v1/Pod"
    assert mutators(served) == WEBHOOK
    kind = "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy"
    assert mutators(f"{served},{kind}", kubernetes="v1.35.4") == POLICY


def test_where_nothing_patches_pods_nothing_refuses_those_that_are_not_patched() -> None:
    for by in ("none", "nobody"):
        text = template(f"--set=admission.by={by}")
        assert "kubeshare-environment" not in text
        assert "kubeshare-ephemeral" not in text


def notes(by: str, *more: str) -> str:
    """What Helm says after an installation."""
    done = helm("install", "k", CHART, "--dry-run=client", f"--set=admission.by={by}", *more)
    assert done.returncode == 0, done.stderr
    return done.stdout.partition("NOTES:")[2]


def test_all_dialects_are_those_that_a_profile_may_list_for_nvidias_cards() -> None:
    """Policies, webhook and rules are the same; only the scheduler's own file differs."""
    names = ("sharedgpu", "gpushare", "nano-gpu", "sharepod", "hami", "nvidia")
    rendered = []
    for listed in (("all",), names):
        profile = json.dumps([{"dialects": [{"name": name} for name in listed]}])
        text = template(
            "--set=admission.contestedPods=true", f"--set-json=config.profiles={profile}"
        )
        documents = [one for one in yaml.safe_load_all(text) if one]
        rendered.append(
            [one for one in documents if one["kind"] not in ("ConfigMap", "Deployment")]
        )
    assert rendered[0] == rendered[1]
    assert any("nvidia.com/gpumem" in json.dumps(one) for one in rendered[0])


def test_the_notes_say_which_pods_are_taken_and_what_would_take_more() -> None:
    said = notes("policy")
    assert "Its profiles read the dialects sharedgpu, gpushare, nano-gpu, sharepod." in said
    assert "  hami: pods of HAMi and 4paradigm's scheduler\n  nvidia: pods of NVIDIA's" in said
    command = "  helm upgrade k CHART --namespace default --reset-then-reuse-values --set"
    assert f"{command} dialects=all\n" in said
    assert f"{command} 'dialects={{sharedgpu,gpushare,nano-gpu,sharepod,NAME}}'\n" in said
    assert "SharePods become pods with --set sharePods.enabled=true." in said
    assert "kubectl label namespace NAMESPACE kubeshare.io/dialects=true" in said
    every = '--set-json=config.profiles=[{"dialects":[{"name":"sharedgpu"},{"name":"hami"}]}]'
    said = notes("policy", "--set=admission.dialectPods=all", every)
    assert "Its profiles read the dialects sharedgpu, hami." in said
    assert "  nvidia: pods of NVIDIA's device plugin (nvidia.com/gpu)\n" in said
    assert "  hami: " not in said
    assert "stay with kube-scheduler: --set admission.contestedPods=true takes them" in said
    assert "in every namespace without the label kubeshare.io/dialects=false" in said
    assert "admission.dialectPods or admission.schedulerName takes none" in notes("none")
    said = notes("policy", "--set=dialects=all")
    assert (
        "Its profiles read the dialects sharedgpu, gpushare, nano-gpu, sharepod, hami, nv" in said
    )
    assert "Off are" not in said
    assert "contestedPods" not in said
    assert "sharePods.enabled" not in said
    assert "in every namespace without the label kubeshare.io/dialects=false" in said


def test_one_value_chooses_what_three_others_did() -> None:
    """And what these say otherwise wins."""
    by_one = rendered('dialects="all"')
    older = [
        'config.profiles=[{"dialects": [{"name": "all"}]}]',
        'admission.dialectPods="all"',
        "admission.contestedPods=true",
        "sharePods.enabled=true",
    ]
    assert by_one == rendered(*older)
    assert rendered("dialects=[]") == rendered() == rendered("dialects=null")
    labelled = ['admission.dialectPods="namespace"', "sharePods.enabled=false"]
    assert rendered('dialects="all"', *labelled, "admission.contestedPods=false") == rendered(
        older[0], *labelled
    )
    listed = [{"name": name} for name in ("sharedgpu", "hami")]
    assert rendered('dialects=["sharedgpu", "hami"]', "config.profiles=[{}]") == rendered(
        f"config.profiles={json.dumps([{'dialects': listed}])}", *older[1:3]
    )


def test_a_profile_keeps_the_dialects_that_it_lists() -> None:
    profiles = '[{"schedulerName": "a", "dialects": [{"name": "hami"}]}, {"schedulerName": "b"}]'
    made = rendered('dialects=["hami", "gpushare"]', f"config.profiles={profiles}")
    [config] = [one for one in of(made, "ConfigMap") if one["metadata"]["name"] == NAME]
    found = read(yaml.safe_load(config["data"]["scheduler.yaml"])).profiles
    assert [[one.name for one in profile.dialects] for profile in found] == [
        ["hami"],
        ["hami", "gpushare"],
    ]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (['dialects="hamy"'], "dialects: no dialect hamy; there are all, cambricon, gpushare, h"),
        (
            ['dialects="all"', 'config.profiles=[{"dialects": [{"name": "sharedgpu"}]}]'],
            "dialects: all: every profile of config.profiles lists its own dialects, and none lists"
            " gpushare: add it to one of them, or leave `dialects` out of a profile",
        ),
        (
            ['dialects="all"', 'admission.by="none"'],
            "dialects: all: pods that name no scheduler get this one, and admission.by: none gives"
            " them none: choose another, or set admission.dialectPods=none",
        ),
        (
            ['dialects=["hami"]', 'admission.schedulerName="ignore"'],
            "dialects: hami: pods that name no scheduler get this one, and admission.schedulerName:"
            " ignore gives them none",
        ),
        (
            ['dialects="gpushare"', "admission.contestedPods=true"],
            "dialects: gpushare: admission.contestedPods: true: no dialect among them reads such",
        ),
        (
            ['dialects=["sharedgpu", "hami"]', "sharePods.enabled=true"],
            "dialects: sharedgpu, hami: sharePods.enabled: true: needs the dialect sharepod",
        ),
    ],
)
def test_values_that_contradict_the_chosen_dialects_are_refused(
    settings: list[str], said: str
) -> None:
    assert said in refused(*settings)


def test_the_notes_say_what_gives_containers_their_cards() -> None:
    assert "The MutatingAdmissionPolicy kubeshare-environment gives" in notes("policy")
    assert "rollout status deployment/kubeshare-admission" in notes("webhook")
    nothing = notes("none")
    assert "metadata.annotations['sharedgpu/gpu_uuid']" in nothing
    assert "runtimeClassName: nvidia" in nothing
    assert "called none now" not in nothing
    assert nothing in notes("nobody").replace(
        "The value nobody is called none now; the old name is still accepted.\n", ""
    )


def test_the_notes_say_where_cards_come_from() -> None:
    found = "until the Prometheus Operator's Prometheus, if there is one, names all of them"
    assert f"Cards come from the collectors themselves {found}" in notes("policy")
    asked = notes("policy", "--set=config.inventory.url=http://here:9090")
    assert "until the Prometheus at http://here:9090 names all of them" in asked
    alone = notes("policy", "--set=config.inventory.source=prometheus")
    assert "Cards come from http://prometheus-k8s.monitoring:9090 alone" in alone
    for source, place in (("scrape", "the collectors themselves"), ("hami", "HAMi's")):
        said = notes("policy", f"--set=config.inventory.source={source}")
        assert place in said
        assert f"(config.inventory.source: {source})" in said
    assert "No collectors are installed" in notes("policy", "--set=collector.enabled=false")
    # Nodes are seen only by an installation: without a cluster nothing is said of their labels.
    assert "No node has a label" not in notes("policy")


def test_the_notes_say_how_the_image_gets_where_nodes_find_it() -> None:
    said = notes("policy")
    assert "image.repository is not set" in said
    assert "docker push REGISTRY/kubeshare-scheduler:" in said
    assert "image.repository is" not in notes("policy", "--set=image.repository=r.example/k")


def test_the_plain_manifests_say_for_what_they_were_rendered() -> None:
    head = MANIFESTS.read_text().partition("\n---\n")[0]
    assert "Kubernetes 1.36.0 and newer, with admission.by: policy" in head
    [command] = [line for line in head.splitlines() if "helm template" in line]
    arguments = command.removeprefix("#").split()[1:]
    done = helm(*(str(CHART) if one.startswith("deploy/") else one for one in arguments))
    assert "kind: MutatingWebhookConfiguration" in done.stdout


def test_clusters_older_than_the_policies_that_always_come_along_are_refused() -> None:
    assert "incompatible with Kubernetes" in refused(kubernetes="v1.29.0")


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ([], "nvidia"),
        (['collector.runtimeClassName=""'], ""),
        (['admission.runtimeClassName=""'], ""),
        (
            ['collector.runtimeClassName=""', 'admission.runtimeClassName="crun-nvidia"'],
            "crun-nvidia",
        ),
    ],
)
def test_pods_get_the_collectors_runtime_unless_another_one_is_named(
    settings: list[str], expected: str
) -> None:
    by_policy = json.dumps(rendered(*settings, 'admission.by="policy"'))
    by_webhook = json.dumps(rendered(*settings, 'admission.by="webhook"'))
    assert ("/spec/runtimeClassName" in by_policy) is bool(expected)
    assert f"value: '{expected}'" in by_policy or not expected
    assert (f"--runtime-class={expected}" in by_webhook) is bool(expected)


API_SERVER: Json = {"ipBlock": {"cidr": "10.0.0.0/28"}}
SCRAPER: Json = {"podSelector": {}}
NETWORK = (
    "--set=networkPolicies.enabled=true",
    f"--set-json=networkPolicies.apiServers={json.dumps([API_SERVER])}",
    f"--set-json=networkPolicies.scrapers={json.dumps([SCRAPER])}",
)


@pytest.mark.parametrize("by", ["policy", "webhook"])
def test_each_port_is_open_to_those_that_have_to_reach_it(by: str) -> None:
    objects = [*yaml.safe_load_all(template(*NETWORK, f"--set=admission.by={by}"))]
    policies = [one for one in objects if one and one["kind"] == "NetworkPolicy"]
    scheduler = {"podSelector": {"matchLabels": {"app.kubernetes.io/name": NAME}}}
    let_in = {
        NAME: ("https", [API_SERVER, SCRAPER]),
        "kubeshare-collector": ("metrics", [scheduler, SCRAPER]),
        **({"kubeshare-admission": ("https", [API_SERVER])} if by == "webhook" else {}),
    }
    found = {}
    for policy in policies:
        name, spec = policy["metadata"]["name"], policy["spec"]
        assert spec["podSelector"]["matchLabels"] == {"app.kubernetes.io/name": name}
        [rule] = spec["ingress"]
        found[name] = (rule["ports"][0]["port"], rule["from"])
    assert found == let_in


def test_without_the_api_servers_addresses_there_are_no_network_policies() -> None:
    assert "kind: NetworkPolicy" not in template()
    done = helm("template", "k", CHART, "--set=networkPolicies.enabled=true")
    assert "needs networkPolicies.apiServers" in done.stderr


def test_geminis_daemons_need_the_agent_that_writes_their_files() -> None:
    assert "nodeAgent.gemini.enabled: true: needs nodeAgent.enabled=true" in refused(
        "nodeAgent.gemini.enabled=true"
    )


def agent_of(*settings: str) -> Json:
    """The spec of the node agents' pods."""
    made = of(rendered(*settings), "DaemonSet")
    [agent] = [one for one in made if one["metadata"]["name"] == "kubeshare-node-agent"]
    spec: Json = agent["spec"]["template"]["spec"]
    return spec


def test_device_plugins_need_an_agent_that_can_serve_them() -> None:
    assert "nodeAgent.devices: needs nodeAgent.enabled=true" in refused(
        'nodeAgent.devices=["nvidia.com/gpu"]'
    )
    for name in ("nvidia.com/gpus", "gpu-mem=aliyun.com/gpu-mem", "aliyun.com/gpu-mem=a.b/c"):
        assert "nodeAgent" in refused("nodeAgent.enabled=true", f'nodeAgent.devices=["{name}"]')
    every = json.dumps([*KNOWN, "example.com/gpu-mem=aliyun.com/gpu-mem"])
    [container] = agent_of("nodeAgent.enabled=true", f"nodeAgent.devices={every}")["containers"]
    parser = argparse.ArgumentParser()
    add_device_options(parser)
    given, others = parser.parse_known_args(container["args"])
    assert others == ["--log-level=info"]
    assert given.pod_resources
    chosen = [one.name for one in chosen_devices(parser, given)]
    assert chosen == [*KNOWN, "example.com/gpu-mem"]


@pytest.mark.parametrize("root", [None, "/var/lib/k0s/kubelet"])
def test_the_agent_has_the_folders_that_its_device_plugins_use(root: str | None) -> None:
    """The code's own paths: below the root, in the container as on the node."""
    settings = [f"nodeAgent.kubeletRootDir={json.dumps(root)}"] if root else []
    pod = agent_of(*VARIANTS["with device plugins"], *settings)
    [container] = pod["containers"]
    parser = argparse.ArgumentParser()
    add_device_options(parser)
    given, _ = parser.parse_known_args(container["args"])
    assert given.kubelet_root_dir == Path(root or "/var/lib/kubelet")
    folders = {one["name"]: one["hostPath"]["path"] for one in pod["volumes"]}
    mounts = {one["mountPath"]: folders[one["name"]] for one in container["volumeMounts"]}
    files = GivenFiles(Path("/"))
    for path in (
        f"{given.kubelet_root_dir}/device-plugins",
        f"{given.kubelet_root_dir}/pod-resources",
        str(files.given_file.parent),
        str(files.claims),
    ):
        assert mounts[path] == path
    assert not any("/var/lib/kubelet" in path for path in mounts if root)


@pytest.mark.parametrize("root", ['"var/lib/kubelet"', '"/var/lib/kubelet/"', '"/"', '""'])
def test_a_root_of_kubelet_that_is_no_folder_is_refused(root: str) -> None:
    assert "kubeletRootDir" in refused(f"nodeAgent.kubeletRootDir={root}")


def test_the_platform_can_choose_the_user_of_all_pods_that_need_not_be_root() -> None:
    """As OpenShift's restricted-v2 demands: no user, group or group of files of our own."""
    settings = [
        *("sharePods.enabled=true", "aggregator.enabled=true", 'admission.by="webhook"'),
        "dashboard.enabled=true",
        *("nodeAgent.enabled=true", "nodeAgent.podResources=false"),
    ]
    chosen, ours = [
        {
            one["metadata"]["name"]: one["spec"]["template"]["spec"]["securityContext"]
            for kind in ("Deployment", "DaemonSet")
            for one in of(rendered(*settings, f"runAsUser={user}"), kind)
        }
        for user in ("null", "1234")
    ]
    profile = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    assert len(chosen) == 7
    assert all(one == profile for one in chosen.values())
    for one in ours.values():
        assert (one["runAsUser"], one["runAsGroup"], one["runAsNonRoot"]) == (1234, 1234, True)
    assert "runAsUser" in refused("runAsUser=0")


#: What a node without NVIDIA's GPU Operator lacks, and those nodes have that it pauses.
PAUSES = "nvidia.com/gpu.deploy."


def terms_of(pod: Json) -> list[Json]:
    """The terms of a pod's required node affinity."""
    required = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    terms: list[Json] = required["nodeSelectorTerms"]
    return terms


def collector_pod(*settings: str) -> Json:
    [found] = of(rendered(*settings), "DaemonSet")
    spec: Json = found["spec"]["template"]["spec"]
    return spec


def test_every_term_of_an_affinity_leaves_paused_nodes_alone() -> None:
    """Of terms one is enough, so each has these requirements; all else is as it was given."""
    zone = {"key": "zone", "operator": "In", "values": ["a"]}
    name = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    near: Json = {"requiredDuringSchedulingIgnoredDuringExecution": []}
    some = [{"weight": 1, "preference": {"matchExpressions": [zone]}}]
    terms = [{"matchExpressions": [zone]}, {"matchFields": [name]}]
    given = {
        "podAffinity": near,
        "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": some,
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
        },
    }
    pod = collector_pod(f"collector.affinity={json.dumps(given)}")
    assert pod["affinity"]["podAffinity"] == near
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    assert pod["affinity"]["nodeAffinity"][preferred] == some
    first, second = terms_of(pod)
    assert first["matchExpressions"][0] == zone
    assert second["matchFields"] == [name]
    assert first["matchExpressions"][1:] == second["matchExpressions"]
    for one in second["matchExpressions"]:
        assert one["key"].startswith(PAUSES)
        assert one["operator"] == "NotIn"
        assert all(value.startswith("paused-for-") for value in one["values"])
    [alone] = terms_of(collector_pod("collector.affinity=null"))
    assert alone == {"matchExpressions": second["matchExpressions"]}
    wish = "collector.leavePausedNodes=false"
    assert collector_pod(f"collector.affinity={json.dumps(given)}", wish)["affinity"] == given
    assert "affinity" not in collector_pod("collector.affinity=null", wish)


def test_all_programs_on_nodes_leave_paused_nodes_alone() -> None:
    settings = ("nodeAgent.enabled=true", "nodeAgent.gemini.enabled=true", "mps.enabled=true")
    found = of(rendered(*settings), "DaemonSet")
    assert len(found) == 4
    for one in found:
        for term in terms_of(one["spec"]["template"]["spec"]):
            assert any(PAUSES in rule["key"] for rule in term["matchExpressions"])


def test_hami_core_needs_devices_and_has_hamis_folders_and_port() -> None:
    for values, why in (
        (["nodeAgent.enabled=true"], "needs nodeAgent.devices"),
        (["nodeAgent.hamiCore.metrics.enabled=true"], "needs nodeAgent.hamiCore.enabled=true"),
    ):
        enabled = [] if "metrics" in values[0] else ["nodeAgent.hamiCore.enabled=true"]
        assert why in refused(*values, *enabled)
    pod = agent_of(*VARIANTS["with HAMi-core"])
    [container] = pod["containers"]
    parser = argparse.ArgumentParser()
    add_device_options(parser)
    add_hami_options(parser)
    given, others = parser.parse_known_args(container["args"])
    assert others == ["--log-level=info"]
    hami = chosen_hami(parser, given)
    assert hami == HamiCoreSettings(
        hook="/opt/hami/",
        core_policy="force",
        oversubscribe=True,
        log_level="3",
        priority="example.com/rank",
        feedback=True,
        metrics_port=9394,
        legacy_metrics=True,
    )
    [slices] = chosen_devices(parser, given)
    assert slices.slices == 10
    folders = {one["name"]: one["hostPath"]["path"] for one in pod["volumes"]}
    mounts = {one["mountPath"]: folders[one["name"]] for one in container["volumeMounts"]}
    for path in (hami.folder, LOCKS):
        assert mounts[path] == path
    assert [one["name"] for one in pod["initContainers"]] == ["library"]


def test_hamis_metrics_are_at_the_port_of_its_monitor_and_off_by_default() -> None:
    def services(*settings: str) -> list[Json]:
        made = of(rendered(*settings), "Service")
        return [one for one in made if one["metadata"]["name"] == "kubeshare-node-agent-hami"]

    [found] = services(*VARIANTS["with HAMi-core"])
    [port] = found["spec"]["ports"]
    assert (port["nodePort"], port["targetPort"]) == (31992, "hami")
    assert services("nodeAgent.enabled=true") == []


def test_the_controller_of_share_pods_has_its_pods_uid_as_its_name_on_the_lease() -> None:
    objects = rendered("sharePods.enabled=true")
    name = "kubeshare-controller"
    [made] = [one for one in of(objects, "Deployment") if one["metadata"]["name"] == name]
    [container] = made["spec"]["template"]["spec"]["containers"]
    told = {one["name"]: one["valueFrom"]["fieldRef"]["fieldPath"] for one in container["env"]}
    assert told == {"POD_UID": "metadata.uid"}
    assert f"--lease-identity={name}-$(POD_UID)" in container["args"]


def test_programs_on_nodes_may_no_more_than_they_must() -> None:
    """Root only where they own the node's folders, and never a capability or a privilege."""
    objects = rendered(*VARIANTS["with Gemini"])
    plain = rendered(
        "nodeAgent.enabled=true",
        "nodeAgent.podResources=false",
        "aggregator.enabled=true",
        "dashboard.enabled=true",
        "sharePods.enabled=true",
    )
    for found, name, kind, root in (
        (plain, "kubeshare-node-agent", "DaemonSet", False),
        (rendered("nodeAgent.enabled=true"), "kubeshare-node-agent", "DaemonSet", True),
        (rendered(*VARIANTS["with device plugins"]), "kubeshare-node-agent", "DaemonSet", True),
        (rendered(*VARIANTS["with HAMi-core"]), "kubeshare-node-agent", "DaemonSet", True),
        (plain, "kubeshare-aggregator", "Deployment", False),
        (plain, "kubeshare-dashboard", "Deployment", False),
        (plain, "kubeshare-controller", "Deployment", False),
        (objects, "kubeshare-node-agent", "DaemonSet", True),
        (objects, "kubeshare-gemini", "DaemonSet", True),
    ):
        [made] = [one for one in of(found, kind) if one["metadata"]["name"] == name]
        pod = made["spec"]["template"]["spec"]
        [container] = pod["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        }
        assert pod["securityContext"].get("runAsNonRoot", False) is not root
        assert pod.get("hostNetwork", False) is (name == "kubeshare-gemini")
        has_token = name not in ("kubeshare-gemini", "kubeshare-dashboard")
        assert pod["automountServiceAccountToken"] is has_token


def test_the_dashboard_has_no_rights_and_no_token() -> None:
    """Viewers show tokens of their own; of the cluster it has the API server's authority alone."""
    assert "kubeshare-dashboard" not in str(rendered())
    found = rendered(*VARIANTS["with a dashboard"])
    bindings = [*of(found, "ClusterRoleBinding"), *of(found, "RoleBinding")]
    assert bindings
    assert "kubeshare-dashboard" not in str(bindings)
    named = {one["kind"]: one for one in found if one["metadata"]["name"] == "kubeshare-dashboard"}
    assert {*named} == {"ServiceAccount", "Service", "Deployment", "NetworkPolicy"}
    pod = named["Deployment"]["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == "kubeshare-dashboard"
    assert named["ServiceAccount"]["automountServiceAccountToken"] is False
    sources = [{*volume} - {"name"} for volume in pod["volumes"]]
    assert sources == [{"configMap"}, {"secret"}]
    assert pod["volumes"][0]["configMap"] == {"name": "kube-root-ca.crt"}
    [rule] = named["NetworkPolicy"]["spec"]["ingress"]
    assert rule["from"] == [{"podSelector": {"matchLabels": {"app": "ingress"}}}]


def test_the_dashboard_reads_the_schedulers_log_and_cannot_write_it() -> None:
    log = ("eventLog.enabled=true", 'eventLog.existingClaim="events"')
    found = rendered("dashboard.enabled=true", "dashboard.past=true", *log)
    named = {one["kind"]: one for one in found if one["metadata"]["name"] == "kubeshare-dashboard"}
    pod = named["Deployment"]["spec"]["template"]["spec"]
    claim = {"claimName": "events", "readOnly": True}
    assert {"name": "event-log", "persistentVolumeClaim": claim} in pod["volumes"]
    [container] = pod["containers"]
    [mount] = [one for one in container["volumeMounts"] if one["name"] == "event-log"]
    assert mount["readOnly"] is True
    assert f"--event-log={mount['mountPath']}" in container["args"]
    for without in (log[:1], log[1:]):
        answer = refused("dashboard.enabled=true", "dashboard.past=true", *without)
        assert "dashboard.past: needs eventLog.enabled" in answer


@pytest.mark.parametrize(
    ("secret", "scheme", "port"), [("", "HTTP", 80), ("page-tls", "HTTPS", 443)]
)
def test_the_dashboard_speaks_tls_with_a_certificate(secret: str, scheme: str, port: int) -> None:
    found = rendered("dashboard.enabled=true", f'dashboard.certificateSecret="{secret}"')
    named = {one["kind"]: one for one in found if one["metadata"]["name"] == "kubeshare-dashboard"}
    [container] = named["Deployment"]["spec"]["template"]["spec"]["containers"]
    assert [one["port"] for one in named["Service"]["spec"]["ports"]] == [port]
    assert container["livenessProbe"]["httpGet"].get("scheme", "HTTP") == scheme
    assert any(one.startswith("--key-file") for one in container["args"]) is bool(secret)
    assert container["command"][-1] == "kubeshare_cmd.dashboard"
