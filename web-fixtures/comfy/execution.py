"""Validates and walks prompts without tensors, sending the frames the real server sends, in its order."""

import asyncio
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


async def _run(comfy: Comfy, prompt: Prompt):
    client, prompt_id = prompt.extra.get("client_id"), prompt.prompt_id
    messages = []

    async def tell(kind, data, log=False):
        data = {**data, "prompt_id": prompt_id}
        if log:
            data["timestamp"] = _now()
            messages.append([kind, data])
        await comfy.send(kind, data, client)

    await comfy.send("status", comfy.status())
    await tell("execution_start", {}, log=True)
    await tell("execution_cached", {"nodes": []}, log=True)
    order = []
    for output in prompt.outputs:
        order += [n for n in _upstream(prompt.graph, output) if n not in order]
    outputs, status, nodes = {}, "success", {}
    for node_id in order:
        class_type = prompt.graph[node_id]["class_type"]
        await tell("executing", {"node": node_id, "display_node": node_id})
        nodes[node_id] = {"value": 0, "max": 1, "state": "running", "node_id": node_id, "prompt_id": prompt_id,
                          "display_node_id": node_id, "parent_node_id": None, "real_node_id": node_id}
        await tell("progress_state", {"nodes": nodes})
        if not await _step(comfy, prompt, node_id):
            status = "error"
            await tell("execution_interrupted", {"node_id": node_id, "node_type": class_type, "executed": list(outputs)}, log=True)
            break
        if comfy.failing_class == class_type:
            status = "error"
            await tell("execution_error", {"node_id": node_id, "node_type": class_type, "executed": list(outputs),
                                           "exception_message": "fixture failure", "exception_type": "RuntimeError",
                                           "traceback": [], "current_inputs": {}, "current_outputs": []}, log=True)
            break
        nodes[node_id] = {**nodes[node_id], "value": 1, "state": "finished"}
        if node_id in prompt.outputs:
            folder = "temp" if class_type == "PreviewImage" else "output"
            name = f"fixture_{prompt.number:05d}_{node_id}_.png"
            outputs[node_id] = {"images": [{"filename": name, "subfolder": "", "type": folder}]}
            await tell("executed", {"node": node_id, "display_node": node_id, "output": outputs[node_id]})
    if status == "success":
        await tell("execution_success", {}, log=True)
    comfy.history[prompt_id] = {
        "prompt": prompt.as_tuple(), "outputs": outputs, "meta": {}, "created": _now(),
        "status": {"status_str": status, "completed": status == "success", "messages": messages},
    }
    comfy.running = None
    await tell("executing", {"node": None})
    await comfy.send("status", comfy.status())


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
