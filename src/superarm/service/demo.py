"""A service with a catalogue and simulated users, to look at."""

from superarm.service.server import Options


def serve(options: Options) -> None:
    """Serve with simulated users."""
    raise NotImplementedError(options)
