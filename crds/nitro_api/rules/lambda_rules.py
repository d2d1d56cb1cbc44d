"""The rules of spec.backend.lambda; see job_rules.py."""

from nitro_api.base import Rule, declare, matching
from nitro_api.spec.backend import GivenBackend
from nitro_api.spec.job import GivenSpec
from nitro_api.spec.lambda_backend import ECR_IMAGE, GivenLambdaBackend
from nitro_api.spec.pods import Learner

MAX_TIMEOUT_SECONDS = 900
"""Lambda's own limit."""

_FUNCTION = "^[A-Za-z0-9_-]+$"
_REGION = "^[a-z]{2}(-[a-z]+)+-[0-9]$"
_URL = "^https?://[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?(/[A-Za-z0-9./_-]*)?$"
AWS_URL = (
    "^https://(vpce-[a-z0-9-]+[.])?lambda(-fips)?[.][a-z0-9-]+[.](vpce[.])?amazonaws[.]com([.]cn)?(:443)?/?$"
)
"""Address of Lambda itself. Machines and load balancers of AWS' customers are in amazonaws.com too."""

_ROLE = "^arn:aws[a-z-]*:iam::[0-9]{12}:role/[A-Za-z0-9+=,.@_/-]+$"
_MANAGED_ONLY = ("image", "roleArn", "vpc", "reservedConcurrency", "provisionedConcurrency", "tags")

_A_ROLE = matching(
    "roleArn", _ROLE, "must be the ARN of an IAM role; write it as arn:aws:iam::123456789012:role/name"
)
declare(Learner, _A_ROLE)
declare(
    GivenLambdaBackend,
    matching(
        "functionName",
        _FUNCTION,
        "must be letters, digits, hyphens and underscores, without account or version; correct it",
    ),
    Rule(
        path="image",
        cel="!self.manage || has(self.image)",
        sentence="is required with manage: true; push the actor image to Amazon ECR and give its address",
    ),
    Rule(
        path="image",
        cel=f"!has(self.image) || has(self.endpointUrl) || self.image.matches(r'{ECR_IMAGE}')",
        sentence="must be in Amazon ECR, because Lambda takes images from nowhere else; write it as "
        "123456789012.dkr.ecr.us-east-2.amazonaws.com/nitro-actor:0.1.0",
    ),
    Rule(
        path="roleArn",
        cel="!self.manage || has(self.roleArn)",
        sentence="is required with manage: true; give the role that the function runs as (docs/lambda.md)",
    ),
    _A_ROLE,
    *(
        Rule(
            path=path,
            cel=f"self.manage || !has(self.{path})",
            sentence="is only allowed with manage: true; remove it or set manage: true",
        )
        for path in _MANAGED_ONLY
    ),
    Rule(
        path="region",
        cel=f"has(self.region) || (has(self.image) && self.image.matches(r'{ECR_IMAGE}'))",
        sentence="is required where no address in Amazon ECR tells it; write it as us-east-2",
    ),
    matching("region", _REGION, "must be an AWS region; write it as us-east-2"),
    Rule(
        path="region",
        cel=f"!has(self.region) || !has(self.image) || !self.image.matches(r'{ECR_IMAGE}') "
        "|| self.image.contains('.ecr.' + self.region + '.')",
        sentence="must be the image's, because Lambda takes images from its own region only; remove region "
        "or push the image there",
    ),
    matching(
        "endpointUrl",
        _URL,
        "must be an http or https URL without user, query or fragment; write it as https://host:port",
    ),
    Rule(
        path="endpointUrl",
        cel="!has(self.endpointUrl) || has(self.credentialsSecret) "
        f"|| self.endpointUrl.matches(r'{AWS_URL}')",
        sentence="must be Lambda's own, such as https://lambda.us-east-2.amazonaws.com, without "
        "credentialsSecret, because the operator signs requests there as itself; give credentialsSecret",
    ),
    Rule(
        path="tags",
        cel="!has(self.tags) || self.tags.all(k, k.size() > 0 && k.size() <= 128 && !k.startsWith('aws:') "
        "&& !k.startsWith('nitro.dev/'))",
        sentence="must have keys of 1 to 128 characters, not begun with aws: or nitro.dev/, which are taken; "
        "rename the tag",
    ),
    Rule(
        path="redis",
        cel="self.transport != 'Redis' || has(self.redis)",
        sentence="is required with transport: Redis; name the Secret that holds the address",
    ),
    Rule(
        path="redis",
        cel="self.transport == 'Redis' || !has(self.redis)",
        sentence="is only allowed with transport: Redis; remove it or set transport: Redis",
    ),
)
declare(
    GivenBackend,
    Rule(
        path="lambda",
        cel="self.type != 'Lambda' || has(self.lambda)",
        sentence="is required with type: Lambda; give image and roleArn, or manage: false, functionName and "
        "region",
    ),
)
declare(
    GivenSpec,
    Rule(
        path="code",
        cel="!has(self.code) || self.backend.type != 'Lambda'",
        sentence="is not possible with backend.type: Lambda, whose functions mount no ConfigMap; remove it "
        "and build an image with your code",
    ),
    Rule(
        path="actor.timeoutSeconds",
        cel=f"self.backend.type != 'Lambda' || self.actor.timeoutSeconds <= {MAX_TIMEOUT_SECONDS}",
        sentence=f"must be at most {MAX_TIMEOUT_SECONDS} with backend.type: Lambda, which ends an invocation "
        "then; lower it, or sample less per rollout",
    ),
    Rule(
        path="learner.roleArn",
        cel="!has(self.learner.roleArn) || !has(self.backend.lambda) "
        "|| !has(self.backend.lambda.credentialsSecret)",
        sentence="excludes backend.lambda.credentialsSecret, whose user the learner would be instead; remove "
        "either",
    ),
)
