"""superarm as a service: decisions and feedback over HTTP, durable, each learned exactly once.

The append-only log is the truth, and what is believed is a fold over it.
"""
