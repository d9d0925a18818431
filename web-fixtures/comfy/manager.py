"""ComfyUI-Manager 4 as far as its queue goes: tasks are taken, worked off one by one once started, and kept in a history that a
restart forgets. It is not there until `/fixture` is told `{"manager": {…}}`: `ms` (how long a task takes), `fails` (names that
end in an error), `level` (`weak` refuses every task with 403)."""

import asyncio
import time

from aiohttp import web


class Manager:
    """The queue and its worker."""

    def __init__(self):
        self.options, self.pending, self.running, self.history, self.worker = None, [], {}, {}, None

    def set(self, options):
        """How it behaves from now on; None: it is not there."""
        self.options = options

    def counts(self):
        return {"total_count": len(self.pending) + len(self.running), "done_count": len(self.history),
                "in_progress_count": len(self.running), "pending_count": len(self.pending),
                "is_processing": self.worker is not None and not self.worker.done()}

    async def work(self, comfy):
        while self.pending:
            task = self.pending.pop(0)
            key, name = task["ui_id"], task["params"].get("name") or task["params"].get("id")
            self.running[key] = task
            await comfy.send("cm-task-started", {"ui_id": key, "kind": task["kind"]}, task["client_id"])
            await asyncio.sleep(self.options["ms"] / 1000)
            self.running.pop(key)
            failed = name in self.options.get("fails", [])
            status = {"status_str": "error" if failed else "success", "completed": True,
                      "messages": [f"Installation of {name} failed"] if failed else ["success"]}
            self.history[key] = {"ui_id": key, "client_id": task["client_id"], "kind": task["kind"],
                                 "timestamp": time.strftime("%Y-%m-%dT%H:%M:%S"), "params": task["params"],
                                 "result": "failed" if failed else "success", "status": status}
            await comfy.send("cm-task-completed", {"ui_id": key, "kind": task["kind"], "status": status}, task["client_id"])
        await comfy.send("cm-queue-status", {"status": "all-done"})


def manager_routes(comfy):
    """Its routes, each 404 while it is not there."""
    routes, manager = web.RouteTableDef(), comfy.manager

    def route(add, path):
        def decorated(handler):
            async def checked(request):
                return await handler(request) if manager.options is not None else web.Response(status=404)
            add(path)(checked)
        return decorated

    @route(routes.post, "/v2/manager/queue/task")
    async def task(request):
        if manager.options.get("level") == "weak":
            return web.Response(status=403, text="A security error has occurred.")
        body = await request.json()
        wanted = {"install": ("id", "version", "selected_version", "mode", "channel"),
                  "install-model": ("name", "type", "url", "filename")}.get(body.get("kind"), ("?",))
        missing = [field for field in ("ui_id", "client_id") if not isinstance(body.get(field), str)]
        missing += [field for field in wanted if not isinstance(body.get("params", {}).get(field), str)]
        if missing:
            return web.Response(status=400, text=f"Invalid task data: {', '.join(missing)}")
        manager.pending.append(body)
        return web.Response()

    @route(routes.post, "/v2/manager/queue/start")
    async def start(request):
        if manager.worker is not None and not manager.worker.done():
            return web.Response(status=201)
        manager.worker = asyncio.create_task(manager.work(comfy))
        return web.Response()

    @route(routes.get, "/v2/manager/queue/status")
    async def status(request):
        return web.json_response(manager.counts())

    @route(routes.get, "/v2/manager/queue/history")
    async def history(request):
        key = request.query.get("ui_id")
        return web.json_response({"history": manager.history.get(key, {}) if key else manager.history})

    return routes
