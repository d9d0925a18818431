"""Starts the daemon with ComfyUI when none answers on its port, and takes it along when ComfyUI ends.

`COMFY_ORCHESTRATOR_START`: `1` (the usual) starts it, `0` never, `keep` starts it so that it outlives ComfyUI.
"""

import atexit
import json
import logging
import os
import socket
import subprocess
import threading
import time

from . import place

LOG = logging.getLogger("comfy-orchestrator")
READY_SECONDS = 30
LEAVING_SECONDS = 12
STOP_SECONDS = 10


def answers(port):
    """Whether anything listens there."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False


class Launcher:
    """One daemon at most, started by this ComfyUI. `state`: off, running, started, missing or failed; `problem`: why."""

    def __init__(self):
        self.state, self.problem, self.process = "off", None, None

    def begin(self):
        """Starts it in the background: ComfyUI's own start waits for nothing."""
        if os.environ.get("COMFY_ORCHESTRATOR_START", "1") != "0":
            threading.Thread(target=self.start, name="comfy-orchestrator", daemon=True).start()

    def start(self):
        """Starts it unless one runs, and waits for its ready line."""
        if self._runs():
            return
        program = place.program()
        if program is None:
            self._failed("missing", "the program comfy-orchestrator was not found: install it, or start it yourself")
        else:
            self._run(program, keep=os.environ.get("COMFY_ORCHESTRATOR_START") == "keep")

    def stop(self):
        """Ends what was started, unless it is to be kept. The daemon notices the closed pipe even when ComfyUI is killed."""
        if self.process is None or self.process.stdin is None:
            return
        try:
            self.process.stdin.close()
            self.process.wait(STOP_SECONDS)
        except (OSError, subprocess.TimeoutExpired):
            self.process.terminate()

    def _runs(self):
        """Whether one is there to stay: that of a ComfyUI that was restarted just now still answers while it ends."""
        end = time.monotonic() + LEAVING_SECONDS
        while answers(place.port()):
            self.state = "running"
            if time.monotonic() > end:
                return True
            time.sleep(0.25)
        return False

    def _run(self, program, keep):
        command = [program, "--json", *(["--home", place.home()] if place.given_home() else [])]
        command += ["serve", "--port", str(place.port()), *([] if keep else ["--stop-with-stdin"])]
        os.makedirs(place.home(), mode=0o700, exist_ok=True)
        try:
            with open(os.path.join(place.home(), f"daemon-{place.port()}.log"), "ab") as log:
                self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL if keep else subprocess.PIPE,
                                                stdout=subprocess.PIPE, stderr=log, start_new_session=True)
        except OSError as error:
            return self._failed("failed", f"{program}: {error}")
        atexit.register(self.stop)
        self._await_ready()

    def _await_ready(self):
        late = threading.Timer(READY_SECONDS, self.process.terminate)
        late.start()
        line = self.process.stdout.readline()
        late.cancel()
        try:
            said = json.loads(line)
        except ValueError:
            said = {}
        if said.get("ready"):
            self.state = "started"
            LOG.info("comfy-orchestrator %s serves on port %s", said.get("version"), said.get("port"))
        elif answers(place.port()):
            # Another ComfyUI of this user was quicker.
            self.state = "running"
        else:
            self._failed("failed", said.get("message") or f"it ended at its start: see {place.home()}/daemon-{place.port()}.log")

    def _failed(self, state, problem):
        self.state, self.problem = state, problem
        LOG.warning("comfy-orchestrator: %s", problem)


LAUNCHER = Launcher()
