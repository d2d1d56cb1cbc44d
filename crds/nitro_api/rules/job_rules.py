"""The rules across fields, each declared once, in CEL.

`crd.py` puts the CEL and the sentence in the CRD, and `nitro validate` evaluates the same CEL, so kubectl and
`nitro validate` say the same at the same path.
"""

from nitro_api.base import Rule, declare, matching
from nitro_api.quantities import DURATION_PATTERN, QUANTITY_PATTERN
from nitro_api.spec.backend import GivenBackend
from nitro_api.spec.checkpoint import Checkpoint, CheckpointBucket, CheckpointVolume
from nitro_api.spec.environment import GivenEnvironment
from nitro_api.spec.job import GivenSpec, NitroTrainingJob
from nitro_api.spec.stop import GivenEvaluation, GivenStop
from nitro_api.spec.tracking import MlflowTracking, WandbTracking

_ID = "^[A-Za-z0-9_.:-]+(/[A-Za-z0-9_.:-]+)?$"
ENTRY_POINT = "^[A-Za-z_][A-Za-z0-9_]*([.][A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_.]*$"
_BUCKET = "^[a-z0-9][a-z0-9.-]*[a-z0-9]$"
_JOB_NAME = "^[a-z]([-a-z0-9]*[a-z0-9])?$"

declare(
    GivenEvaluation,
    Rule(
        path="environment",
        cel="!has(self.environment) "
        "|| self.environment.all(a, self.environment.exists_one(b, b.name == a.name))",
        sentence="must have sets of different names; rename one of two with the same name",
    ),
)
declare(
    NitroTrainingJob,
    Rule(
        path="metadata.name",
        cel=f"self.metadata.name.size() <= 40 && self.metadata.name.matches(r'{_JOB_NAME}')",
        sentence="must be at most 40 lower-case letters, digits and hyphens, a letter first; rename the job",
    ),
)
declare(
    GivenSpec,
    matching("code", "^[0-9a-f]{64}$", "must be the 64 hexadecimal digits that `nitro code` says; copy them"),
)
declare(
    GivenEnvironment,
    Rule(
        path="id",
        cel="has(self.id) || has(self.entryPoint)",
        sentence="is required without entryPoint; give id, such as Hopper-v5, or entryPoint",
    ),
    matching(
        "id", _ID, "must be an environment id such as Hopper-v5 or ALE/Pong-v5; remove other characters"
    ),
    matching("entryPoint", ENTRY_POINT, "must be module:attribute; write it as my_package.environments:make"),
    Rule(
        path="envsPerActor",
        cel="!has(self.envsPerActor) || !has(self.rolloutLength) || self.envsPerActor == 0 "
        "|| self.rolloutLength % self.envsPerActor == 0",
        sentence="must divide rolloutLength; choose a divisor of rolloutLength",
    ),
)
declare(
    GivenStop,
    Rule(
        path="duration",
        cel=f"!has(self.duration) || (self.duration.matches(r'{DURATION_PATTERN}') "
        "&& self.duration.matches('[1-9]'))",
        sentence="must be a length of time above zero; write it as 45s, 90m or 2h30m",
    ),
)
declare(
    GivenBackend,
    *(
        Rule(
            path=block,
            cel=f"self.type == '{name}' || !has(self.{block})",
            sentence=f"is only allowed with type: {name}; remove the block or set type: {name}",
        )
        for name, block in (("Knative", "knative"), ("Lambda", "lambda"), ("Local", "local"))
    ),
)
declare(
    CheckpointVolume,
    Rule(
        path="claimName",
        cel="!has(self.claimName) || (!has(self.size) && !has(self.storageClassName))",
        sentence="excludes size and storageClassName, which a claim of the operator's has; remove either",
    ),
    Rule(
        path="retain",
        cel="!has(self.claimName) || self.retain",
        sentence="must be true with claimName, because a claim of yours always stays; remove retain",
    ),
    Rule(
        path="size",
        cel=f"!has(self.size) || (self.size.matches(r'{QUANTITY_PATTERN}') "
        "&& quantity(self.size).isGreaterThan(quantity('0')))",
        sentence="must be an amount of storage above zero; write it as 500Mi or 10Gi",
    ),
)
declare(
    Checkpoint,
    Rule(
        path="s3",
        cel="!has(self.s3) || !has(self.pvc)",
        sentence="excludes pvc, because a run is kept in one place; remove either",
    ),
)
declare(
    CheckpointBucket,
    Rule(
        path="bucket",
        cel=f"self.bucket.matches(r'{_BUCKET}')",
        sentence="must be lower-case letters, digits, dots and hyphens, as S3 names buckets; correct it",
    ),
    Rule(
        path="endpointUrl",
        cel="!has(self.endpointUrl) || self.endpointUrl.matches('^https?://[^/]+')",
        sentence="must be a URL; write it as https://host:port",
    ),
)


_PROJECT = "^[^/\\\\#?%:]+$"
# No user and password: the job is recorded itself, and whoever may read jobs reads it.
_URI = "^(file:///[^?#]+|https?://[^/@?#]+(/[^@?#]*)?)$"

declare(
    WandbTracking,
    matching("project", _PROJECT, "must have none of / \\ # ? % : as W&B names projects; remove them"),
)
declare(
    MlflowTracking,
    matching(
        "trackingUri",
        _URI,
        "must be a tracking server or a file store, without credentials; write it as "
        "https://mlflow.example.com or file:///mlflow",
    ),
)
