"""Says where the daemon is: its program, home, port and token. Environment before `daemon.json` before the usual."""

import json
import os
import shutil

FILE = os.path.join(os.path.dirname(os.path.realpath(__file__)), "daemon.json")


def _installed():
    """What `comfy-orchestrator install` wrote; empty in a checkout."""
    try:
        with open(FILE, encoding="utf-8") as stored:
            found = json.load(stored)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def given_home():
    """The state folder that somebody chose, or None."""
    return os.environ.get("COMFY_ORCHESTRATOR_HOME") or _installed().get("home")


def home():
    """The orchestrator's state folder."""
    return os.path.expanduser(given_home() or "~/.comfyui-mcp")


def port():
    """The port the daemon listens on."""
    return int(os.environ.get("COMFYUI_MCP_BRIDGE_PORT") or _installed().get("port") or 9101)


def program():
    """The daemon's program, or None."""
    named = os.environ.get("COMFY_ORCHESTRATOR_PROGRAM") or _installed().get("program")
    return shutil.which(named) if named else shutil.which("comfy-orchestrator")


def token():
    """The capability that the daemon wants, or None. Read anew each time, so that a rotation works at once."""
    try:
        with open(os.path.join(home(), "token"), encoding="utf-8") as stored:
            return stored.read().strip() or None
    except (OSError, UnicodeDecodeError):
        return None
