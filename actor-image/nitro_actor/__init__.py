"""Nitro's serverless actor: environments, policy inference, rollout, wire format and HTTP server.

Importing the package imports nothing else: the server sets the thread count before numpy loads.
"""

PROTOCOL_VERSION = 2
"""Version of the request, weights and fragment formats. A request of another version is refused."""
