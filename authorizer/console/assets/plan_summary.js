// The added and removed ACLs of a plan, with its warnings.

import { html } from "./htm-preact.js";
import { Pager } from "./list_controls.js";
import { aclText, count, stateAndTime, visible } from "./words.js";

const PAGE = 200;

function Lines({ acls, mark, kind, onFirst }) {
  return html`<ul class="changes" aria-label=${`ACLs ${kind}`}>
      ${acls.acls.map((acl) => html`<li class=${kind}><span class="mark">${mark}</span> <bdi>${aclText(acl)}</bdi></li>`)}
    </ul>
    ${acls.total > PAGE ? html`<${Pager} first=${acls.first} size=${PAGE} total=${acls.total} onFirst=${onFirst} />` : null}`;
}

// `onFirst`: goes to pages of the ACLs by kind; without it they are not listed.
export function PlanSummary({ answer, onFirst }) {
  const { added, counts, removed, warnings, notes } = answer;
  return html`<p><b>${count(added.total, "ACL")} added, ${count(removed.total, "ACL")} removed</b> (${counts.removedPercent} % of ${count(counts.acls, "ACL")}), applied to the state at ${stateAndTime(answer)}</p>
    ${onFirst
      ? html`<${Lines} acls=${added} mark="+" kind="added" onFirst=${(first) => onFirst({ added_first: first ?? 0 })} />
          <${Lines} acls=${removed} mark="−" kind="removed" onFirst=${(first) => onFirst({ removed_first: first ?? 0 })} />`
      : null}
    ${warnings.length
      ? html`<ul class="warnings" aria-label="Warnings">${warnings.map(
          (each) => html`<li>⚠ <bdi>${visible(each.text)}</bdi>${each.acl ? html`: <bdi>${aclText(each.acl)}</bdi>` : null}</li>`,
        )}</ul>`
      : null}
    ${notes.map((each) => html`<p class="notice"><bdi>${visible(each)}</bdi></p>`)}`;
}
