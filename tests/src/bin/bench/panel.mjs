// How long the panel's module takes to admit a command: from the frame's text to the order to execute it.
import { readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { initSync, PanelCore } from "./panel_wasm.mjs";

const bytes = readFileSync("panel_wasm_bg.wasm");
initSync({ module: bytes });

const panel = new PanelCore(JSON.stringify({ tab_id: "browser-1", version: "0" }));
const workflow = { uuid: "w1", handle: "tmp:1", title: "untitled", canvas: "c1" };
const give = (input) => JSON.parse(panel.handle(JSON.stringify(input), 0));
const { socket } = give({ input: "start" }).find((one) => one.output === "connect");
give({ input: "canvas", workflow });
give({ input: "opened", socket });
const welcome = {
  type: "welcome", protocol: 1, epoch: "e", conversation: "orchestrator::a", after: 0, tab: "t1", capabilities: [],
  limits: {},
};
panel.frame(socket, JSON.stringify(welcome), 0);
panel.frame(socket, JSON.stringify({ type: "models", epoch: "e", models: [], backend: "a" }), 0);

const times = [];
for (let number = 0; number < Number(process.argv[2]); number += 1) {
  const rid = `e-r${number}`;
  const command = {
    rid, cmd: "graph_set_widget", timeout_ms: 20000, workflow_uuid: "w1", node_id: 7, widget: "steps", value: number,
  };
  const text = JSON.stringify(command);
  const begun = process.hrtime.bigint();
  const told = panel.frame(socket, text, 0);
  times.push(Number(process.hrtime.bigint() - begun) / 1000);
  if (!told.includes('"execute"')) throw new Error(`not admitted: ${told}`);
  give({ input: "done", rid, outcome: { outcome: "ok", result: { before: 20 } }, workflow });
}
times.sort((left, right) => left - right);
const at = (share) => times[Math.min(times.length - 1, Math.floor(times.length * share))];
const gzip = gzipSync(bytes, { level: 9 }).length;
console.log(JSON.stringify({ p50: at(0.5), p99: at(0.99), gzip, plain: bytes.length }));
