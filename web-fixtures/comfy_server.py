#!/usr/bin/env python3
"""Serves the real ComfyUI frontend over a stand-in API, for tests and the demo. Needs only aiohttp.

Prints one JSON line once it listens: {"ready": true, "url": ..., "user": ..., "packs": [...]}.
It listens on loopback only; any other address is refused.
"""

import argparse
import asyncio
import ipaddress
import json
import mimetypes
import os
import shutil
import socket
import sys
import tempfile

from aiohttp import web

from comfy.execution import worker
from comfy.manager import manager_routes
from comfy.packs import load_packs
from comfy.routes import api_routes
from comfy.state import Comfy
from comfy.userdata import userdata_routes

HERE = os.path.dirname(os.path.realpath(__file__))

for _kind, _suffix in (("application/wasm", ".wasm"), ("text/javascript", ".js"), ("text/javascript", ".mjs")):
    mimetypes.add_type(_kind, _suffix)


def arguments(argv):
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", default="127.0.0.1", help="a loopback address")
    parser.add_argument("--port", type=int, default=0, help="0 picks a free one")
    parser.add_argument("--static", required=True, help="the frontend package's static folder")
    parser.add_argument("--object-info", default=os.path.join(HERE, "data", "object_info.json"))
    parser.add_argument("--pack", action="append", default=[], help="a custom node pack; may be repeated")
    parser.add_argument("--user", help="folder for settings and user data; a scratch folder when absent")
    parser.add_argument("--step-ms", type=int, default=20, help="how long each node of a run takes")
    return parser.parse_args(argv)


def loopback_socket(host, port):
    """Binds, or ends the program when the address is not loopback."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        address = None
    if address is None or not address.is_loopback:
        sys.exit(f"refusing to listen on {host}: give a loopback address such as 127.0.0.1")
    listener = socket.socket(socket.AF_INET6 if address.version == 6 else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((host, port))
    return listener


@web.middleware
async def caching(request, handler):
    """Hashed assets may be kept for ever, which lets a reload use compiled scripts; all else is asked for again."""
    response = await handler(request)
    if not response.prepared:
        kept = request.path.startswith("/assets/") and response.status == 200
        response.headers.setdefault("Cache-Control", "public, max-age=31536000, immutable" if kept else "no-cache")
    return response


def build(options, user, port):
    """Puts the application together: packs first, because their routes must stand before the static files."""
    with open(options.object_info, encoding="utf-8") as stored:
        object_info = json.load(stored)
    comfy = Comfy(object_info=object_info, user_dir=os.path.realpath(user),
                  static_dir=os.path.realpath(options.static), step_ms=options.step_ms)
    app = web.Application(client_max_size=1 << 28, middlewares=[caching])
    pack_routes, scratch = load_packs(comfy, app, port, options.pack)
    for table in (api_routes(comfy), manager_routes(comfy), userdata_routes(comfy), pack_routes):
        for route in table:
            if isinstance(route, web.RouteDef):
                app.router.add_route(route.method, route.path, route.handler, **route.kwargs)
                app.router.add_route(route.method, "/api" + route.path, route.handler, **route.kwargs)
    for name, directory in comfy.packs.items():
        if directory:
            app.router.add_static("/extensions/" + name, directory, follow_symlinks=True)

    async def index(request):
        return web.FileResponse(os.path.join(comfy.static_dir, "index.html"))

    app.router.add_get("/", index)
    app.router.add_static("/", comfy.static_dir)

    async def running(_app):
        task = asyncio.create_task(worker(comfy))
        yield
        task.cancel()
        shutil.rmtree(scratch, ignore_errors=True)

    async def closing(_app):
        for ws in list(comfy.sockets.values()):
            await ws.close(code=1001)

    app.cleanup_ctx.append(running)
    app.on_shutdown.append(closing)
    return app, comfy


def main(argv=None):
    """Runs until it is told to stop."""
    options = arguments(argv)
    if not os.path.isfile(os.path.join(options.static, "index.html")):
        sys.exit(f"no index.html in {options.static}: name the frontend package's static folder")
    listener = loopback_socket(options.host, options.port)
    port = listener.getsockname()[1]
    own_user = None if options.user else tempfile.mkdtemp(prefix="comfy-user-")
    user = options.user or own_user
    try:
        app, comfy = build(options, user, port)
        host = f"[{options.host}]" if ":" in options.host else options.host
        ready = {"ready": True, "url": f"http://{host}:{port}", "user": os.path.realpath(user), "packs": list(comfy.packs)}

        async def announce(_app):
            print(json.dumps(ready), flush=True)

        app.on_startup.append(announce)
        listener.listen(128)
        web.run_app(app, sock=listener, print=None, access_log=None, shutdown_timeout=0.5)
    finally:
        if own_user:
            shutil.rmtree(own_user, ignore_errors=True)


if __name__ == "__main__":
    main()
