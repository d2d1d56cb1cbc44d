"""The operator's configuration, from environment variables."""

from __future__ import annotations

from pathlib import Path

import pytest

from nitro_operator import builders
from nitro_operator.builders.learner import actor_url
from nitro_operator.config import Config
from operator_objects import make_view

IMAGES = {"NITRO_ACTOR_IMAGE": "a", "NITRO_LEARNER_IMAGE": "l", "NITRO_REDIS_IMAGE": "r"}


class TestConfig:
    def test_defaults(self) -> None:
        config = Config.from_environment(IMAGES)
        assert config.platform_max_actors == 0
        assert config.watch_namespaces == ()
        assert (config.metrics_port, config.health_port) == (8080, 8081)

    def test_without_an_image_for_cpus_every_learner_has_the_same(self) -> None:
        assert Config.from_environment(IMAGES).learner_cpu_image == "l"
        assert Config.from_environment(IMAGES | {"NITRO_LEARNER_CPU_IMAGE": "c"}).learner_cpu_image == "c"

    @pytest.mark.parametrize(
        ("text", "domain"),
        [
            (
                "nameserver 10.0.0.10\nsearch nitro.svc.corp.test svc.corp.test corp.test\n",
                "corp.test",
            ),
            ("search svc.cluster.local. lan\noptions ndots:5\n", "cluster.local"),
            ("search lan\n", "cluster.local"),
            (None, "cluster.local"),
        ],
    )
    def test_the_cluster_domain_is_read_from_resolv_conf(
        self, tmp_path: Path, text: str | None, domain: str
    ) -> None:
        file = tmp_path / "resolv.conf"
        if text is not None:
            file.write_text(text)
        config = Config.from_environment(IMAGES, file)
        assert config.cluster_domain == domain
        view = make_view(config)
        assert actor_url(view) == f"http://hopper-actors-v1.team.svc.{domain}"
        children = (builders.learner_job(view, None), builders.actor_service(view))
        told = repr([*children, builders.redis_service(view), builders.credentials_secret(view)])
        assert ("cluster.local" in told) is (domain == "cluster.local"), "nothing else names a domain"

    def test_users_and_groups_are_read(self) -> None:
        config = Config.from_environment(
            IMAGES | {"NITRO_RUN_AS_USER": "1000680000", "NITRO_FS_GROUP": "none"}
        )
        assert (config.run_as_user, config.fs_group) == (1000680000, None)
        assert (Config.from_environment(IMAGES).run_as_user, Config.from_environment(IMAGES).fs_group) == (
            "auto",
            "auto",
        )
        for wrong in ("0", "root", "-1"):
            with pytest.raises(
                ValueError, match=f"NITRO_FS_GROUP='{wrong}' is neither auto, none nor a number"
            ):
                Config.from_environment(IMAGES | {"NITRO_FS_GROUP": wrong})

    def test_a_list_is_split_at_commas(self) -> None:
        config = Config.from_environment(IMAGES | {"NITRO_WATCH_NAMESPACES": "a, b,"})
        assert config.watch_namespaces == ("a", "b")

    def test_limits_of_namespaces_are_read(self) -> None:
        config = Config.from_environment(IMAGES | {"NITRO_NAMESPACE_MAX_ACTORS": "*=64,team-a=0"})
        assert config.namespace_max_actors == {"*": 64, "team-a": 0}

    def test_beginnings_of_metadata_are_read(self) -> None:
        given = {"NITRO_ANNOTATION_PREFIXES": "example.com/,gke.io/x", "NITRO_APPARMOR": "true"}
        config = Config.from_environment(IMAGES | given)
        assert config.metadata_prefixes == {"annotations": ("example.com/", "gke.io/x"), "labels": ()}
        assert config.apparmor
        assert not Config.from_environment(IMAGES).apparmor

    def test_rules_of_learners_are_read(self) -> None:
        assert Config.from_environment(IMAGES).learner_egress is None
        config = Config.from_environment(IMAGES | {"NITRO_LEARNER_EGRESS": '[{"ports": [{"port": 443}]}]'})
        assert config.learner_egress == ({"ports": [{"port": 443}]},)

    @pytest.mark.parametrize(
        ("environment", "words"),
        [
            ({"NITRO_ACTOR_IMAGE": ""}, "NITRO_ACTOR_IMAGE"),
            ({"NITRO_PLATFORM_MAX_ACTORS": "many"}, "not a number"),
            ({"NITRO_RESYNC_SECONDS": "-1"}, "negative"),
            ({"NITRO_ENTRY_POINTS": "no"}, "NITRO_ENTRY_POINTS='no' is neither true nor false"),
            ({"NITRO_NAMESPACE_MAX_ACTORS": "team=-1"}, "'team=-1' is not NAMESPACE=NUMBER"),
            ({"NITRO_LEARNER_EGRESS": "443"}, "NITRO_LEARNER_EGRESS=443 is not a list of objects"),
            ({"NITRO_LEARNER_EGRESS": "443:"}, "NITRO_LEARNER_EGRESS is not JSON"),
        ],
    )
    def test_a_mistake_names_its_variable(self, environment: dict[str, str], words: str) -> None:
        with pytest.raises(ValueError, match=words):
            Config.from_environment(IMAGES | environment)
