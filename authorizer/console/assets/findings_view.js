// The findings of lint: their number by rule, each with its proof and its impact; removable ACLs become a plan.

import { html, useState } from "./htm-preact.js";
import { ask } from "./api.js";
import { ChangePanel, isRemoved, refusalOf, withRemoval, withRemovals, without } from "./change.js";
import { ErrorMessage } from "./error_message.js";
import { Exports, aclColumns, collect, usePrintedList } from "./export.js";
import { Choice, ListFilters, Pager, filtersOf } from "./list_controls.js";
import { useAnswer } from "./use_answer.js";
import { numberOf, offsetOf } from "./view.js";
import { aclText, count, stateText, visible } from "./words.js";

const PAGE = 100;
const PATH = "console/v1/lint";
const RULES = {
  duplicate: "the ACL has several ids",
  "unknown-code": "its pattern or permission type is not Kafka's",
  "principal-type": "no principal has its type",
  "topic-gone": "its topic does not exist",
  dead: "no request can match it",
  "super-user": "its principal may do everything",
  shadowed: "an ALLOW of what other ACLs deny",
  "broader-twin": "beside the same ACL with a wider scope",
  redundant: "other ACLs have the same effect",
  "idle-deny": "a DENY of what no ALLOW allows",
};
const SEVERITIES = { warning: "defects", info: "information" };

// What happens without the ACL.
function impactOf({ rule, can_go: canGo, alone, keeps_by_type: keeps }) {
  if (!canGo) return rule === "duplicate" ? "A removal removes all of its ids." : "Not removable by this finding.";
  const order = alone ? "" : " Remove the ALLOW that is its reason first, or both together.";
  return `Every request has the same answer without it.${keeps ? "" : " Authorize-by-resource-type may answer differently."}${order}`;
}

function rowOf(finding) {
  const { acl, rule, severity, because, by, accepted } = finding;
  return { rule, severity, ...aclColumns(acl), reason: because, impact: impactOf(finding), by: by.map(aclText).join("; "), accepted, id: acl.id };
}

// The ACLs view searches one text.
function searchOf({ principal, resourceName }) {
  return principal === "User:*" ? resourceName : principal;
}

function RuleCounts({ rules, selected, onRule }) {
  return html`<div class="filters" role="group" aria-label="Findings by rule">
    ${Object.entries(rules).filter(([, number]) => number).map(
      ([rule, number]) => html`<button aria-pressed=${selected === rule} title=${RULES[rule]}
        onClick=${() => onRule(selected === rule ? null : rule)}>${rule} <b>${number.toLocaleString("en")}</b></button>`,
    )}
  </div>`;
}

// Puts all removable ACLs of the filtered list into the change.
function SelectRemovable({ list, rule, change, setChange }) {
  const [state, setState] = useState({ busy: false, error: null });
  const select = async () => {
    setState({ busy: true, error: null });
    try {
      const found = await collect(ask, PATH, { ...list, can_go: true }, "findings");
      setState({ busy: false, error: null });
      if (found.length) setChange(withRemovals(change, found.map(({ acl }) => acl)));
    } catch (error) {
      setState({ busy: false, error });
    }
  };
  return html`<button disabled=${state.busy} onClick=${select}>Select all ${rule ?? "removable"} and preview</button>
    ${state.error ? html`<${ErrorMessage} error=${state.error} />` : null}`;
}

function FindingRow({ finding, mayChange, change, setChange, go }) {
  const { acl, rule, severity, because, by } = finding;
  const isMarked = isRemoved(change, acl);
  return html`<tr class=${isMarked ? "removing" : ""}>
    ${mayChange
      ? html`<td><input type="checkbox" aria-label=${`Remove ${aclText(acl)}`} checked=${isMarked}
          onChange=${(event) => setChange(event.target.checked ? withRemoval(change, acl) : without(change, acl))} /></td>`
      : null}
    <td data-label="Rule"><b title=${RULES[rule]}>${rule}</b>${severity === "info" ? html` <small>information</small>` : null}</td>
    <td data-label="ACL"><bdi>${aclText(acl)}</bdi>${" "}
      <button aria-label=${`Show ${aclText(acl)} in ACLs`} onClick=${() => go({ view: "acls", text: searchOf(acl), lint: "yes", first: null })}>show</button></td>
    <td data-label="Proof"><bdi>${visible(because)}</bdi>
      ${by.length ? html`<ul class="changes">${by.map((each) => html`<li><bdi>${aclText(each)}</bdi></li>`)}</ul>` : null}</td>
    <td data-label="Impact">${finding.accepted === null || finding.accepted === undefined
      ? impactOf(finding)
      : html`Accepted: <bdi>${visible(finding.accepted) || "no reason is given"}</bdi>`}</td>
  </tr>`;
}

export function FindingsView({ view, go, time, refresh, change, setChange }) {
  const first = numberOf(view.first) ?? 0;
  const at = offsetOf(view.at);
  const { effect, ...filters } = filtersOf(view);
  const rule = view.rule in RULES ? view.rule : null;
  const severity = view.severity in SEVERITIES ? view.severity : null;
  const isAccepted = Boolean(view.accepted);
  const list = { ...filters, rule, severity, accepted: isAccepted || null, at_offset: at };
  const query = { ...list, first, count: PAGE };
  const { answer: page, error, busy } = useAnswer(PATH, query, [
    JSON.stringify(query),
    at === null ? time?.end_offset : time?.past?.first_end_offset,
  ]);
  const answer = usePrintedList(page, { send: ask, path: PATH, query: list, list: "findings" });
  const mayChange = refusalOf(view, time) === null;
  const set = (changes) => go({ ...changes, first: null }, { replace: true });
  return html`<section aria-label="Findings">
    ${answer ? html`<${RuleCounts} rules=${answer.rules} selected=${rule} onRule=${(to) => set({ rule: to })} />` : null}
    <${ListFilters} view=${view} go=${go} time=${time} hasEffect=${false}>
      <${Choice} label="Rule" value=${rule} values=${Object.keys(RULES).map((each) => [each, each])} onChange=${(to) => set({ rule: to })} />
      <${Choice} label="Severity" value=${severity} values=${Object.entries(SEVERITIES)} onChange=${(to) => set({ severity: to })} />
      ${answer?.accepted || isAccepted
        ? html`<label><input type="checkbox" checked=${isAccepted}
            onChange=${(event) => set({ accepted: event.target.checked ? "yes" : null })} /> only accepted ones</label>`
        : null}
    <//>
    ${rule ? html`<p>${rule}: ${RULES[rule]}.</p>` : null}
    <${ChangePanel} ...${{ view, go, time, refresh, change, setChange }} />
    ${error ? html`<${ErrorMessage} error=${error} />` : null}
    ${answer
      ? html`<div class="counts" aria-live="polite">
            <span><b class="total">${count(answer.total, isAccepted ? "accepted finding" : "finding")}</b> at ${stateText(answer.end_offset)};${" "}
              ${answer.can_go.toLocaleString("en")} of ${count(answer.acls, "ACL")} can be removed together${answer.accepted && !isAccepted
                ? html`; ${count(answer.accepted, "finding")} accepted by the file of rules, not counted`
                : null}</span>
            ${mayChange && !isAccepted ? html`<${SelectRemovable} ...${{ list, rule, change, setChange }} />` : null}
            <${Exports} send=${ask} path=${PATH} query=${list} list="findings" name="findings" rowOf=${rowOf} endOffset=${answer.end_offset} />
            <${Pager} first=${first} size=${PAGE} total=${answer.total} onFirst=${(to) => go({ first: to })} />
          </div>
          <div class=${`scroll ${busy ? "busy" : ""}`} tabindex="0" role="region" aria-label="Findings table">
            <table class="list">
              <thead><tr>
                ${mayChange ? html`<th scope="col">Remove</th>` : null}
                <th scope="col">Rule</th><th scope="col">ACL</th><th scope="col">Proof</th><th scope="col">Impact</th>
              </tr></thead>
              <tbody>${answer.findings.map(
                (finding) => html`<${FindingRow} key=${finding.rule + finding.acl.id} ...${{ finding, mayChange, change, setChange, go }} />`,
              )}</tbody>
            </table>
          </div>`
      : error ? null : html`<p class="notice">Computing…</p>`}
  </section>`;
}
