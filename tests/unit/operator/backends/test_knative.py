"""The Knative backend: the release that is installed, and the scale of the actors."""

from __future__ import annotations

from typing import Any

import pytest

from nitro_operator.backends.knative import KnativeDeployment
from nitro_operator.backends.release import KnativeRelease, release_problem
from nitro_operator.observation.observed import Observed
from operator_objects import pod, revision

Object = dict[str, Any]


class TestKnative:
    def definition(self, version: str | None, established: str = "True") -> Object:
        labels = {"app.kubernetes.io/version": version} if version else {}
        conditions = [{"type": "Established", "status": established}]
        return {"metadata": {"labels": labels}, "status": {"conditions": conditions}}

    @pytest.mark.parametrize("version", ["1.21.0", "v1.23.1", "2.0", "devel", None])
    def test_a_supported_release_has_no_problem(self, version: str | None) -> None:
        assert release_problem(self.definition(version), "v1.34.4") is None

    @pytest.mark.parametrize("version", ["1.20.3", "v1.9.0", "0.26.0"])
    def test_an_old_release_is_refused_with_the_required_one(self, version: str) -> None:
        problem = release_problem(self.definition(version), "v1.34.4")
        assert problem is not None
        assert problem.reason == "KnativeTooOld"
        assert version in problem.message
        assert "1.21" in problem.message

    @pytest.mark.parametrize(
        ("knative", "kubernetes", "wanted"),
        [
            ("1.23.0", "v1.34.0", None),
            ("1.23.0", "v1.33.9-gke.100", "1.34"),
            ("1.24.1", "v1.32.0", "1.34"),
            ("1.21.0", "v1.33.1", None),
            ("1.21.2", "v1.32.5+k3s1", "1.33"),
            ("1.22.0", "v1.33.9", "1.34"),
            ("1.22.2", "v1.34.0", None),
            ("devel", "v1.30.0", None),
            ("1.23.0", "", None),
        ],
    )
    def test_a_kubernetes_that_is_too_old_for_knative_is_named(
        self, knative: str, kubernetes: str, wanted: str | None
    ) -> None:
        problem = release_problem(self.definition(knative), kubernetes)
        assert (problem is not None) == (wanted is not None)
        if problem is not None:
            assert problem.reason == "KubernetesTooOld"
            assert kubernetes in problem.message
            assert f"below {wanted}:" in problem.message

    def test_a_missing_knative_is_reported_with_a_link(self) -> None:
        for definition in (None, self.definition("1.23.0", established="False")):
            problem = release_problem(definition, "v1.34.4")
            assert problem is not None
            assert problem.reason == "KnativeMissing"
            assert "knative.dev/docs/install" in problem.message

    def test_scale_annotations_are_patched_together_and_only_when_they_differ(self) -> None:
        backend = KnativeDeployment(KnativeRelease(), 1)
        prefix = "autoscaling.knative.dev/"
        at_rest = Observed(revision=revision(**{f"{prefix}min-scale": "0", f"{prefix}max-scale": "1"}))
        patch = backend.scaling(at_rest, 12)
        assert patch is not None
        annotations = {f"{prefix}min-scale": "12", f"{prefix}max-scale": "12"}
        assert patch.patch == {"metadata": {"annotations": annotations}}
        assert backend.scaling(Observed(revision=revision(**annotations)), 12) is None
        assert backend.scaling(at_rest, 0) is None
        assert backend.scaling(Observed(), 12) is None


def test_pods_with_several_actors_are_counted_by_their_actors() -> None:
    backend = KnativeDeployment(KnativeRelease(), 8)
    patch = backend.scaling(Observed(revision=revision()), 20)
    assert patch is not None
    assert patch.patch["metadata"]["annotations"] == {
        "autoscaling.knative.dev/min-scale": "3",
        "autoscaling.knative.dev/max-scale": "3",
    }
    held = revision(**patch.patch["metadata"]["annotations"])
    assert backend.held(Observed(revision=held)) == 24
    assert backend.scaling(Observed(revision=held), 20) is None
    assert backend.held(Observed()) == 0
    pods = [pod("actor", name=name) for name in "ab"]
    for one in pods:
        one["metadata"]["annotations"] = {"nitro.dev/actors-per-pod": "8"}
    assert backend.ready(Observed(actor_pods=pods), 20) == 16
