"""`/openapi.json` and `/me`: the document itself, and who asks; and whatever is not there."""

from __future__ import annotations

from typing import Any, Final

from tornado.web import HTTPError

from reprise_server.api.base import Asked, Endpoint, operation
from reprise_server.api.governance import may_govern, may_personally
from reprise_server.api.refusals import Refused


class DocumentEndpoint(Endpoint):
    path = "/openapi.json"
    auth_resource = "reprise"

    @operation("read")
    async def get(self, _: Asked) -> Any:
        return self.service.described(self.base_url)


class MeEndpoint(Endpoint):
    path = "/me"
    auth_resource = "reprise"

    @operation("read")
    async def get(self, _: Asked) -> Any:
        login = await self.service.login()
        settings = self.service.settings
        return {
            "name": self.person.name,
            "anonymous": self.person.anonymous,
            "login": login,
            "personal": may_personally(self.person, login, settings).to_json(),
            "governance": may_govern(self.person, login, settings).to_json(),
        }


class Nothing(Endpoint):
    """Every other path: answered in the one shape, and only to who may ask."""

    path = ""
    auth_resource = "reprise"

    async def _admit(self, _: str) -> None:
        if not self.current_user:
            raise HTTPError(403)
        raise Refused(404, "not-found", "There is nothing here; openapi.json lists what there is.")


ENDPOINTS: Final = (DocumentEndpoint, MeEndpoint)
