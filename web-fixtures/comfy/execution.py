"""Validates and walks prompts without tensors, sending the frames the real server sends, in its order."""

import asyncio
import json
import struct
import time
import zlib

from .state import Comfy, Prompt

_NUMBER = {"INT": (int,), "FLOAT": (int, float)}


def _error(kind, message, details, **extra):
    return {"type": kind, "message": message, "details": details, "extra_info": extra}


def _input_errors(node, definition):
    errors = []
    for name, spec in definition.get("input", {}).get("required", {}).items():
        kind = spec[0]
        options = spec[1] if len(spec) > 1 and isinstance(spec[1], dict) else {}
        if name not in node.get("inputs", {}):
            errors.append(_error("required_input_missing", "Required input is missing", name, input_name=name))
            continue
        value = node["inputs"][name]
        if isinstance(value, list) and len(value) == 2:
            continue
        choices = kind if isinstance(kind, list) else options.get("options") if kind == "COMBO" else None
        if choices is not None:
            if value not in choices and not options.get("image_upload"):
                errors.append(_error("value_not_in_list", "Value not in list", f"{name}: '{value}' not in list", input_name=name))
        elif kind in _NUMBER:
            if isinstance(value, bool) or not isinstance(value, _NUMBER[kind]):
                errors.append(_error("invalid_input_type", "Failed to convert an input value", f"{name}, {value}", input_name=name))
            elif "min" in options and value < options["min"]:
                errors.append(_error("value_smaller_than_min", f"Value {value} smaller than min of {options['min']}", name, input_name=name))
            elif "max" in options and value > options["max"]:
                errors.append(_error("value_bigger_than_max", f"Value {value} bigger than max of {options['max']}", name, input_name=name))
    return errors


def _upstream(graph, start):
    order, seen = [], set()

    def visit(node_id):
        if node_id in seen or node_id not in graph:
            return
        seen.add(node_id)
        for value in graph[node_id].get("inputs", {}).values():
            if isinstance(value, list) and len(value) == 2:
                visit(str(value[0]))
        order.append(node_id)

    visit(start)
    return order


def validate(comfy: Comfy, graph):
    """Returns (outputs that may run, error or None, node errors), as the real server decides a `POST /prompt`."""
    node_errors, good = {}, []
    for node_id, node in graph.items():
        if node.get("class_type") not in comfy.object_info:
            message = f"Cannot execute because node {node.get('class_type')} does not exist."
            return [], _error("invalid_prompt", message, f"Node ID '#{node_id}'"), {}
    outputs = [n for n, v in graph.items() if comfy.object_info[v["class_type"]].get("output_node")]
    if not outputs:
        return [], _error("prompt_no_outputs", "Prompt has no outputs", ""), {}
    for output in outputs:
        bad = False
        for node_id in _upstream(graph, output):
            class_type = graph[node_id]["class_type"]
            errors = _input_errors(graph[node_id], comfy.object_info[class_type])
            if errors:
                bad = True
                entry = node_errors.setdefault(node_id, {"errors": errors, "dependent_outputs": [], "class_type": class_type})
                entry["dependent_outputs"].append(output)
        if not bad:
            good.append(output)
    if not good:
        return [], _error("prompt_outputs_failed_validation", "Prompt outputs failed validation", ""), node_errors
    return good, None, node_errors


def picture(name, side=64):
    """A small PNG whose colour follows from its name, so that two results can be told apart."""
    colour = zlib.crc32(name.encode()).to_bytes(4, "big")[:3]
    raw = b"".join(b"\0" + colour * side for _ in range(side))

    def chunk(tag, body):
        return struct.pack(">I", len(body)) + tag + body + struct.pack(">I", zlib.crc32(tag + body))

    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b"")


def _now():
    return int(time.time() * 1000)


async def _step(comfy, prompt, node_id):
    """Waits one step, in slices so that an interrupt takes effect at once. False when interrupted."""
    end = time.monotonic() + comfy.step_ms / 1000
    while True:
        if comfy.interrupted:
            return False
        left = end - time.monotonic()
        if left <= 0:
            return True
        await asyncio.sleep(min(left, 0.02))


def _signature(graph, node_id):
    """What a node's result depends on: itself and everything that feeds it."""
    return json.dumps([graph[n] for n in _upstream(graph, node_id)], sort_keys=True)


def _made(class_type, name):
    """What an output node reports: files, by the kind of node; a preview is in the folder that a restart empties."""
    def file(ending, folder="output"):
        return {"filename": f"{name}_.{ending}", "subfolder": "", "type": folder}

    if "Audio" in class_type:
        return {"audio": [file("flac")]}
    if "Video" in class_type or "WEBM" in class_type:
        return {"images": [file("mp4")], "animated": [True]}
    return {"images": [file("png", "temp" if class_type.startswith("Preview") else "output")]}


async def _run(comfy: Comfy, prompt: Prompt):
    client, prompt_id, graph = prompt.extra.get("client_id"), prompt.prompt_id, prompt.graph
    messages = []

    async def tell(kind, data, broadcast=False):
        """Frames of a run go to the client that queued it. Without one there are none, but for those to everybody."""
        if client is not None or broadcast:
            await comfy.send(kind, {**data, "prompt_id": prompt_id}, client)

    async def note(kind, data, broadcast=False):
        data = {**data, "prompt_id": prompt_id, "timestamp": _now()}
        messages.append([kind, data])
        await tell(kind, data, broadcast)

    await comfy.send("status", comfy.status())
    await note("execution_start", {})
    order = []
    for output in prompt.outputs:
        order += [n for n in _upstream(graph, output) if n not in order]
    kept = {n: comfy.cache[_signature(graph, n)] for n in order if _signature(graph, n) in comfy.cache} if comfy.caches else {}
    await note("execution_cached", {"nodes": list(kept)})
    outputs, status, nodes = {}, "success", {}
    for node_id in order:
        class_type = graph[node_id]["class_type"]
        if node_id in kept:
            if kept[node_id]:
                outputs[node_id] = kept[node_id]
                await tell("executed", {"node": node_id, "display_node": node_id, "output": kept[node_id]})
            continue
        await tell("executing", {"node": node_id, "display_node": node_id})
        nodes[node_id] = {"value": 0, "max": 1, "state": "running", "node_id": node_id, "prompt_id": prompt_id,
                          "display_node_id": node_id, "parent_node_id": None, "real_node_id": node_id}
        await tell("progress_state", {"nodes": nodes}, broadcast=True)
        if not await _step(comfy, prompt, node_id):
            status = "error"
            await note("execution_interrupted", {"node_id": node_id, "node_type": class_type, "executed": list(outputs)}, broadcast=True)
            break
        if comfy.failing_class == class_type:
            status = "error"
            await note("execution_error", {"node_id": node_id, "node_type": class_type, "executed": list(outputs),
                                           "exception_message": "fixture failure", "exception_type": "RuntimeError",
                                           "traceback": [], "current_inputs": {}, "current_outputs": []})
            break
        nodes[node_id] = {**nodes[node_id], "value": 1, "state": "finished"}
        made = _made(class_type, f"fixture_{prompt.number:05d}_{node_id}") if node_id in prompt.outputs else None
        comfy.cache[_signature(graph, node_id)] = made
        if made:
            outputs[node_id] = made
            await tell("executed", {"node": node_id, "display_node": node_id, "output": made})
    if status == "success":
        await note("execution_success", {})
    comfy.history[prompt_id] = {
        "prompt": prompt.as_tuple(), "outputs": outputs, "meta": {}, "created": _now(),
        "status": {"status_str": status, "completed": status == "success", "messages": messages},
    }
    comfy.running = None
    await comfy.send("status", comfy.status())
    await tell("executing", {"node": None})


async def worker(comfy: Comfy):
    """Runs queued prompts one after the other, for the server's whole life."""
    while True:
        if not comfy.pending:
            comfy.wake.clear()
            await comfy.wake.wait()
            continue
        comfy.running = comfy.pending.pop(0)
        comfy.interrupted = False
        await _run(comfy, comfy.running)
