"""Decides who may reach the daemon through ComfyUI, and pipes text frames both ways. It reads no frame.

Checked before any upgrade: the peer, Host, Origin, Sec-Fetch-Site and forwarding headers. A page behind a reverse
proxy, on another port or on another machine is admitted by naming its origin in COMFY_ORCHESTRATOR_ORIGINS
(comma-separated, such as `https://comfy.example.com`).
"""

import asyncio
import ipaddress
import json
import os
from urllib.parse import urlsplit

from aiohttp import ClientError, ClientSession, ClientTimeout, WSMsgType, WSServerHandshakeError, web

from . import place
from .launch import LAUNCHER

MAX_FRAME_BYTES = 16 * 1024 * 1024
CONNECT_SECONDS = 3
TRY_AGAIN_LATER = 1013
LOST_DAEMON = (TRY_AGAIN_LATER, "the connection to comfy-orchestrator was lost: see that it runs")
FORWARDING = ("Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-IP", "Via")
LOOPBACK_NAMES = {"localhost", "127.0.0.1", "::1"}
DEFAULT_PORTS = {"http": 80, "https": 443}


def _origin_parts(text):
    """(scheme, host, port) of an origin, or None when it is not exactly one."""
    try:
        parts = urlsplit(text)
        port = parts.port or DEFAULT_PORTS.get(parts.scheme)
    except ValueError:
        return None
    extra = parts.path or parts.query or parts.fragment or "@" in parts.netloc
    return None if extra or not parts.hostname or port is None else (parts.scheme, parts.hostname, port)


def configured_origins():
    """Origins a person named, for set-ups that the strict rule does not cover."""
    named = os.environ.get("COMFY_ORCHESTRATOR_ORIGINS", "").split(",")
    return {parts for parts in (_origin_parts(text.strip().rstrip("/")) for text in named) if parts}


def _is_loopback(address):
    try:
        peer = ipaddress.ip_address(address.split("%")[0])
    except (AttributeError, ValueError):
        return False
    return (getattr(peer, "ipv4_mapped", None) or peer).is_loopback


def refusal(headers, peer, own_port, need_origin=True):
    """Why this request is turned away, as a stable code, or None when it may pass."""
    if len(headers.getall("Origin", [])) > 1 or len(headers.getall("Host", [])) != 1:
        return "repeated_header"
    text = headers.get("Origin")
    if text is None and need_origin:
        return "origin_missing"
    origin = None if text is None else _origin_parts(text)
    if text is not None and (origin is None or origin[0] not in DEFAULT_PORTS):
        return "origin_not_allowed"
    if headers.get("Sec-Fetch-Site", "same-origin") not in (("same-origin",) if need_origin else ("same-origin", "none")):
        return "cross_site"
    scheme = origin[0] if origin else "http"
    host = _origin_parts(f"{scheme}://{headers['Host']}")
    own_host = host is not None and host[1] in LOOPBACK_NAMES and host[2] == own_port
    if origin is not None and origin in configured_origins():
        same = host is not None and host[1:] == origin[1:]
        return None if own_host or same else "host_not_allowed"
    if not _is_loopback(peer):
        return "peer_not_loopback"
    if any(name in headers for name in FORWARDING):
        return "forwarded"
    if not own_host:
        return "host_not_allowed"
    return None if origin is None or origin[1:] == host[1:] else "origin_not_allowed"


def _refused(request, need_origin):
    transport = request.transport
    peer, own = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
    reason = refusal(request.headers, peer[0] if peer else None, own[1] if own else None, need_origin)
    if reason is None:
        return None
    mend = "open ComfyUI at its own address, or name this page's origin in COMFY_ORCHESTRATOR_ORIGINS"
    return web.json_response({"error": {"code": reason, "mend": mend}}, status=403)


def _own_url(request):
    scheme = "https" if request.transport.get_extra_info("sslcontext") else "http"
    return f"{scheme}://127.0.0.1:{request.transport.get_extra_info('sockname')[1]}"


async def _dial(session, request, capability):
    headers = {"Authorization": f"Bearer {capability}", "X-ComfyUI-Url": _own_url(request)}
    connecting = session.ws_connect(f"http://127.0.0.1:{place.port()}/ws", headers=headers,
                                    max_msg_size=MAX_FRAME_BYTES, heartbeat=20, autoclose=False)
    return await asyncio.wait_for(connecting, CONNECT_SECONDS)


async def _pipe(source, target, lost):
    """Passes text on until the source ends; returns the close code and reason to hand on."""
    while True:
        message = await source.receive()
        if message.type is WSMsgType.TEXT:
            await target.send_str(message.data)
        elif message.type is WSMsgType.CLOSE:
            return (1000, "") if message.data in (None, 1005) else (message.data, message.extra or "")
        elif message.type is WSMsgType.BINARY:
            return 1003, "only text frames are relayed"
        else:
            return (1009, "a frame is over 16 MiB") if source.close_code == 1009 else lost


async def _close(end, code, reason):
    await end.close(code=code, message=reason.encode()[:123].decode(errors="ignore").encode())


async def socket(request):
    """`GET /comfy_orchestrator/ws`: the relay."""
    if refused := _refused(request, need_origin=True):
        return refused
    page = web.WebSocketResponse(max_msg_size=MAX_FRAME_BYTES, heartbeat=20, autoclose=False)
    await page.prepare(request)

    async def later(reason):
        await _close(page, TRY_AGAIN_LATER, reason)
        return page

    if not (capability := place.token()):
        return await later(f"no token in {place.home()}: start comfy-orchestrator once")
    async with ClientSession(timeout=ClientTimeout(total=None)) as session:
        try:
            daemon = await _dial(session, request, capability)
        except WSServerHandshakeError as failure:
            return await later(f"port {place.port()} answered {failure.status}: restart comfy-orchestrator with this home")
        except (ClientError, OSError, asyncio.TimeoutError):
            return await later(f"nothing on port {place.port()}: start comfy-orchestrator")
        inward = asyncio.ensure_future(_pipe(page, daemon, (1001, "the page went away")))
        outward = asyncio.ensure_future(_pipe(daemon, page, LOST_DAEMON))
        try:
            await asyncio.wait((inward, outward), return_when=asyncio.FIRST_COMPLETED)
            way = outward if outward.done() else inward
            code, reason = LOST_DAEMON if way.exception() else way.result()
            await asyncio.gather(_close(daemon, code, reason), _close(page, code, reason), return_exceptions=True)
        finally:
            inward.cancel()
            outward.cancel()
            await asyncio.gather(inward, outward, return_exceptions=True)
    return page


async def status(request):
    """`GET /comfy_orchestrator/status`: whether the daemon can be reached, and what mends it if not."""
    if refused := _refused(request, need_origin=False):
        return refused
    port, present = place.port(), place.token() is not None
    try:
        _, writer = await asyncio.wait_for(asyncio.open_connection("127.0.0.1", port), CONNECT_SECONDS)
        writer.close()
        reachable = True
    except (OSError, asyncio.TimeoutError):
        reachable = False
    mend = LAUNCHER.problem or f"start comfy-orchestrator (port {port}, home {place.home()})"
    told = {"daemon": reachable, "port": port, "token": present, "launch": LAUNCHER.state,
            "mend": None if reachable and present else mend}
    return web.Response(text=json.dumps(told),
                        content_type="application/json", headers={"Cache-Control": "no-store"})
