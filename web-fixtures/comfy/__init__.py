"""A ComfyUI stand-in for tests: the real frontend package over an API without tensors.

`state` holds what a server remembers, `routes` answers HTTP, `userdata` keeps files, `execution` walks
prompts, `manager` installs nothing slowly, `packs` loads custom node packs. Nothing here may import torch or reach beyond loopback.
"""
