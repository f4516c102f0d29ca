// The other nodes of the same log, and whether they have the same ACLs.

import { html } from "./htm-preact.js";
import { useAgain } from "./again.js";
import { Trouble } from "./trouble.js";
import { VERDICTS, count, visible } from "./words.js";

function OtherNode({ node }) {
  const [mark, text, kind] = VERDICTS[node.verdict];
  const { state } = node;
  return html`<tr>
    <th scope="row"><bdi>${visible(node.url)}</bdi></th>
    <td class=${kind}><b>${mark} ${text}</b>: <bdi>${visible(node.why)}</bdi></td>
    ${state
      ? html`<td class=${state.ready ? null : "denied"}>${state.ready ? "ready" : html`not ready: <bdi>${visible(state.reason ?? "")}</bdi>`}</td>
          <td><span class="narrow">offset </span>${state.offset ? state.offset - 1 : "none"}</td>
          <td>${state.lag_records === null ? "lag not known yet" : count(state.lag_records, "record")}<span class="narrow"> behind</span></td>
          <td>${count(state.acl_count, "ACL")}</td>
          <td><code>${state.digest}</code></td>
          <td>Kafka <bdi>${visible(state.kafka_version.version ?? "release not known")}</bdi></td>`
      : html`<td colspan="6"></td>`}
  </tr>`;
}

export function OtherNodes() {
  const [found, error] = useAgain("console/v1/nodes");
  if (!found && error) return html`<${Trouble} error=${error} />`;
  if (!found) return html`<p class="notice">Asking the other nodes…</p>`;
  if (!found.nodes.length) return null;
  return html`<h2 id="others">Other nodes of this log</h2>
    <div class="scroll" tabindex="0" role="region" aria-labelledby="others">
      <table class="list nodes">
        <thead><tr><th>Node</th><th>Agrees</th><th>State</th><th>Offset</th><th>Behind</th><th>ACLs</th><th>Digest</th><th>Rules of</th></tr></thead>
        <tbody>${found.nodes.map((each) => html`<${OtherNode} key=${each.url} node=${each} />`)}</tbody>
      </table>
    </div>`;
}
