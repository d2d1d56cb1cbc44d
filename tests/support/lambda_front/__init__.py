"""A stand-in for AWS Lambda's own service, for tests: the Invoke API in front of real sandboxes.

What is AWS's here is imitated: the Invoke API, the Runtime API, throttling, the bill. What is ours is real:
every sandbox is a process of the actor image's own entry point under the real awslambdaric.

    async with serve(Front(functions={"nitro": Function(environment={...})})) as (front, url): ...

or as a process of its own, see __main__.py.
"""

from lambda_front.front import Front, serve
from lambda_front.knobs import Function, Knobs

__all__ = ["Front", "Function", "Knobs", "serve"]
