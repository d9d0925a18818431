"""Loads custom node packs for real: their `__init__.py` runs, with stand-ins for the two server modules they import."""

import asyncio
import importlib.util
import os
import sys
import tempfile
import types

from aiohttp import web

from .state import Comfy


class PromptServer:
    """What a pack sees as `server.PromptServer`."""

    instance = None

    def __init__(self, comfy: Comfy, app: web.Application, port: int):
        self.routes = web.RouteTableDef()
        self.app = app
        self.port = port
        self.address = "127.0.0.1"
        self.client_id = None
        self.last_node_id = None
        self.sockets = comfy.sockets
        self.number = 0
        self._comfy = comfy

    def send_sync(self, event, data, sid=None):
        """Sends one frame from a pack, as the real server does from its worker thread."""
        asyncio.get_running_loop().create_task(self._comfy.send(event, data, sid))

    def add_on_prompt_handler(self, handler):
        """Accepted and unused: prompts here run no code of a pack."""


def _stub_modules(comfy: Comfy, app: web.Application, port: int):
    PromptServer.instance = PromptServer(comfy, app, port)
    server = types.ModuleType("server")
    server.PromptServer = PromptServer
    server.web = web
    sys.modules["server"] = server
    base = tempfile.mkdtemp(prefix="comfy-base-")
    folders = types.ModuleType("folder_paths")
    folders.base_path, folders.models_dir = base, os.path.join(base, "models")
    folders.folder_names_and_paths = {}
    for kind in ("output", "input", "temp", "user"):
        path = os.path.join(base, kind)
        os.makedirs(path, exist_ok=True)
        setattr(folders, f"get_{kind}_directory", lambda path=path: path)
    folders.get_folder_paths = lambda name: []
    folders.get_filename_list = lambda name: []
    folders.get_full_path = lambda folder, name: None
    sys.modules["folder_paths"] = folders
    return base


def load_packs(comfy: Comfy, app: web.Application, port: int, directories) -> tuple[web.RouteTableDef, str]:
    """Loads each pack and returns the routes they registered, with the scratch folder to remove at the end."""
    base = _stub_modules(comfy, app, port)
    for directory in directories:
        directory = os.path.realpath(directory)
        name = os.path.basename(directory)
        entry = os.path.join(directory, "__init__.py")
        web_directory = None
        if os.path.isfile(entry):
            module_name = "pack_" + "".join(c if c.isalnum() else "_" for c in name)
            spec = importlib.util.spec_from_file_location(module_name, entry, submodule_search_locations=[directory])
            module = importlib.util.module_from_spec(spec)
            sys.modules[module_name] = module
            spec.loader.exec_module(module)
            web_directory = getattr(module, "WEB_DIRECTORY", None)
        else:
            web_directory = "web"
        if web_directory is not None and os.path.isdir(os.path.join(directory, web_directory)):
            comfy.packs[name] = os.path.realpath(os.path.join(directory, web_directory))
        elif name not in comfy.packs:
            comfy.packs[name] = None
    return PromptServer.instance.routes, base
