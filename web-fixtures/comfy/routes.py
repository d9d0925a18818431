"""The HTTP and WebSocket API that a frontend boot and a run ask for, and the test-only `/fixture` control."""

import json
import os
import sys
import time
import urllib.parse
import uuid

from aiohttp import WSMsgType, web

from .execution import picture, validate
from .state import MODELS, Comfy, Prompt

VERSION = "0.3.64"
FEATURES = {"supports_preview_metadata": True, "max_upload_size": 104857600}


def _scripts(base):
    for folder, _, names in os.walk(base, followlinks=True):
        for name in sorted(names):
            if name.endswith(".js"):
                yield os.path.relpath(os.path.join(folder, name), base).replace(os.sep, "/")


def _system(comfy):
    return {
        "system": {"os": "posix", "ram_total": 1 << 34, "ram_free": 1 << 33, "comfyui_version": VERSION,
                   "required_frontend_version": None, "python_version": sys.version, "pytorch_version": "none",
                   "embedded_python": False, "argv": ["main.py"]},
        "devices": [{"name": "cpu", "type": "cpu", "index": None, "vram_total": 1 << 34, "vram_free": 1 << 33,
                     "torch_vram_total": 0, "torch_vram_free": 0}],
    }


def api_routes(comfy: Comfy) -> web.RouteTableDef:
    """Every route of the stand-in but user data, packs and static files."""
    routes = web.RouteTableDef()
    reply = web.json_response

    def constant(path, value):
        async def handler(request):
            return reply(value() if callable(value) else value)
        routes.get(path)(handler)

    constant("/features", FEATURES)
    constant("/users", {"storage": "server", "migrated": True})
    constant("/embeddings", [])
    constant("/models", list(MODELS))
    constant("/experiment/models", [{"name": name, "folders": []} for name in MODELS])
    constant("/workflow_templates", {})
    constant("/global_subgraphs", {})
    constant("/node_replacements", {})
    constant("/i18n", {})
    constant("/internal/logs/raw", {"entries": [], "size": {"cols": 80, "rows": 24}})
    constant("/internal/folder_paths", {})
    constant("/system_stats", lambda: _system(comfy))
    constant("/prompt", comfy.status)
    constant("/queue", lambda: {"queue_running": [comfy.running.as_tuple()] if comfy.running else [],
                                "queue_pending": [p.as_tuple() for p in comfy.pending]})

    @routes.get("/ws")
    async def socket(request):
        if comfy.muted():
            return web.Response(status=503)
        ws = web.WebSocketResponse()
        await ws.prepare(request)
        client = request.query.get("clientId") or uuid.uuid4().hex
        comfy.sockets[client] = ws
        await comfy.send("status", {**comfy.status(), "sid": client}, client)
        async for message in ws:
            if message.type == WSMsgType.TEXT and '"feature_flags"' in message.data:
                await comfy.send("feature_flags", FEATURES, client)
        if comfy.sockets.get(client) is ws:
            comfy.sockets.pop(client)
        return ws

    @routes.get("/object_info")
    async def object_info(request):
        return web.Response(body=comfy.object_info_body, content_type="application/json")

    @routes.get("/object_info/{name}")
    async def one_object_info(request):
        name = request.match_info["name"]
        return reply({name: comfy.object_info[name]} if name in comfy.object_info else {})

    @routes.get("/models/{folder}")
    async def models(request):
        return reply(MODELS.get(request.match_info["folder"], []))

    @routes.get("/experiment/models/{folder}")
    async def experiment_models(request):
        names = MODELS.get(request.match_info["folder"], [])
        return reply([{"name": name, "pathIndex": 0} for name in names])

    @routes.get("/extensions")
    async def extensions(request):
        found = ["/extensions/" + path for path in _scripts(os.path.join(comfy.static_dir, "extensions"))]
        for name, directory in comfy.packs.items():
            if directory:
                found += [f"/extensions/{urllib.parse.quote(name)}/{path}" for path in _scripts(directory)]
        return reply(found)

    @routes.get("/settings")
    async def settings(request):
        return reply(comfy.settings)

    @routes.get("/settings/{key}")
    async def setting(request):
        return reply(comfy.settings.get(request.match_info["key"]))

    @routes.post("/settings")
    async def store_settings(request):
        comfy.settings.update(await request.json())
        comfy.save_settings()
        return web.Response()

    @routes.post("/settings/{key}")
    async def store_setting(request):
        comfy.settings[request.match_info["key"]] = await request.json()
        comfy.save_settings()
        return web.Response()

    @routes.post("/prompt")
    async def queue_prompt(request):
        body = await request.json()
        graph = body.get("prompt")
        if not isinstance(graph, dict):
            return reply({"error": {"type": "no_prompt", "message": "No prompt provided", "details": "",
                                    "extra_info": {}}, "node_errors": {}}, status=400)
        outputs, error, node_errors = validate(comfy, graph)
        if error:
            return reply({"error": error, "node_errors": node_errors}, status=400)
        number = comfy.counter
        comfy.counter += 1
        extra = {**(body.get("extra_data") or {}), "client_id": body.get("client_id")}
        prompt = Prompt(number, body.get("prompt_id") or str(uuid.uuid4()), graph, extra, outputs)
        comfy.pending.insert(0, prompt) if body.get("front") else comfy.pending.append(prompt)
        comfy.wake.set()
        await comfy.send("status", comfy.status())
        return reply({"prompt_id": prompt.prompt_id, "number": number, "node_errors": node_errors})

    @routes.post("/queue")
    async def edit_queue(request):
        body = await request.json()
        gone = set(body.get("delete") or [])
        comfy.pending[:] = [] if body.get("clear") else [p for p in comfy.pending if p.prompt_id not in gone]
        await comfy.send("status", comfy.status())
        return web.Response()

    @routes.post("/interrupt")
    async def interrupt(request):
        body = json.loads(await request.text() or "{}")
        wanted = body.get("prompt_id")
        if comfy.running and wanted in (None, comfy.running.prompt_id):
            comfy.interrupted = True
        return web.Response()

    @routes.post("/free")
    async def free(request):
        return web.Response()

    @routes.get("/history")
    async def history(request):
        items = list(comfy.history.items())
        limit = int(request.query.get("max_items") or 0)
        return reply(dict(items[-limit:] if limit else items))

    @routes.get("/history/{prompt_id}")
    async def one_history(request):
        key = request.match_info["prompt_id"]
        return reply({key: comfy.history[key]} if key in comfy.history else {})

    @routes.post("/history")
    async def edit_history(request):
        body = await request.json()
        for key in list(comfy.history) if body.get("clear") else body.get("delete", []):
            comfy.history.pop(key, None)
        return web.Response()

    @routes.get("/jobs")
    async def jobs(request):
        wanted = (request.query.get("status") or "").split(",")
        now, rows = int(time.time() * 1000), []
        if "in_progress" in wanted and comfy.running:
            rows.append({"id": comfy.running.prompt_id, "status": "in_progress", "create_time": now, "outputs_count": 0})
        if "pending" in wanted:
            rows += [{"id": p.prompt_id, "status": "pending", "create_time": now, "outputs_count": 0} for p in comfy.pending]
        if "completed" in wanted:
            rows += [{"id": key, "status": "completed", "create_time": entry["created"],
                      "outputs_count": len(entry["outputs"])} for key, entry in reversed(comfy.history.items())]
        limit, offset = int(request.query.get("limit") or 200), int(request.query.get("offset") or 0)
        return reply({"jobs": rows[offset:offset + limit],
                      "pagination": {"offset": offset, "limit": limit, "total": len(rows),
                                     "has_more": offset + limit < len(rows)}})

    @routes.get("/view")
    async def view(request):
        return web.Response(body=picture(request.query.get("filename", "")), content_type="image/png")

    @routes.post("/upload/image")
    async def upload(request):
        form = await request.post()
        return reply({"name": form["image"].filename, "subfolder": "", "type": "input"})

    @routes.get("/user.css")
    async def user_css(request):
        return web.Response(text="", content_type="text/css")

    @routes.get("/fixture")
    async def fixture(request):
        return reply({"clients": list(comfy.sockets), "pending": [p.prompt_id for p in comfy.pending],
                      "running": comfy.running.prompt_id if comfy.running else None, "history": list(comfy.history),
                      "packs": list(comfy.packs), "jobs": list(comfy.manager.history), "uptime_s": time.time() - comfy.started})

    @routes.post("/fixture")
    async def control(request):
        body = await request.json()
        if "step_ms" in body:
            comfy.step_ms = int(body["step_ms"])
        if "failing_class" in body:
            comfy.failing_class = body["failing_class"]
        if "caches" in body:
            comfy.caches = bool(body["caches"])
        if "drop_sockets_ms" in body:
            comfy.muted_until = time.monotonic() + body["drop_sockets_ms"] / 1000
            for ws in list(comfy.sockets.values()):
                await ws.close(code=1001)
        if "manager" in body:
            comfy.manager.set(body["manager"])
        if "send" in body:
            await comfy.send(body["send"]["type"], body["send"]["data"])
        return reply({"ok": True})

    return routes
