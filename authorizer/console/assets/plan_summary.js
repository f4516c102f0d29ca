// The added and removed ACLs of a plan, with its warnings.

import { html } from "./htm-preact.js";
import { aclText, count, stateAndTime, visible } from "./words.js";

function Lines({ acls, mark, kind }) {
  return html`<ul class="changes">
      ${acls.acls.map((acl) => html`<li class=${kind}><span class="mark">${mark}</span> <bdi>${aclText(acl)}</bdi></li>`)}
    </ul>
    ${acls.total > acls.acls.length ? html`<p class="notice">and ${acls.total - acls.acls.length} more</p>` : null}`;
}

// `isListed`: list each ACL, unless the page already shows them.
export function PlanSummary({ answer, isListed = true }) {
  const { added, counts, removed, warnings, notes } = answer;
  return html`<p><b>${count(added.total, "ACL")} added, ${count(removed.total, "ACL")} removed</b> (${counts.removedPercent} % of ${count(counts.acls, "ACL")}), applied to the state at ${stateAndTime(answer)}</p>
    ${isListed
      ? html`<${Lines} acls=${added} mark="+" kind="added" /><${Lines} acls=${removed} mark="−" kind="removed" />`
      : null}
    ${warnings.length
      ? html`<ul class="warnings" aria-label="Warnings">${warnings.map(
          (each) => html`<li>⚠ <bdi>${visible(each.text)}</bdi>${each.acl ? html`: <bdi>${aclText(each.acl)}</bdi>` : null}</li>`,
        )}</ul>`
      : null}
    ${notes.map((each) => html`<p class="notice"><bdi>${visible(each)}</bdi></p>`)}`;
}
