"""The AWS Lambda functions of jobs: what they should be, what they are, and the way from one to the other."""

from nitro_operator.functions import finalizer
from nitro_operator.functions.aws import Aws
from nitro_operator.functions.keeper import Functions, Want
from nitro_operator.functions.state import NOT_SEEN, FunctionState

__all__ = ["NOT_SEEN", "Aws", "FunctionState", "Functions", "Want", "finalizer"]
