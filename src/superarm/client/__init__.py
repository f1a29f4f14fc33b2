"""Clients of the service, with the words of `Agent`."""

from superarm.client.clients import AsyncClient, Client
from superarm.client.remote import AsyncRemoteAgent, RemoteAgent
from superarm.client.replies import (
    AgentInfo,
    Erased,
    Evaluation,
    ItemsPut,
    ItemsRemoved,
    RemoteDecision,
    Taken,
)

__all__ = [
    "AgentInfo",
    "AsyncClient",
    "AsyncRemoteAgent",
    "Client",
    "Erased",
    "Evaluation",
    "ItemsPut",
    "ItemsRemoved",
    "RemoteAgent",
    "RemoteDecision",
    "Taken",
]
