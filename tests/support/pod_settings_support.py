"""Settings of pods that a job may have, for tests of the API and of the builders."""

MENDED = {
    "image": "mine:2",
    "resources": {"limits": {"memory": "4Gi"}},
    "labels": {"team": "rl"},
    "annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"},
    "env": [
        {"name": "A", "value": "b"},
        {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
        {"name": "C", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k", "optional": True}}},
    ],
    "volumes": [
        {"name": "a", "configMap": {"name": "maps", "items": [{"key": "k", "path": "p"}]}},
        {"name": "b", "secret": {"secretName": "licence", "optional": True}},
        {"name": "c", "persistentVolumeClaim": {"claimName": "data", "readOnly": True}},
        {"name": "d", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
    ],
    "volumeMounts": [{"name": name, "mountPath": f"/data/{name}"} for name in "abcd"],
    "nodeSelector": {"gpu": "a100"},
    "tolerations": [{"key": "gpu", "operator": "Exists"}],
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}]
            },
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 5, "preference": {"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}}
            ],
        },
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {
                    "labelSelector": {"matchLabels": {"nitro.dev/job": "hopper"}},
                    "topologyKey": "kubernetes.io/hostname",
                }
            ]
        },
    },
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "topology.kubernetes.io/zone",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"nitro.dev/job": "hopper"}},
        }
    ],
    "priorityClassName": "high",
    "runtimeClassName": "gvisor",
    "serviceAccountName": "robot",
    "imagePullSecrets": [{"name": "registry"}],
}
"""A value of every setting of pods that a suspended job may change."""
