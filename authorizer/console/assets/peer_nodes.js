// The other nodes of the log, and whether they have the same ACLs.

import { html } from "./htm-preact.js";
import { usePoll } from "./poll.js";
import { ErrorMessage } from "./error_message.js";
import { VERDICTS, count, visible } from "./words.js";

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

export function PeerNodes() {
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
