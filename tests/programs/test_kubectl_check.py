"""`kubectl kubeshare check`: what manifests ask for, without a cluster."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from kubeshare_cmd.kubectl_kubeshare import main

Captured = pytest.CaptureFixture[str]
HALF = {"sharedgpu/gpu_request": "0.5", "sharedgpu/gpu_mem": "8Gi"}


def template(labels: dict[str, str], **spec: object) -> dict[str, object]:
    return {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a"}], **spec}}


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
        "job/train      sharedgpu  0.5 GPU, 8.0 GiB, at most 1.0",
        "cronjob/night  sharedgpu  1 GPU alone on T4",
        "pod/web                   no GPU",
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
    assert lines[0] == "sharepod/a  sharepod  0.5 GPU, 1.0 GiB, at most 1.0"
    assert lines[1].split() == ["sharepod/b", "sharepod", "refused"]
    assert "kubeshare/gpu_mem is missing" in lines[2]


@pytest.mark.parametrize(
    ("labels", "spec", "said"),
    [
        ({"sharedgpu/gpu_request": "2.5"}, {}, 'sharedgpu/gpu_request="2.5": must be a whole'),
        ({"sharedgpu/gpu_requst": "1"}, {}, "did you mean sharedgpu/gpu_request?"),
        (HALF, {"resourceClaims": [{"name": "x"}]}, "not supported yet: spec.resourceClaims"),
        ({"sharedgpu/gpu_request": 0.5}, {}, "quote it: values of labels and annotations"),
    ],
)
def test_a_pod_that_would_be_refused_is_and_the_reason_is_the_schedulers(
    tmp_path: Path, capsys: Captured, labels: dict[str, str], spec: dict[str, object], said: str
) -> None:
    path = written(tmp_path, pod("good", HALF), pod("bad", labels, **spec))
    assert main(["check", "-f", path]) == 1
    good, bad, why, *more = capsys.readouterr().out.splitlines()
    assert good.startswith("pod/good  sharedgpu  0.5 GPU")
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
            }
        ]
    }


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
    assert "No pods found" in capsys.readouterr().err
