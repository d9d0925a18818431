"""`/userdata`: the files of the only user. Every path stays inside its folder, also through links."""

import os
import shutil

from aiohttp import web

from .state import Comfy


def _flag(request, name):
    return request.query.get(name, "").lower() == "true"


def _entry(path, base):
    stat = os.stat(path)
    return {"path": os.path.relpath(path, base).replace(os.sep, "/"), "size": stat.st_size,
            "modified": int(stat.st_mtime * 1000), "created": int(stat.st_ctime * 1000)}


def userdata_routes(comfy: Comfy) -> web.RouteTableDef:
    """The routes, bound to one server's state."""
    routes = web.RouteTableDef()
    root = os.path.realpath(comfy.default_user())

    def inside(name):
        path = os.path.realpath(os.path.join(root, name))
        if path != root and not path.startswith(root + os.sep):
            raise web.HTTPForbidden()
        return path

    def described(request, path):
        return web.json_response(_entry(path, root) if _flag(request, "full_info") else os.path.relpath(path, root))

    def may_write(request, path):
        if os.path.exists(path) and request.query.get("overwrite") == "false":
            raise web.HTTPConflict(text="File already exists")
        os.makedirs(os.path.dirname(path), exist_ok=True)

    @routes.get("/userdata")
    async def listing(request):
        if not request.query.get("dir"):
            return web.Response(status=400, text="Directory not provided")
        base = inside(request.query["dir"])
        if not os.path.isdir(base):
            return web.Response(status=404, text="Directory not found")
        found = []
        for folder, _, names in os.walk(base):
            for name in sorted(names):
                path = os.path.join(folder, name)
                relative = os.path.relpath(path, base).replace(os.sep, "/")
                if _flag(request, "full_info"):
                    found.append(_entry(path, base))
                else:
                    found.append([relative, *relative.split("/")] if _flag(request, "split") else relative)
            if not _flag(request, "recurse"):
                break
        return web.json_response(found)

    @routes.get("/userdata/{file}")
    async def read(request):
        path = inside(request.match_info["file"])
        return web.FileResponse(path) if os.path.isfile(path) else web.Response(status=404)

    @routes.post("/userdata/{file}")
    async def write(request):
        path = inside(request.match_info["file"])
        may_write(request, path)
        with open(path, "wb") as out:
            out.write(await request.read())
        return described(request, path)

    @routes.delete("/userdata/{file}")
    async def remove(request):
        path = inside(request.match_info["file"])
        if not os.path.isfile(path):
            return web.Response(status=404)
        os.remove(path)
        return web.Response(status=204)

    @routes.post("/userdata/{file}/move/{target}")
    async def move(request):
        source, target = inside(request.match_info["file"]), inside(request.match_info["target"])
        if not os.path.isfile(source):
            return web.Response(status=404)
        may_write(request, target)
        shutil.move(source, target)
        return described(request, target)

    return routes
