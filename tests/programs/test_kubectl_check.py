"""`kubectl kubeshare check`: which scheduler takes the pods of manifests, and what they ask for."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from kubeshare_cmd.kubectl_kubeshare import main
from kubeshare_py.domain.dialect_switch import ALL_ON

Captured = pytest.CaptureFixture[str]
HALF = {"sharedgpu/gpu_request": "0.5", "sharedgpu/gpu_mem": "8Gi"}


def template(labels: dict[str, str], **spec: object) -> dict[str, object]:
    containers = [{"name": "a", "image": "i"}]
    return {"metadata": {"labels": labels}, "spec": {"containers": containers, **spec}}


def written(folder: Path, *documents: object) -> str:
    path = folder / "manifests.yaml"
    path.write_text(yaml.safe_dump_all(documents))
    return str(path)


def an_object(kind: str, name: str, spec: object) -> dict[str, object]:
    return {"kind": kind, "metadata": {"name": name}, "spec": spec}


def pod(name: str, labels: dict[str, str], **spec: object) -> dict[str, object]:
    found = template(labels, **spec)
    return {**found, "kind": "Pod", "metadata": {"name": name, "labels": labels}}


def test_pods_that_are_fine_are_shown_with_their_dialect(tmp_path: Path, capsys: Captured) -> None:
    job = an_object("Job", "train", {"template": template(HALF)})
    night = template({"sharedgpu/gpu_exclusive": "true", "sharedgpu/gpu_model": "T4"})
    cron = an_object("CronJob", "night", {"jobTemplate": {"spec": {"template": night}}})
    service = an_object("Service", "web", {})
    listed = {"kind": "List", "items": [cron, pod("web", {"app": "web"})]}
    assert main(["check", "-f", written(tmp_path, job, service, listed)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "job/train      kubeshare-scheduler  sharedgpu  0.5 GPU, 8.0 GiB, at most 1.0",
        "cronjob/night  kubeshare-scheduler  sharedgpu  1 GPU alone on T4",
        "pod/web        default-scheduler               no GPU",
    ]


def test_a_sharepod_is_looked_at_as_its_pod(tmp_path: Path, capsys: Captured) -> None:
    amounts = {"gpu_request": "0.5", "gpu_limit": "1.0", "gpu_mem": "1073741824"}
    given = {f"kubeshare/{key}": text for key, text in amounts.items()}
    fine, wrong = (
        {**an_object("SharePod", name, {"containers": [{"name": "a"}]})} for name in ("a", "b")
    )
    fine["metadata"] = {"name": "a", "annotations": given}
    wrong["metadata"] = {"name": "b", "annotations": {**given, "kubeshare/gpu_mem": ""}}
    assert main(["check", "-f", written(tmp_path, fine, wrong)]) == 1
    lines = capsys.readouterr().out.splitlines()
    ours = "kubeshare-scheduler"
    assert lines[0] == f"sharepod/a  {ours}  sharepod  0.5 GPU, 1.0 GiB, at most 1.0"
    assert lines[1].split() == ["sharepod/b", ours, "sharepod", "refused"]
    assert "kubeshare/gpu_mem is missing" in lines[2]


@pytest.mark.parametrize(
    ("labels", "spec", "said"),
    [
        ({"sharedgpu/gpu_request": "2.5"}, {}, 'sharedgpu/gpu_request="2.5": must be a whole'),
        ({"sharedgpu/gpu_requst": "1"}, {}, "did you mean sharedgpu/gpu_request?"),
        (HALF, {"resourceClaims": [{"name": "x"}]}, "not supported yet: spec.resourceClaims"),
        (HALF, {"schedulerName": "kubeshare-schedular"}, "did you mean kubeshare-scheduler?"),
        ({"sharedgpu/gpu_request": 0.5}, {}, "quote it: values of labels and annotations"),
    ],
)
def test_a_pod_that_would_be_refused_is_and_the_reason_is_the_schedulers(
    tmp_path: Path, capsys: Captured, labels: dict[str, str], spec: dict[str, object], said: str
) -> None:
    path = written(tmp_path, pod("good", HALF), pod("bad", labels, **spec))
    assert main(["check", "-f", path]) == 1
    good, bad, why, *more = capsys.readouterr().out.splitlines()
    assert good.startswith("pod/good  kubeshare-scheduler  sharedgpu  0.5 GPU")
    assert (bad.split()[0], bad.split()[-1]) == ("pod/bad", "refused")
    assert said in why
    is_of_dialect = "sharedgpu" in bad
    assert more == ["  KubeShare: https://github.com/NTHU-LSALab/KubeShare"] * is_of_dialect


def test_results_in_a_manifest_are_refused(tmp_path: Path, capsys: Captured) -> None:
    copied = pod("copy", HALF)
    copied["metadata"] = {"name": "copy", "annotations": {"sharedgpu/gpu_uuid": "GPU-1"}}
    assert main(["check", "-f", written(tmp_path, copied)]) == 1
    assert "only schedulers write annotations sharedgpu/gpu_uuid" in capsys.readouterr().out


def test_the_answer_as_json(tmp_path: Path, capsys: Captured) -> None:
    assert main(["check", "-o", "json", "-f", written(tmp_path, pod("a", HALF, nodeName="n"))]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "pods": [
            {
                "object": "pod/a",
                "scheduler": "kubeshare-scheduler",
                "dialect": "sharedgpu",
                "claims": [{"count": 1, "milli": 500, "limitMilli": 1000, "memoryBytes": 8 << 30}],
                "refused": [],
                "documentation": "KubeShare: https://github.com/NTHU-LSALab/KubeShare",
                "path": "",
                "notes": [],
            }
        ],
        "skipped": [],
    }


@pytest.mark.slow
def test_standard_input_and_several_files(tmp_path: Path) -> None:
    run_main = "from kubeshare_cmd.kubectl_kubeshare import main; raise SystemExit(main())"
    given = ("check", "-f", written(tmp_path, pod("a", HALF)), "-f", "-", "-o", "yaml")
    done = subprocess.run(
        [sys.executable, "-c", run_main, *given],
        input=yaml.safe_dump(pod("b", HALF)),
        capture_output=True,
        text=True,
        check=True,
    )
    found = yaml.safe_load(done.stdout)
    assert [one["object"] for one in found["pods"]] == ["pod/a", "pod/b"]


def test_the_configuration_says_which_scheduler_and_dialects_there_are(
    tmp_path: Path, capsys: Captured
) -> None:
    config = tmp_path / "scheduler.yaml"
    config.write_text("profiles: [{schedulerName: gpu}]")
    path = written(tmp_path, pod("a", HALF))
    assert main(["check", "-f", path, "--config", str(config), "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["pods"][0]["scheduler"] == "gpu"
    config.write_text("profiles: [{dialects: [{name: hamy}]}]")
    assert main(["check", "-f", path, "--config", str(config)]) == 2
    assert "no dialect hamy; there are " in capsys.readouterr().err


def asking(name: str, amounts: dict[str, str], **spec: object) -> dict[str, object]:
    containers = [{"name": "a", "resources": {"limits": amounts}}]
    return {"kind": "Pod", "metadata": {"name": name}, "spec": {"containers": containers, **spec}}


@pytest.mark.parametrize(
    ("amounts", "spec", "code", "said"),
    [
        ({"aliyun.com/gpu-mem": "3"}, {}, 0, "label namespace default kubeshare.io/dialects=true"),
        ({"nvidia.com/gpu": "1"}, {}, 0, "default-scheduler takes it, and the device plugin"),
        ({"nvidia.com/gpu": "1"}, {}, 0, f"its GPUs; kubeshare-scheduler takes it by {ALL_ON}"),
        ({"nvidia.com/gpumem": "1"}, {}, 1, f"hami: add it to the profile, or {ALL_ON}, or name"),
        ({"nvidia.com/gpu": "1"}, {"schedulerName": "volcano"}, 0, ""),
        ({"aliyun.com/gpu-mem": "3"}, {"schedulerName": "volcano"}, 0, "only --config can say"),
        ({"nvidia.com/gpu": "1"}, {"schedulerName": "kubeshare-scheduler"}, 1, "--config"),
    ],
)
def test_who_takes_a_pod_is_said_where_it_is_not_plain(
    tmp_path: Path,
    capsys: Captured,
    amounts: dict[str, str],
    spec: dict[str, object],
    code: int,
    said: str,
) -> None:
    path = written(tmp_path, asking("a", amounts, **spec))
    assert main(["check", "-f", path]) == code
    assert said in capsys.readouterr().out


def test_with_a_configuration_a_scheduler_that_is_not_in_it_takes_no_shares(
    tmp_path: Path, capsys: Captured
) -> None:
    config = tmp_path / "scheduler.yaml"
    config.write_text("profiles: [{schedulerName: gpu}]")
    share, whole = {"aliyun.com/gpu-mem": "3"}, {"nvidia.com/gpu": "1"}
    path = written(tmp_path, asking("a", share, schedulerName="volcano"))
    assert main(["check", "-f", path, "--config", str(config)]) == 1
    assert "no scheduler here is called volcano: there is gpu" in capsys.readouterr().out
    path = written(tmp_path, asking("a", whole, schedulerName="volcano"))
    assert main(["check", "-f", path, "--config", str(config)]) == 0


def test_few_bytes_of_memory_are_noted(tmp_path: Path, capsys: Captured) -> None:
    labels = {**HALF, "sharedgpu/gpu_mem": "8"}
    assert main(["check", "-f", written(tmp_path, pod("a", labels))]) == 0
    assert "sharedgpu/gpu_mem is 8 bytes; units are written" in capsys.readouterr().out


def test_a_group_that_is_not_described_is_noted(tmp_path: Path, capsys: Captured) -> None:
    group = {"sharedgpu/group_name": "g", "sharedgpu/group_headcount": "3"}
    assert main(["check", "-f", written(tmp_path, pod("a", HALF | group))]) == 0
    assert (
        "sharedgpu/group_name makes no group without sharedgpu/group_headcount and "
        "sharedgpu/group_threshold: the pod starts alone"
    ) in capsys.readouterr().out
    assert main(["check", "-f", written(tmp_path, pod("a", HALF))]) == 0
    assert "makes no group" not in capsys.readouterr().out


def test_templates_are_found_in_kinds_that_are_not_known(tmp_path: Path, capsys: Captured) -> None:
    wrong = template({"sharedgpu/gpu_request": "many"})
    jobs = [{"name": "w", "template": {"spec": {"template": wrong}}}]
    job_set = an_object("JobSet", "sweep", {"replicatedJobs": jobs})
    replicas = {"Master": {"template": wrong}, "Worker": {"template": template(HALF)}}
    torch = an_object("PyTorchJob", "tune", {"pytorchReplicaSpecs": replicas})
    volcano = an_object("Job", "v", {"tasks": [{"template": template(HALF)}]})
    revision = an_object("Revision", "serve", {"containers": [{"name": "a"}]})
    versions = {
        "jobset.x-k8s.io/v1alpha2": job_set,
        "kubeflow.org/v1": torch,
        "batch.volcano.sh/v1alpha1": volcano,
        "serving.knative.dev/v1": revision,
    }
    path = written(tmp_path, *({"apiVersion": key, **one} for key, one in versions.items()))
    assert main(["check", "-f", path, "-o", "json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert [(one["object"], one["path"], bool(one["refused"])) for one in found["pods"]] == [
        ("jobset/sweep", "spec.replicatedJobs[0].template.spec.template", True),
        ("pytorchjob/tune", "spec.pytorchReplicaSpecs.Master.template", True),
        ("pytorchjob/tune", "spec.pytorchReplicaSpecs.Worker.template", False),
        ("job/v", "spec.tasks[0].template", False),
        ("revision/serve", "", False),
    ]


def test_what_has_no_template_is_said_to_be_unchecked(tmp_path: Path, capsys: Captured) -> None:
    plain = {"apiVersion": "v1", **an_object("ConfigMap", "c", {})}
    rule = {"apiVersion": "rbac.authorization.k8s.io/v1", **an_object("Role", "r", {})}
    other = {"apiVersion": "argoproj.io/v1alpha1", **an_object("Application", "app", {})}
    assert main(["check", "-f", written(tmp_path, plain, rule, other, pod("a", HALF))]) == 0
    said = capsys.readouterr().err
    assert said == (
        "Not checked, because no template of pods was found in it: application/app\n"
        "No pods come of: configmap/c, role/r\n"
    )


def test_a_kubeconfig_that_is_named_and_absent_is_an_error(
    tmp_path: Path, capsys: Captured
) -> None:
    path, absent = written(tmp_path, pod("a", HALF)), str(tmp_path / "none")
    assert main(["check", "-f", path, "--kubeconfig", absent]) == 2
    assert "Error: cannot use the kubeconfig" in capsys.readouterr().err
    assert main(["check", "-f", path, "--kubeconfig", absent, "--offline"]) == 0


@pytest.mark.parametrize("text", ["a: [", "3", "kind: 7", "- a"])
def test_what_is_no_manifest_is_an_error(tmp_path: Path, capsys: Captured, text: str) -> None:
    path = tmp_path / "manifests.yaml"
    path.write_text(text)
    assert main(["check", "-f", str(path)]) == 2
    assert capsys.readouterr().err.startswith(f"Error: {path}")
    assert main(["check", "-f", str(tmp_path / "gone")]) == 2


@pytest.mark.parametrize("arguments", [[], ["-f", "x", "-o", "wide"], ["-f", "x", "-A"]])
def test_wrong_usage_ends_with_2(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["check", *arguments])
    assert ended.value.code == 2


def test_a_file_without_pods_is_fine(tmp_path: Path, capsys: Captured) -> None:
    assert main(["check", "-f", written(tmp_path, an_object("Service", "web", {}), None)]) == 0
    told = capsys.readouterr().err
    assert "No pods found" in told
    assert "No pods come of: service/web" in told
