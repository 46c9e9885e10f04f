"""The limiter in the chart: what it may do, and what excludes it."""

import pytest

from api_types.mid_pods import policy
from koordlet.cli.limiter.settings import ENV_PREFIX, LimiterSettings
from koordlet.settings import ENV_PREFIX as AGENT_PREFIX
from koordlet.settings import KoordletSettings
from tests.charts import chart

ON = ("koordlet.limiter.enabled=true", "admission.nativeLimits=false")


def limiter(*values):
    return chart.render(*ON, *values).workloads()["koord-limiter"]


def test_it_is_off_by_default():
    rendered = chart.render()
    assert "koord-limiter" not in rendered.workloads()
    assert rendered.of_kind("Namespace") == {}
    assert not [each for each in rendered.containers()["koordlet/koordlet"]["args"] if "limiter" in each]


def test_it_is_root_without_capabilities_token_and_network():
    pod = limiter()
    assert pod["automountServiceAccountToken"] is False
    assert "serviceAccountName" not in pod
    assert not {"hostNetwork", "hostPID", "hostIPC", "initContainers"} & set(pod)
    assert (pod["securityContext"]["runAsUser"], pod["securityContext"]["runAsGroup"]) == (0, 0)
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not {"ports", "env", "livenessProbe"} & set(container)
    rendered = chart.render(*ON)
    isolated = rendered.of_kind("NetworkPolicy")["koord-limiter"]["spec"]
    assert isolated == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}


def test_it_mounts_the_best_effort_groups_and_reads_the_folder_of_the_agent():
    pod = limiter()
    mounts = {each["name"]: each for each in pod["containers"][0]["volumeMounts"]}
    host = {each["name"]: each["hostPath"]["path"] for each in pod["volumes"] if "hostPath" in each}
    writable = {host[name] for name, mount in mounts.items() if name in host and not mount.get("readOnly")}
    assert writable == {"/sys/fs/cgroup/kubepods.slice/kubepods-besteffort.slice"}
    assert set(host.values()) - writable == {"/run/koord-limiter"}


def test_agent_and_limiter_agree_about_the_file_and_its_folder():
    rendered = chart.render(*ON)
    container = rendered.containers()["koord-limiter/limiter"]
    assert container["args"][0] == "limiter"
    own = chart.parsed_settings(
        {**container, "args": ["run", *container["args"][1:]], "env": []}, LimiterSettings, ENV_PREFIX
    )
    agent = chart.parsed_settings(rendered.containers()["koordlet/koordlet"], KoordletSettings, AGENT_PREFIX)
    assert own.input_file == agent.limiter_file
    paths = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert {own.cpu_folder, own.memory_folder} < paths
    for name in ("koordlet/koordlet", "koordlet/state-folder"):
        mounts = rendered.containers()[name]["volumeMounts"]
        assert {"name": "limiter", "mountPath": "/run/koord-limiter"} in mounts


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (["koordlet.limiter.enabled=true"], "needs admission.nativeLimits: false"),
        ([*ON, "koordlet.suppression.enabled=true"], "exclude each other"),
        ([*ON, "koordlet.enabled=false"], "needs koordlet.enabled"),
        ([*ON, "openshift.enabled=true"], "not supported with openshift.enabled"),
        ([*ON, f"koordlet.limiter.namespace={chart.NAMESPACE}"], "for the limiter alone"),
        ([*ON, "koordlet.limiter.cpuFolder=/sys/fs/cgroup"], "cpuFolder"),
        ([*ON, "koordlet.limiter.cpuFolder=/sys/fs/cgroup/kubepods"], "cpuFolder"),
        ([*ON, "koordlet.limiter.memoryFolder=/sys/fs/cgroup/../kubepods/besteffort"], "memoryFolder"),
        ([*ON, "koordlet.limiter.memoryFolder=/etc/kubepods/besteffort"], "memoryFolder"),
        ([*ON, "koordlet.limiter.inputHostPath=/"], "inputHostPath"),
    ],
)
def test_what_excludes_it_is_named(values, text):
    words = [word for value in values for word in ("--set", value)]
    result = chart.run_helm("template", "koord-suite", str(chart.FOLDER), "--namespace", chart.NAMESPACE, *words)
    assert result.returncode != 0
    assert text in result.stderr


@pytest.mark.parametrize(
    "folder",
    ["/sys/fs/cgroup/cpu/kubepods/besteffort",
     "/sys/fs/cgroup/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice"]
)  # fmt: skip
def test_other_layouts_of_groups_can_be_named(folder):
    volumes = limiter(f"koordlet.limiter.cpuFolder={folder}")["volumes"]
    assert folder in [each["hostPath"]["path"] for each in volumes if "hostPath" in each]


def test_with_it_admission_writes_mid_resources_only():
    (found,) = chart.render(*ON, "admission.mode=policy").of_kind("MutatingAdmissionPolicy").values()
    expected, _ = policy.limits_of_mid_pods("koord-suite-mid-limits", "koord-scheduler", native_limits=False)
    assert found["spec"] == expected["spec"]
    webhook = chart.render(*ON, "admission.mode=webhook").containers()["koord-admission/admission"]
    assert "--no-native-limits" in webhook["args"]
    for values, advises in (((), True), (ON, False)):
        advice = chart.render("admission.mode=none", *values).of_kind("ValidatingAdmissionPolicy")
        texts = [each.get("message", "") for each in advice["koord-suite-mid-advice"]["spec"]["validations"]]
        assert any("no native limit" in text for text in texts) is advises
