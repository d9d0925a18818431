"""What the stand-in remembers between requests. It knows no HTTP route and no file layout but the settings file."""

import asyncio
import json
import os
import time
from dataclasses import dataclass, field

from .manager import Manager

# Enough of each model folder for the frontend's own default workflow to validate.
MODELS = {
    "checkpoints": ["v1-5-pruned-emaonly-fp16.safetensors", "fixture-xl.safetensors"],
    "diffusion_models": ["z_image_turbo_bf16.safetensors"],
    "text_encoders": ["qwen_3_4b.safetensors"],
    "loras": ["fixture-style.safetensors"],
    "vae": ["ae.safetensors"],
}

# Inputs whose combos list a model folder, by the input's name.
MODEL_INPUTS = {
    "ckpt_name": "checkpoints",
    "unet_name": "diffusion_models",
    "clip_name": "text_encoders",
    "clip_name1": "text_encoders",
    "clip_name2": "text_encoders",
    "lora_name": "loras",
    "vae_name": "vae",
}

# Without these a first visit opens a template dialog or an update notice that covers the canvas.
FIRST_RUN_SETTINGS = {
    "Comfy.TutorialCompleted": True,
    "Comfy.InstalledVersion": "1.49.0",
    "Comfy.Notification.ShowVersionUpdates": False,
    "Comfy.Workflow.ShowMissingModelsWarning": False,
    "Comfy.Workflow.WarnBlueprintOverwrite": False,
    "Comfy.Minimap.Visible": False,
    "Comfy.Release.Status": "skipped",
}


@dataclass
class Prompt:
    """One queued prompt: the real server's queue tuple under names."""

    number: int
    prompt_id: str
    graph: dict
    extra: dict
    outputs: list

    def as_tuple(self):
        """The list form that `/queue` and `/history` show."""
        return [self.number, self.prompt_id, self.graph, self.extra, self.outputs]


@dataclass
class Comfy:
    """The whole state of one stand-in server."""

    object_info: dict
    user_dir: str
    static_dir: str
    step_ms: int
    sockets: dict = field(default_factory=dict)
    pending: list = field(default_factory=list)
    running: Prompt | None = None
    interrupted: bool = False
    failing_class: str | None = None
    muted_until: float = 0.0
    caches: bool = False
    cache: dict = field(default_factory=dict)
    history: dict = field(default_factory=dict)
    packs: dict = field(default_factory=dict)
    counter: int = 0
    started: float = field(default_factory=time.time)
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    settings: dict = field(default_factory=dict)
    manager: Manager = field(default_factory=Manager)

    def __post_init__(self):
        os.makedirs(self.default_user(), exist_ok=True)
        self.settings = dict(FIRST_RUN_SETTINGS)
        if os.path.isfile(self.settings_file()):
            with open(self.settings_file(), encoding="utf-8") as stored:
                self.settings.update(json.load(stored))
        self.save_settings()
        for definition in self.object_info.values():
            for name, spec in definition.get("input", {}).get("required", {}).items():
                if name in MODEL_INPUTS and isinstance(spec[0], list):
                    spec[0] = MODELS[MODEL_INPUTS[name]] + spec[0]
        self.object_info_body = json.dumps(self.object_info, separators=(",", ":")).encode()

    def default_user(self):
        """The folder of the only user, where settings and user data live."""
        return os.path.join(self.user_dir, "default")

    def settings_file(self):
        """Where the real server keeps settings, so that tests may preseed them."""
        return os.path.join(self.default_user(), "comfy.settings.json")

    def save_settings(self):
        """Writes the settings as the real server does on every change."""
        with open(self.settings_file(), "w", encoding="utf-8") as out:
            json.dump(self.settings, out, indent=1)

    def status(self):
        """The payload of a `status` frame."""
        remaining = len(self.pending) + (1 if self.running else 0)
        return {"status": {"exec_info": {"queue_remaining": remaining}}}

    def muted(self):
        """Whether the server plays one whose sockets are down."""
        return time.monotonic() < self.muted_until

    async def send(self, kind, data, client=None):
        """Sends one frame to one client, or to every client when none is named."""
        if self.muted():
            return
        text = json.dumps({"type": kind, "data": data})
        for key, socket in list(self.sockets.items()):
            if client is not None and key != client:
                continue
            try:
                await socket.send_str(text)
            except (ConnectionError, RuntimeError):
                self.sockets.pop(key, None)
