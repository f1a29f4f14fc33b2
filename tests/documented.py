"""Whether answers are as the OpenAPI document says."""

import re
from typing import Any

import jsonschema_rs

from superarm.service.http import ROUTES
from superarm.service.openapi import document


class Documented:
    """The OpenAPI document of the service, against which answers are held."""

    def __init__(self) -> None:
        self.document = document(ROUTES)
        self._validators: dict[str, Any] = {}
        self._addresses = [
            (re.compile(re.sub(r"\{[a-z]+\}", "[^/]+", path)), path)
            for path in self.document["paths"]
        ]

    def require(self, method: str, path: str, reply: Any) -> None:
        """The answer to a request is one that the document knows, with what it says is in it."""
        known = self._operation(method, path)
        if known is None:
            return
        answer = known["responses"].get(str(reply.status_code))
        assert answer is not None, (method, path, reply.status_code, reply.text)
        if "content" not in answer:
            assert not reply.content
            return
        ((media, content),) = answer["content"].items()
        assert reply.headers["content-type"] == media
        if media.endswith("json"):
            self._validator(content["schema"]["$ref"]).validate(reply.json())

    def _operation(self, method: str, path: str) -> Any:
        plain = path.split("?")[0]
        for pattern, address in self._addresses:
            if pattern.fullmatch(plain):
                return self.document["paths"][address].get(method.lower())
        return None

    def _validator(self, reference: str) -> Any:
        if reference not in self._validators:
            schema = {"$ref": reference, "components": self.document["components"]}
            self._validators[reference] = jsonschema_rs.Draft202012Validator(schema)
        return self._validators[reference]
