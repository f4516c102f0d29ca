// The node's status, decisions, peers, and number of ACLs over time.

import { html } from "./htm-preact.js";
import { Decisions } from "./decisions.js";
import { StoredCounts } from "./stored_counts.js";
import { PeerNodes } from "./peer_nodes.js";
import { count, datedOffset, stateAndTime, visible } from "./words.js";

export const LABEL = "Node";
const WIDTH = 600;
const HEIGHT = 80;

function Chart({ past }) {
  const states = past.moments;
  const most = Math.max(1, ...states.map((each) => each.acls));
  const from = states[0].end_offset;
  const span = Math.max(1, states.at(-1).end_offset - from);
  const points = states.map(
    (each) => `${((each.end_offset - from) / span) * WIDTH},${HEIGHT - (each.acls / most) * (HEIGHT - 4)}`,
  );
  return html`<figure>
    <svg viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label=${`up to ${count(most, "ACL")}`} class="chart">
      <polyline points=${points.join(" ")} />
    </svg>
    <figcaption>ACLs from ${datedOffset(from - 1, past)} to ${datedOffset(states.at(-1).end_offset - 1, past)}; at most ${most.toLocaleString("en")}</figcaption>
  </figure>`;
}

export function NodeView({ time }) {
  const state = time.state;
  const facts = [
    ["State", state.ready ? "ready" : `not ready: ${state.reason}`],
    ["Log", state.log],
    ["Cluster", state.cluster_id ?? "not known yet"],
    ["Offset", `${stateAndTime(time)}, epoch ${state.epoch}`],
    ["Behind", `${state.lag_records ?? "?"} records, ${state.lag_ms} ms`],
    ["ACLs", state.acl_count.toLocaleString("en")],
    ["Digest", state.digest],
    ["Rules of", `Kafka ${state.kafka_version.version ?? "release not known"}`],
    ["You are", `${time.caller}${time.sees_all ? "" : ", who sees only their own decisions"}`],
  ];
  const chart = time.past?.moments.length > 1 ? html`<${Chart} past=${time.past} />` : null;
  return html`<section aria-label="Node">
    <dl class="facts">
      ${facts.map(([name, value]) => html`<div><dt>${name}</dt><dd><bdi>${visible(value)}</bdi></dd></div>`)}
    </dl>
    ${time.sees_all ? html`<${PeerNodes} /><${Decisions} /><${StoredCounts} fallback=${chart} />` : null}
  </section>`;
}
