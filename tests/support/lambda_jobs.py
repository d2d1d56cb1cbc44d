"""A job whose actors are invocations of a Lambda function."""

from nitro_api import NitroTrainingJob, load_job

LAMBDA_JOB = """\
apiVersion: nitro.dev/v1alpha1
kind: NitroTrainingJob
metadata: {name: hopper, namespace: rl}
spec:
  environment: {id: Hopper-v5}
  backend:
    type: Lambda
    lambda:
      image: 123456789012.dkr.ecr.us-east-2.amazonaws.com/nitro-actor:0.1.0
      roleArn: arn:aws:iam::123456789012:role/nitro-actor
"""


def lambda_job(*changes: str) -> NitroTrainingJob:
    """The job with the changes `PATH=VALUE`, every rule checked."""
    return load_job(LAMBDA_JOB, changes)
