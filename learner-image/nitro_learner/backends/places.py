"""Where requests go: to the awake pods by their addresses, or through Knative's activator.

The activator sends a request to any ready pod, also to one that sleeps. So the operator publishes the
addresses of the awake ones, and the earliest free one gets the next request. Without addresses, as from an
older operator, the activator is the one place there is.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from nitro_learner.backends.capacity import Capacity

PORT = 8012
"""Of Knative's queue-proxy in a pod. The actor behind it listens on the pod's loopback address."""

_PATIENCE_SECONDS = 30.0
"""How long a request waits for any address. An operator that is away wakes no pod; then it is better that
a sleeping pod does the work."""

logger = logging.getLogger(__name__)


@dataclass(eq=False)
class ActorPlace:
    """Where a request can be sent, and the number of those that are there."""

    url: str
    in_flight: int = 0
    refused: bool = False
    """Whether nothing listened there. It is left alone until the operator's next word."""
    doubtful: bool = False
    """Whether a request there was cut or turned away: somebody may still work there."""


class Places:
    """The places, and the requests that are there or wait for room::

    place = await places.acquire(priority)
    try:
        ...                     # send the request to place.url
    finally:
        places.release(place)

    Args:
        activator: URL of Knative's activator for these pods.
        limit: requests in flight at most, until the operator says more.
        per_pod: requests in flight at most at one address.
    """

    def __init__(self, activator: str, limit: int, *, per_pod: int = 1, port: int = PORT) -> None:
        self._activator = ActorPlace(activator)
        self._per_pod = per_pod
        self._port = port
        self._granted = limit
        self._ready: int | None = None
        self._by_address = False
        self._places: dict[str, ActorPlace] = {}
        """By address: those that are listed, and others while requests are there."""
        self._listed: list[ActorPlace] = []
        self._placed = 0
        """Requests in flight, wherever they are."""
        self._patience: asyncio.TimerHandle | None = None
        self._impatient = False
        """Whether requests go through the activator because no pod has been awake."""
        self._capacity = Capacity(limit)

    @property
    def limit(self) -> int:
        """Requests in flight at most, now; 0 while no pod is awake."""
        return self._capacity.limit

    @property
    def in_use(self) -> int:
        """The number of actors, from the first one on, among which all requests in flight are."""
        busy = [index for index, place in enumerate(self._listed, 1) if place.in_flight]
        needed = busy[-1] * self._per_pod if busy else 0
        if self._listed and self._activator.in_flight:  # with any of them
            needed = self._granted
        return max(needed, self._capacity.in_flight)

    @property
    def urls(self) -> list[str]:
        """Where an actor answers: at the addresses, in their order, and at the activator."""
        return [place.url for place in (*self._usable(), self._activator)]

    @property
    def free(self) -> bool:
        """Whether one more request would find an actor that is ready and free."""
        known = self._by_address or self._ready is None
        return self._capacity.outstanding < (self.limit if known else min(self.limit, self._ready or 0))

    def waits(self, place: ActorPlace) -> bool:
        """Whether a request there may wait for an actor: the activator holds it until one is ready."""
        return place is self._activator and (self._ready is None or self._capacity.in_flight > self._ready)

    def update(self, granted: int, ready: int | None, addresses: Sequence[str] | None) -> None:
        """Take what the operator says. Requests in flight go on where they are.

        Args:
            granted: requests in flight at most (>= 1).
            ready: actors that are ready; None where it is not known.
            addresses: of the awake pods; None where the operator publishes none.
        """
        self._granted, self._ready = granted, ready
        self._listed = [self._place(address) for address in addresses or ()]
        for place in self._listed:
            place.refused = False
        kept = {*self._listed, *(place for place in self._places.values() if place.in_flight)}
        self._places = {address: place for address, place in self._places.items() if place in kept}
        if addresses is None or addresses or not self._impatient:
            self._by_address, self._impatient = addresses is not None, False
        self._adjust()

    def refuse(self, place: ActorPlace) -> None:
        """Leave an address alone where nothing listens: its pod has gone."""
        if place is not self._activator:
            place.refused = True
            self._adjust()

    async def acquire(self, priority: int) -> ActorPlace:
        """Wait for room, and take the earliest free place."""
        while True:
            self._be_patient()
            await self._capacity.acquire(priority)
            place = self._free_place()
            if place is not None:
                place.in_flight += 1
                self._placed += 1
                return place
            self._capacity.release()  # the address went in this very moment

    def release(self, place: ActorPlace) -> None:
        """Give the room of a request back."""
        place.in_flight -= 1
        self._placed -= 1
        self._capacity.set_limit(self._room())
        self._capacity.release()

    def _place(self, address: str) -> ActorPlace:
        if address not in self._places:
            host = f"[{address}]" if ":" in address else address
            self._places[address] = ActorPlace(f"http://{host}:{self._port}")
        return self._places[address]

    def _usable(self) -> list[ActorPlace]:
        return [place for place in self._listed if not place.refused]

    def _free_place(self) -> ActorPlace | None:
        if not self._by_address:
            return self._activator
        free = [place for place in self._usable() if place.in_flight < self._per_pod]
        return min(free, key=lambda place: place.doubtful, default=None)  # of equal ones the earliest

    def _room(self) -> int:
        """Requests in flight at most: as many as were granted, and as find an actor that is awake."""
        if self._by_address:
            usable = self._usable()
            elsewhere = self._placed - sum(place.in_flight for place in usable)
            return min(self._granted, self._per_pod * len(usable) + elsewhere)
        if self._ready is None:
            return self._granted
        return min(self._granted, max(self._per_pod, self._ready))

    def _adjust(self) -> None:
        if self._patience is not None and (self._usable() or not self._by_address):
            self._patience.cancel()
            self._patience = None
        self._capacity.set_limit(self._room())

    def _be_patient(self) -> None:
        """Begin to count how long no address is there."""
        if self._by_address and not self._usable() and self._patience is None:
            loop = asyncio.get_running_loop()
            self._patience = loop.call_later(_PATIENCE_SECONDS, self._lose_patience)

    def _lose_patience(self) -> None:
        self._patience = None
        if not self._capacity.waiting:
            return
        logger.warning(
            "no pod was awake for %.0f s; requests go through Knative's activator", _PATIENCE_SECONDS
        )
        self._by_address, self._impatient = False, True
        self._adjust()
