// Root page of a fleet: the status of each cluster, with a link to its console.

import { html, render } from "./htm-preact.js";
import { usePoll } from "./use_answer.js";
import { PollError } from "./error_message.js";
import { agreementText, count, visible } from "./words.js";

function Cluster({ cluster }) {
  const isOpen = cluster.digest !== undefined;
  const name = visible(cluster.cluster);
  return html`<tr>
    <th scope="row"><bdi>${isOpen ? html`<a href=${`clusters/${cluster.cluster}/`}>${name}</a>` : name}</bdi></th>
    <td data-label="State" class=${cluster.ready ? "allowed" : "denied"}>
      ${cluster.ready ? "✓ ready" : html`✗ not ready: <bdi>${visible(cluster.reason)}</bdi>`}
    </td>
    ${isOpen
      ? html`<td data-label="Offset">${cluster.end_offset ? cluster.end_offset - 1 : "none"}</td>
          <td data-label="Behind">${cluster.lag_records === null ? "lag not known yet" : count(cluster.lag_records, "record")}</td>
          <td data-label="ACLs">${count(cluster.acl_count, "ACL")}</td>
          <td data-label="Digest"><code>${cluster.digest}</code></td>
          <td data-label="Other nodes">${agreementText(cluster.nodes)}</td>`
      : html`<td colspan="5">no node is running for it here: <bdi>${visible(cluster.log)}</bdi></td>`}
  </tr>`;
}

function Fleet() {
  const [found, error, refresh] = usePoll("console/v1/clusters");
  const ready = found?.clusters.filter((each) => each.ready).length;
  return html`
    <header>
      <h1>aclog</h1>
      <p class="status">${found ? html`<bdi>${visible(found.caller)}</bdi>` : null}</p>
    </header>
    <main>
      <${PollError} error=${error} onToken=${refresh} />
      ${found
        ? html`<p>${count(found.clusters.length, "cluster")}, ${ready} ready</p>
            <div class="scroll" tabindex="0" role="region" aria-label="Clusters">
            <table class="list fleet">
              <thead><tr><th>Cluster</th><th>State</th><th>Offset</th><th>Behind</th><th>ACLs</th><th>Digest</th><th>Other nodes</th></tr></thead>
              <tbody>${found.clusters.map((each) => html`<${Cluster} key=${each.cluster} cluster=${each} />`)}</tbody>
            </table></div>`
        : error ? null : html`<p class="notice">Loading…</p>`}
    </main>
    <footer></footer>
  `;
}

const root = document.getElementById("console");
root.replaceChildren();
render(html`<${Fleet} />`, root);
