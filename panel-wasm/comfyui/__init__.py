"""ComfyUI custom node: serves the panel's files, starts the orchestrator daemon and relays the panel's socket to it.

The page talks to ComfyUI's own origin only. It never sees the daemon's token and needs no second port.
"""

from server import PromptServer

from . import launch, relay

WEB_DIRECTORY = "./web"
NODE_CLASS_MAPPINGS = {}
NODE_DISPLAY_NAME_MAPPINGS = {}
__all__ = ["NODE_CLASS_MAPPINGS", "NODE_DISPLAY_NAME_MAPPINGS", "WEB_DIRECTORY"]

PromptServer.instance.routes.get("/comfy_orchestrator/ws")(relay.socket)
PromptServer.instance.routes.get("/comfy_orchestrator/status")(relay.status)
launch.LAUNCHER.begin()
