"""A client of the service, with the words of `Agent`."""
