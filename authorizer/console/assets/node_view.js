// The node's status, its peers, its decisions by rule, and the number of ACLs over time.

import { html, useRef } from "./htm-preact.js";
import { time as timeOf } from "./dates.js";
import { ErrorMessage } from "./error_message.js";
import { usePoll } from "./use_answer.js";
import { VERDICTS, count, datedOffset, stateAndTime, visible } from "./words.js";

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

// Another node of the log, and whether it has the same ACLs.
function PeerNode({ node }) {
  const [mark, text, kind] = VERDICTS[node.verdict];
  const { state } = node;
  return html`<tr>
    <th scope="row"><bdi>${visible(node.url)}</bdi></th>
    <td data-label="Agrees" class=${kind}><b>${mark} ${text}</b>: <bdi>${visible(node.why)}</bdi></td>
    ${state
      ? html`<td data-label="State" class=${state.ready ? null : "denied"}>${state.ready ? "ready" : html`not ready: <bdi>${visible(state.reason ?? "")}</bdi>`}</td>
          <td data-label="Offset">${state.offset ? state.offset - 1 : "none"}</td>
          <td data-label="Behind">${state.lag_records === null ? "lag not known yet" : count(state.lag_records, "record")}</td>
          <td data-label="ACLs">${count(state.acl_count, "ACL")}</td>
          <td data-label="Digest"><code>${state.digest}</code></td>
          <td data-label="Rules of">Kafka <bdi>${visible(state.kafka_version.version ?? "release not known")}</bdi></td>`
      : html`<td colspan="6"></td>`}
  </tr>`;
}

function PeerNodes() {
  const [answer, error] = usePoll("console/v1/nodes");
  if (!answer && error) return html`<${ErrorMessage} error=${error} />`;
  if (!answer) return html`<p class="notice">Querying the other nodes…</p>`;
  if (!answer.nodes.length) return null;
  return html`<h2 id="peers">Other nodes of this log</h2>
    <div class="scroll" tabindex="0" role="region" aria-labelledby="peers">
      <table class="list nodes">
        <thead><tr><th>Node</th><th>Agrees</th><th>State</th><th>Offset</th><th>Behind</th><th>ACLs</th><th>Digest</th><th>Rules of</th></tr></thead>
        <tbody>${answer.nodes.map((each) => html`<${PeerNode} key=${each.url} node=${each} />`)}</tbody>
      </table>
    </div>`;
}

const RULES = {
  "allowed SuperUser": "allowed: super user",
  "allowed MatchingAcl": "allowed by an ACL",
  "allowed DefaultAllow": "allowed: no ACL found (allow.everyone)",
  "denied MatchingAcl": "denied by an ACL",
  "denied DefaultDeny": "denied: no ACL found",
  "not_ready ": "not answered: not ready",
};
// Minimum time span of the current rate.
const RATE_SPAN_S = 10;

function total(sample) {
  return sample.rules.reduce((sum, each) => sum + each.count, 0);
}

// The first sample, and those of the last seconds. A smaller total means that the counting process restarted.
function withSample(samples, sample) {
  if (samples.length && total(sample) < total(samples.at(-1))) return [sample];
  const [first, ...others] = [...samples, sample];
  const isOld = (each, at) => at + 1 < others.length && sample.at_s - others[at + 1].at_s >= RATE_SPAN_S;
  return [first, ...others.filter((each, at) => !isOld(each, at))];
}

function perSecond(from, to, at) {
  const took = to.at_s - from.at_s;
  return took > 0 ? ((to.rules[at].count - from.rules[at].count) / took).toFixed(1) : "…";
}

// By rule: in total, and per second while this view is open.
function Decisions() {
  const [sample, error] = usePoll("console/v1/decisions");
  const samples = useRef([]);
  if (sample && samples.current.at(-1) !== sample) samples.current = withSample(samples.current, sample);
  if (!sample && error) return html`<${ErrorMessage} error=${error} />`;
  if (!sample) return html`<p class="notice">Loading…</p>`;
  const [first, recent = first] = samples.current;
  const seconds = Math.round(sample.at_s - first.at_s);
  return html`<h2 id="decisions">Decisions</h2>
    <table class="figures" aria-labelledby="decisions">
      <thead><tr><th scope="col">By rule</th><th scope="col">per second, now</th><th scope="col">per second, over ${seconds} s</th><th scope="col">since the start</th></tr></thead>
      <tbody>
        ${sample.rules.map(
          (each, at) => html`<tr>
            <th scope="row">${RULES[`${each.result} ${each.rule}`] ?? `${each.result} ${each.rule}`}</th>
            <td>${perSecond(recent, sample, at)}</td>
            <td>${perSecond(first, sample, at)}</td>
            <td>${each.count.toLocaleString("en")}</td>
          </tr>`,
        )}
      </tbody>
    </table>
    <p class="notice">Requests of this page are also authorized and counted.</p>`;
}

// A count is valid until the time of the next one.
function CountsChart({ points, from, until }) {
  const most = Math.max(1, ...points.map(([, acls]) => acls));
  const x = (ms) => ((ms - from) / Math.max(1, until - from)) * WIDTH;
  const y = (acls) => HEIGHT - (Math.max(0, acls) / most) * (HEIGHT - 4);
  const steps = points.flatMap(([ms, acls], at) => [
    ...(at ? [`${x(ms)},${y(points[at - 1][1])}`] : []),
    `${x(ms)},${y(acls)}`,
  ]);
  const line = [...steps, `${x(until)},${y(points.at(-1)[1])}`].join(" ");
  return html`<svg viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} role="img" class="chart"
    aria-label=${`from ${timeOf(from)} to ${timeOf(until)}, at most ${count(most, "ACL")}; the table below has the numbers`}>
    <polyline points=${line} />
  </svg>`;
}

function Counts({ counts, error }) {
  const title = html`<h2>ACLs over time, as counted by Spark</h2>`;
  if (error) return html`${title}<p class="error" role="alert">${visible(error)}</p>`;
  const { points, from, until } = counts;
  if (!points.length) {
    return html`${title}<p class="notice">${counts.files_left ? "Reading…" : "No counts of this log are stored yet."}</p>`;
  }
  const last = Math.max(until, points.at(-1)[0]);
  return html`${title}
    <figure class="counted">
      <${CountsChart} points=${points} from=${from} until=${last} />
      <figcaption>Known from ${timeOf(from)} to ${timeOf(last)}, by the times of the records;
        at the end ${count(points.at(-1)[1], "ACL")}${counts.files_left ? `; ${count(counts.files_left, "file")} left to read` : ""}</figcaption>
    </figure>
    <details>
      <summary>As a table</summary>
      <div class="scroll" tabindex="0" role="region" aria-label="Counts">
        <table class="figures">
          <thead><tr><th scope="col">From</th><th scope="col">ACLs</th></tr></thead>
          <tbody>${points.map(([ms, acls]) => html`<tr><th scope="row">${timeOf(ms)}</th><td>${acls.toLocaleString("en")}</td></tr>`)}</tbody>
        </table>
      </div>
    </details>`;
}

// The stored counts, or `fallback` if none are configured.
function StoredCounts({ fallback }) {
  const [answer, pollError] = usePoll("console/v1/counts");
  const error = answer ? answer.error : pollError?.message;
  if (!answer && !error) return null;
  return answer?.kept || error ? html`<${Counts} counts=${answer?.kept} error=${error} />` : fallback;
}
