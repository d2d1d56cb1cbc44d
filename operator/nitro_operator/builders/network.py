"""The Service of Redis, and the network policies of learner and actors."""

from nitro_operator.builders.learner import METRICS_PORT
from nitro_operator.builders.redis import PORT as REDIS_PORT
from nitro_operator.builders.view import JobView
from nitro_operator.kube import names
from nitro_operator.kube.kinds import Object

DNS: Object = {"ports": [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}]}


def redis_service(view: JobView) -> Object:
    """The address at which actors find the learner pod's Redis."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": view.metadata(names.redis(view.name), names.REDIS),
        "spec": {
            "type": "ClusterIP",
            "selector": _pods(view, names.LEARNER),
            "ports": [{"name": "redis", "port": REDIS_PORT, "targetPort": "redis", "protocol": "TCP"}],
        },
    }


def network_policies(view: JobView) -> list[Object]:
    """The network policies of learner and actors.

    The learner accepts its actors (Redis) and scrapers (metrics). Actors accept Knative and the learner.
    Actors run environments, which may be anybody's code, so they can connect to DNS and their Redis only.
    Where the learner may connect is the platform's choice.
    """
    learner = {"podSelector": {"matchLabels": _pods(view, names.LEARNER)}}
    actors = {"podSelector": {"matchLabels": _pods(view, names.ACTOR)}}
    knative = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": view.config.knative_namespace}}
    }
    redis = {"from": [actors], "ports": [_tcp(REDIS_PORT)]}
    rules: Object = {
        "policyTypes": ["Ingress"],
        "ingress": [*([redis] if view.has_redis else []), {"ports": [_tcp(METRICS_PORT)]}],
    }
    if view.config.learner_egress is not None:
        # Requests to actors go through Knative's activator, or to the actors when Knative takes it out.
        to_actors = [{"to": [knative, actors]}] if view.spec.backend.type == "Knative" else []
        rules["policyTypes"] = ["Ingress", "Egress"]
        rules["egress"] = [DNS, *to_actors, *view.config.learner_egress]
    policies = [_policy(view, names.LEARNER, names.learner(view.name), rules)]
    if view.has_redis:
        rules = {
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"from": [knative, learner]}],
            "egress": [{"to": [learner], "ports": [_tcp(REDIS_PORT)]}, DNS],
        }
        policies.append(_policy(view, names.ACTOR, names.actors(view.name), rules))
    return policies


def _policy(view: JobView, component: str, name: str, rules: Object) -> Object:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": view.metadata(name, component),
        "spec": {"podSelector": {"matchLabels": _pods(view, component)}, **rules},
    }


def _pods(view: JobView, component: str) -> dict[str, str]:
    return {names.JOB_LABEL: view.name, names.COMPONENT_LABEL: component}


def _tcp(port: int) -> Object:
    return {"protocol": "TCP", "port": port}
