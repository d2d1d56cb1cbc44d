"""The AWS Lambda functions of jobs: desired state, observed state and controller."""

from nitro_operator.functions import finalizer
from nitro_operator.functions.aws import Aws
from nitro_operator.functions.controller import FunctionController
from nitro_operator.functions.state import NOT_SEEN, FunctionState, Want

__all__ = ["NOT_SEEN", "Aws", "FunctionController", "FunctionState", "Want", "finalizer"]
