"""The controller of Lambda functions killed between every two steps: the end state is the same.

Kubernetes' API is a real server; AWS's is the stand-in of aws_support. A kill is an exception that nothing
catches, thrown when a call has taken effect and before its answer is read. From there to the next call
nothing happens outside of the process, so these are all the places that differ. What comes after remembers
nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable

import pytest

from aws_support import IMAGE
from functions_support import World


async def every_place(scenario: Callable[[int], Awaitable[bool]]) -> int:
    """Run a scenario with a kill at the first place, the second and so on; how many places there were."""
    for place in itertools.count():
        if not await scenario(place):
            return place
    raise AssertionError("unreachable")


@pytest.mark.slow
class TestKilled:
    async def test_while_it_makes_a_function(self, world: World) -> None:
        async def scenario(place: int) -> bool:
            key = await world.new_job()
            killed = await world.live(key, kill_at=place)
            if killed:
                assert not await world.live(key)
            await world.check_it_is_right(key)
            return killed

        assert await every_place(scenario) >= 10

    async def test_while_it_makes_a_function_of_a_job_that_is_deleted_meanwhile(self, world: World) -> None:
        async def scenario(place: int) -> bool:
            key = await world.new_job()
            killed = await world.live(key, kill_at=place)
            await world.delete(key)
            if await world.job(key) is not None:
                assert not await world.live(key)
            await world.check_nothing_is_left(key)
            return killed

        assert await every_place(scenario) >= 10

    async def test_while_it_repairs_changes_of_others(self, world: World) -> None:
        key = await world.new_job()
        await world.live(key)
        name = {"FunctionName": f"nitro-{world.namespace}_{key.name}"}
        client, arn = world.service.client(), world.function(key)["Configuration"]["FunctionArn"]

        async def scenario(place: int) -> bool:
            client.update_function_configuration(**name, MemorySize=3008, Timeout=3)
            client.update_function_code(**name, ImageUri=IMAGE.replace("0.1.0", "0.0.9"))
            client.untag_resource(Resource=arn, TagKeys=["team"])
            client.put_function_concurrency(**name, ReservedConcurrentExecutions=1)
            killed = await world.live(key, kill_at=place)
            if killed:
                assert not await world.live(key)
            await world.check_it_is_right(key)
            return killed

        assert await every_place(scenario) >= 10

    async def test_while_it_removes_a_function(self, world: World) -> None:
        async def scenario(place: int) -> bool:
            key = await world.new_job()
            await world.live(key)
            await world.delete(key)
            killed = await world.live(key, kill_at=place)
            if killed and await world.job(key) is not None:
                assert not await world.live(key)
            await world.check_nothing_is_left(key)
            return killed

        assert await every_place(scenario) >= 3
