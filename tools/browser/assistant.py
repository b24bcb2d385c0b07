"""A connection by the official Python client, from nothing to its last full check; prints what it saw as JSON.

Arguments: the URL of /mcp, the URL of the test that drives the browser, the client's mode, full checks to allow.
"""

import asyncio
import json
import sys
import urllib.request

import httpx2
from mcp import Client
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientMetadata

URL, BRIDGE, MODE, CHECKS = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])


class Memory:
    """Where the client keeps what it gets."""

    tokens = None
    client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client):
        self.client = client


class Browser:
    """The user's browser, which the test drives."""

    back = None

    async def go(self, url):
        self.back = await asyncio.to_thread(self.ask, url)

    @staticmethod
    def ask(url):
        body = json.dumps({"url": url, "checks": CHECKS, "days": 1}).encode()
        request = urllib.request.Request(f"{BRIDGE}/consent", body, {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    async def come_back(self):
        back = self.back
        return AuthorizationCodeResult(code=back["code"], state=back.get("state"), iss=back.get("iss"))


async def verify(client, email, mode):
    return await client.call_tool("verify_email", {"email": email, "mode": mode})


async def main():
    browser = Browser()
    metadata = OAuthClientMetadata(client_name="Python client", redirect_uris=[f"{BRIDGE}/callback"])
    auth = OAuthClientProvider(
        server_url=URL,
        client_metadata=metadata,
        storage=Memory(),
        redirect_handler=browser.go,
        callback_handler=browser.come_back,
    )
    async with httpx2.AsyncClient(auth=auth, timeout=60) as http:
        async with Client(streamable_http_client(URL, http_client=http), mode=MODE) as client:
            tools = [tool.name for tool in (await client.list_tools()).tools]
            full = []
            for number in range(1, CHECKS + 1):
                got = await verify(client, f"user-{number}@ok.example", "full")
                assert not got.is_error, got
                full.append(got.structured_content["full_checks_left"])
            refused = await verify(client, "bob@ok.example", "full")
            assert refused.is_error, refused
            fast = await verify(client, "joe@gmial.com", "fast")
            account = await client.call_tool("account", {})
            said = {
                "version": client.protocol_version,
                "tools": tools,
                "full": full,
                "refused": refused.content[0].text,
                "fast": fast.structured_content["reason"],
                "credits": account.structured_content["credits_remaining"],
            }
            print(json.dumps(said))


asyncio.run(main())
