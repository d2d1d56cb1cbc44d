"""Pictures of a particle world, for videos."""

import numpy as np
from numpy.typing import NDArray

_SIZE = 400
"""Pixels of either side."""
_FIELD = 1.2
"""The smallest view: from minus this value to plus this value, along both axes."""


def draw(
    positions: NDArray[np.float64], radii: NDArray[np.float64], colors: NDArray[np.uint8]
) -> NDArray[np.uint8]:
    """Draw bodies as circles on white, each above those before it; the view grows until it holds them all.

    Args:
        positions: [M, 2], y upwards.
        radii: [M].
        colors: u8 [M, 3].

    Returns:
        u8 [400, 400, 3].
    """
    reach = max(_FIELD, float(np.max(np.abs(positions) + radii[:, None])))
    ticks = ((np.arange(_SIZE) + 0.5) / _SIZE * 2 - 1) * reach
    image = np.full((_SIZE, _SIZE, 3), 255, np.uint8)
    for (x, y), radius, color in zip(positions, radii, colors, strict=True):
        inside = (ticks[None, :] - x) ** 2 + (-ticks[:, None] - y) ** 2 <= radius**2
        image[inside] = color
    return image
