"""The rules of spec.pricing; see job_rules.py."""

from nitro_api.base import Rule, declare
from nitro_api.spec.job import GivenSpec
from nitro_api.spec.pricing import GivenPricing

declare(
    GivenPricing,
    Rule(
        path="pods",
        cel="!has(self.pods) || self.pods == 'lambda-like' || self.model != 'vm'",
        sentence="excludes model: vm, which pays machines in place of pods; remove either",
    ),
    Rule(
        path="podVCPUSecond",
        cel="!has(self.podVCPUSecond) || has(self.podGBSecond) "
        "|| (has(self.pods) && self.pods != 'lambda-like')",
        sentence="is only allowed beside podGBSecond, because lambda-like's price of memory contains the "
        "CPU; give both prices, or pods: autopilot, fargate or node",
    ),
)
declare(
    GivenSpec,
    Rule(
        path="pricing.pods",
        cel="!has(self.pricing.pods) || self.pricing.pods == 'lambda-like' || self.backend.type != 'Lambda'",
        sentence="is only allowed without backend.type: Lambda, whose invocations are billed; remove either",
    ),
)
