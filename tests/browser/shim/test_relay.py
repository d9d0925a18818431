"""The relay of the custom node, loaded as ComfyUI loads it, against raw requests and a daemon that records."""

import asyncio
import importlib.util
import json
import os
import sys
import tempfile
import types
import unittest

from aiohttp import ClientSession, WSMsgType, WSServerHandshakeError, web
from aiohttp.test_utils import unused_port
from multidict import CIMultiDict

PACK = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../../panel-wasm/comfyui")
SECRET = "0123456789abcdef" * 4


def load_pack():
    """Imports the pack with a stand-in for ComfyUI's server module; returns the package and its routes."""
    routes = web.RouteTableDef()
    server = types.ModuleType("server")
    server.PromptServer = types.SimpleNamespace(instance=types.SimpleNamespace(routes=routes))
    sys.modules["server"] = server
    spec = importlib.util.spec_from_file_location("relay_pack", os.path.join(PACK, "__init__.py"), submodule_search_locations=[PACK])
    package = importlib.util.module_from_spec(spec)
    sys.modules["relay_pack"] = package
    spec.loader.exec_module(package)
    return package, routes


PACKAGE, ROUTES = load_pack()
RELAY = sys.modules["relay_pack.relay"]


async def listen(app):
    """Serves an application on a free loopback port."""
    runner = web.AppRunner(app, shutdown_timeout=0.2)
    await runner.setup()
    port = unused_port()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    return runner, port


class Refusals(unittest.TestCase):
    """`refusal` decides on headers, peer and port alone."""

    def setUp(self):
        os.environ.pop("COMFY_ORCHESTRATOR_ORIGINS", None)

    def ask(self, peer="127.0.0.1", need_origin=True, **headers):
        good = {"Host": "127.0.0.1:8188", "Origin": "http://127.0.0.1:8188"}
        good.update({name.replace("_", "-"): value for name, value in headers.items()})
        return RELAY.refusal(CIMultiDict({k: v for k, v in good.items() if v is not None}), peer, 8188, need_origin)

    def test_same_origin_on_loopback_passes(self):
        self.assertIsNone(self.ask())
        self.assertIsNone(self.ask(Sec_Fetch_Site="same-origin"))
        self.assertIsNone(self.ask(Host="localhost:8188", Origin="http://localhost:8188"))
        self.assertIsNone(self.ask(Host="[::1]:8188", Origin="http://[::1]:8188", peer="::1"))
        self.assertIsNone(self.ask(peer="::ffff:127.0.0.1"))

    def test_origin_is_required_and_exact(self):
        self.assertEqual(self.ask(Origin=None), "origin_missing")
        for bad in ("null", "", "http://127.0.0.1:8189", "http://localhost:8188", "http://evil.example", "file://",
                    "chrome-extension://abc", "http://127.0.0.1:8188/x", "http://user@127.0.0.1:8188",
                    "http://127.0.0.1:99999", "http://127.0.0.1:8188 http://evil.example"):
            self.assertEqual(self.ask(Origin=bad), "origin_not_allowed", bad)

    def test_host_is_literal(self):
        for bad in ("localhost.evil.example:8188", "127.0.0.1.nip.io:8188", "evil.example:8188", "evil.example",
                    "127.0.0.1:8189", "127.0.0.1", "127.0.0.1:8188@evil.example", "192.168.0.2:8188", "0.0.0.0:8188"):
            self.assertEqual(self.ask(Host=bad, Origin=f"http://{bad}" if "@" not in bad else "http://127.0.0.1:8188"),
                             "host_not_allowed", bad)

    def test_peer_fetch_metadata_and_forwarding(self):
        for peer in ("192.168.0.7", "10.0.0.1", "2001:db8::1", None, "garbage"):
            self.assertEqual(self.ask(peer=peer), "peer_not_loopback", peer)
        for site in ("cross-site", "same-site", "none"):
            self.assertEqual(self.ask(Sec_Fetch_Site=site), "cross_site", site)
        for name in RELAY.FORWARDING:
            self.assertEqual(self.ask(**{name: "127.0.0.1"}), "forwarded", name)

    def test_repeated_headers(self):
        headers = CIMultiDict([("Host", "127.0.0.1:8188"), ("Origin", "http://127.0.0.1:8188"), ("Origin", "http://evil.example")])
        self.assertEqual(RELAY.refusal(headers, "127.0.0.1", 8188), "repeated_header")
        headers = CIMultiDict([("Origin", "http://127.0.0.1:8188")])
        self.assertEqual(RELAY.refusal(headers, "127.0.0.1", 8188), "repeated_header")

    def test_a_named_origin_passes_behind_a_proxy_and_no_other(self):
        os.environ["COMFY_ORCHESTRATOR_ORIGINS"] = "https://comfy.example.com, http://localhost:9000"
        proxied = {"Origin": "https://comfy.example.com", "X_Forwarded_For": "10.0.0.9", "peer": "10.0.0.2"}
        self.assertIsNone(self.ask(Host="comfy.example.com", **proxied))
        self.assertIsNone(self.ask(Host="127.0.0.1:8188", **proxied))
        self.assertEqual(self.ask(Host="other.example.com", **proxied), "host_not_allowed")
        self.assertEqual(self.ask(Host="comfy.example.com", Origin="http://comfy.example.com"), "host_not_allowed")
        self.assertIsNone(self.ask(Host="localhost:9000", Origin="http://localhost:9000"))
        self.assertEqual(self.ask(Host="evil.example", Origin="https://evil.example"), "host_not_allowed")

    def test_status_needs_no_origin_but_believes_none_that_is_foreign(self):
        self.assertIsNone(self.ask(Origin=None, need_origin=False))
        self.assertIsNone(self.ask(Origin=None, need_origin=False, Sec_Fetch_Site="none"))
        self.assertEqual(self.ask(Origin="http://evil.example", need_origin=False), "origin_not_allowed")
        self.assertEqual(self.ask(Origin=None, need_origin=False, Sec_Fetch_Site="cross-site"), "cross_site")
        self.assertEqual(self.ask(Origin=None, need_origin=False, Host="evil.example"), "host_not_allowed")


class Relaying(unittest.IsolatedAsyncioTestCase):
    """A browser's socket through the relay to a daemon."""

    async def asyncSetUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        os.environ["COMFY_ORCHESTRATOR_HOME"] = self.scratch.name
        os.environ.pop("COMFY_ORCHESTRATOR_ORIGINS", None)
        self.write_token(SECRET)
        self.seen, self.frames, self.close_codes, self.runners = [], [], asyncio.Queue(), []
        daemon = web.Application()
        daemon.router.add_get("/ws", self.daemon_socket)
        runner, port = await listen(daemon)
        self.runners.append(runner)
        os.environ["COMFYUI_MCP_BRIDGE_PORT"] = str(port)
        comfy = web.Application()
        comfy.add_routes(ROUTES)
        runner, self.port = await listen(comfy)
        self.runners.append(runner)
        self.session = ClientSession()

    async def asyncTearDown(self):
        await self.session.close()
        for runner in self.runners:
            await runner.cleanup()
        self.scratch.cleanup()

    def write_token(self, text):
        with open(os.path.join(self.scratch.name, "token"), "w", encoding="utf-8") as out:
            out.write(text + "\n")

    async def daemon_socket(self, request):
        self.seen.append(dict(request.headers))
        if request.headers.get("Authorization") != f"Bearer {SECRET}":
            return web.Response(status=401)
        ws = web.WebSocketResponse(max_msg_size=32 << 20)
        await ws.prepare(request)
        async for message in ws:
            self.frames.append(len(message.data))
            if message.type is WSMsgType.TEXT and message.data == "close me":
                await ws.close(code=4001, message=b"one client per tab")
            elif message.type is WSMsgType.TEXT and message.data == "vanish":
                request.transport.abort()
            elif message.type is WSMsgType.TEXT:
                await ws.send_str("echo " + message.data)
        await self.close_codes.put(ws.close_code)
        return ws

    async def dial(self, **headers):
        origin = {"Origin": f"http://127.0.0.1:{self.port}"}
        return await self.session.ws_connect(f"http://127.0.0.1:{self.port}/comfy_orchestrator/ws",
                                             headers={**origin, **headers}, max_msg_size=32 << 20)

    async def closing(self, ws):
        message = await ws.receive(timeout=5)
        return ws.close_code, message.extra

    async def test_text_passes_both_ways_and_the_daemon_sees_a_native_client(self):
        ws = await self.dial()
        await ws.send_str('{"type":"hello"}')
        self.assertEqual(await ws.receive_str(timeout=5), 'echo {"type":"hello"}')
        big = "x" * (15 << 20)
        await ws.send_str(big)
        self.assertEqual(await ws.receive_str(timeout=10), "echo " + big)
        headers = self.seen[0]
        self.assertEqual(headers["Authorization"], f"Bearer {SECRET}")
        self.assertEqual(headers["X-ComfyUI-Url"], f"http://127.0.0.1:{self.port}")
        self.assertNotIn("Origin", headers)
        await ws.close(code=1000)
        self.assertEqual(await asyncio.wait_for(self.close_codes.get(), 5), 1000)

    async def test_close_codes_pass_both_ways(self):
        ws = await self.dial()
        await ws.close(code=4002, message=b"bye")
        self.assertEqual(await asyncio.wait_for(self.close_codes.get(), 5), 4002)
        ws = await self.dial()
        await ws.send_str("close me")
        self.assertEqual(await self.closing(ws), (4001, "one client per tab"))

    async def test_a_daemon_that_dies_closes_the_page_with_try_again(self):
        ws = await self.dial()
        await ws.send_str("vanish")
        code, reason = await self.closing(ws)
        self.assertEqual(code, 1013)
        self.assertIn("comfy-orchestrator", reason)

    async def test_no_daemon_no_token_and_a_refused_token_say_what_to_start(self):
        self.write_token("wrong")
        code, reason = await self.closing(await self.dial())
        self.assertEqual(code, 1013)
        self.assertIn("401", reason)
        self.assertNotIn("wrong", reason)
        self.write_token("")
        code, reason = await self.closing(await self.dial())
        self.assertEqual(code, 1013)
        self.assertIn("token", reason)
        self.write_token(SECRET)
        os.environ["COMFYUI_MCP_BRIDGE_PORT"] = str(unused_port())
        code, reason = await self.closing(await self.dial())
        self.assertEqual(code, 1013)
        self.assertIn("start comfy-orchestrator", reason)

    async def test_binary_and_oversize_frames_end_the_socket(self):
        ws = await self.dial()
        await ws.send_bytes(b"\0")
        self.assertEqual((await self.closing(ws))[0], 1003)
        ws = await self.dial()
        try:
            await ws.send_str("x" * ((16 << 20) + 1))
        except ConnectionError:
            pass  # the relay may hang up while the rest is still on its way
        self.assertIn((await self.closing(ws))[0], (1009, 1006))
        await asyncio.wait_for(self.close_codes.get(), 5)
        await asyncio.wait_for(self.close_codes.get(), 5)
        self.assertEqual(self.frames, [], "nothing of a refused frame reached the daemon")

    async def test_a_foreign_page_is_refused_before_the_upgrade_and_the_daemon_sees_nothing(self):
        for origin in ("http://evil.example", "null", f"http://localhost:{self.port}"):
            with self.assertRaises(WSServerHandshakeError) as caught:
                await self.dial(Origin=origin)
            self.assertEqual(caught.exception.status, 403)
        with self.assertRaises(WSServerHandshakeError):
            await self.dial(Host="evil.example")
        self.assertEqual(self.seen, [])

    async def test_status_tells_what_mends_and_never_the_token(self):
        url = f"http://127.0.0.1:{self.port}/comfy_orchestrator/status"
        async with self.session.get(url) as answer:
            body = await answer.text()
            self.assertEqual(json.loads(body), {"daemon": True, "port": int(os.environ["COMFYUI_MCP_BRIDGE_PORT"]), "token": True, "launch": "off", "mend": None})
            self.assertNotIn(SECRET, body)
        os.environ["COMFYUI_MCP_BRIDGE_PORT"] = str(unused_port())
        async with self.session.get(url) as answer:
            down = await answer.json()
            self.assertFalse(down["daemon"])
            self.assertIn("start comfy-orchestrator", down["mend"])
        async with self.session.get(url, headers={"Origin": "http://evil.example"}) as answer:
            self.assertEqual(answer.status, 403)


class Packaging(unittest.TestCase):
    """What ComfyUI looks for in a pack."""

    def test_web_directory_and_mappings(self):
        self.assertEqual(PACKAGE.WEB_DIRECTORY, "./web")
        self.assertEqual(PACKAGE.NODE_CLASS_MAPPINGS, {})


if __name__ == "__main__":
    unittest.main()
