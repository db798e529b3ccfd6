"""The connections of aiobotocore, with a limit on requests whose server takes no bytes."""

import asyncio
from typing import Any

from aiobotocore.httpsession import AIOHTTPSession
from botocore.exceptions import ReadTimeoutError

from .limits import sending_limit


class LimitedSession(AIOHTTPSession):  # type: ignore[misc]  # it has no types
    """Sends requests with a time limit.

    aiohttp limits how long an answer takes, but not how long it takes to send.
    """

    async def send(self, request: Any) -> Any:
        """Send a request.

        Raises ReadTimeoutError if it is not answered in time. The limit depends on the size of the
        request.
        """
        size = int(request.headers.get("Content-Length") or 0)
        try:
            return await asyncio.wait_for(super().send(request), sending_limit(size))
        except asyncio.TimeoutError as error:
            raise ReadTimeoutError(endpoint_url=request.url, error=error) from None
