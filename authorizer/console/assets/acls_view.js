// The ACLs in force, page by page, with a filter, lint findings and the pending change.

import { html } from "./htm-preact.js";
import { Copy } from "./copy.js";
import { useAnswer } from "./use_answer.js";
import { ChangePanel, withRemoval, without, isRemoved, refusalOf } from "./change.js";
import { ErrorMessage } from "./error_message.js";
import { numberOf, offsetOf } from "./view.js";
import { ask } from "./api.js";
import { Exports, aclColumns, isoDate, usePrintedList } from "./export.js";
import { Pager } from "./list_controls.js";
import { PRINTED_MAXIMUM, usePrinted } from "./print.js";
import { time as timeOf } from "./dates.js";
import { aclText, breakable, count, title, visible } from "./words.js";

const PAGE = 100;

function rowOf(acl) {
  return { ...aclColumns(acl), offset: acl.offset, date: isoDate(acl.timestamp), id: acl.id };
}

export function AclsView({ view, go, time, refresh, change, setChange }) {
  const first = numberOf(view.first) ?? 0;
  const list = { containing: view.text || null, at_offset: offsetOf(view.at) };
  const query = { ...list, first, count: PAGE };
  const { answer: page, error, busy } = useAnswer("console/v1/acls", query, [
    JSON.stringify(query),
    offsetOf(view.at) === null ? time?.end_offset : time?.past?.first_end_offset,
  ]);
  const lint = useAnswer("console/v1/findings", view.lint ? query : null, [
    JSON.stringify(query),
    view.lint,
    offsetOf(view.at) === null ? time?.end_offset : time?.past?.first_end_offset,
  ]);
  const answer = usePrintedList(page, { send: ask, path: "console/v1/acls", query: list, list: "acls" });
  // The findings of the printed ACLs, by id.
  const found = usePrinted(lint.answer, () =>
    view.lint ? ask("console/v1/findings", { ...list, first: 0, count: PRINTED_MAXIMUM }) : Promise.resolve({}),
  );
  const findings = view.lint ? found : null;
  const mayChange = refusalOf(view, time) === null;
  const mark = (acl) => (event) => setChange(event.target.checked ? withRemoval(change, acl) : without(change, acl));
  return html`<section aria-label="ACLs">
    <form class="filters" onSubmit=${(event) => event.preventDefault()}>
      <label>With
        <input type="search" value=${view.text ?? ""} placeholder="a principal, a name or a host"
          onInput=${(event) => go({ text: event.target.value, first: null }, { replace: true })} />
      </label>
      <label><input type="checkbox" checked=${Boolean(view.lint)}
        onChange=${(event) => go({ lint: event.target.checked ? "yes" : null })} /> findings</label>
      ${view.lint && lint.busy ? html`<span class="notice">checking…</span>` : null}
      ${view.lint && lint.error ? html`<${ErrorMessage} error=${lint.error} />` : null}
    </form>
    <${ChangePanel} ...${{ view, go, time, refresh, change, setChange }} />
    ${error ? html`<${ErrorMessage} error=${error} />` : null}
    ${answer
      ? html`<div class="counts" aria-live="polite">
            <span>${count(answer.total, "ACL")}</span>
            <${Exports} send=${ask} path="console/v1/acls" query=${list}
              list="acls" name="acls" rowOf=${rowOf} endOffset=${answer.end_offset} />
            <${Pager} first=${first} size=${PAGE} total=${answer.total} onFirst=${(to) => go({ first: to })} />
          </div>
          <div class=${`scroll ${busy ? "busy" : ""}`} tabindex="0" role="region" aria-label="ACL table">
            <table class="list">
              <thead><tr>
                ${mayChange ? html`<th scope="col">Remove</th>` : null}
                <th scope="col">Principal</th><th scope="col">May</th><th scope="col">Operation</th>
                <th scope="col">Resource</th><th scope="col">Host</th><th scope="col">Written</th>
                ${findings ? html`<th scope="col">Findings</th>` : null}
                <th scope="col"><span class="hidden">Copy</span></th>
              </tr></thead>
              <tbody>
                ${answer.acls.map(
                  (acl) => html`<tr key=${acl.id} class=${isRemoved(change, acl) ? "removing" : ""}>
                    ${mayChange
                      ? html`<td><input type="checkbox" aria-label=${`Remove ${aclText(acl)}`}
                          checked=${isRemoved(change, acl)} onChange=${mark(acl)} /></td>`
                      : null}
                    <td data-label="Principal"><bdi>${breakable(acl.principal)}</bdi></td>
                    <td data-label="May" class=${acl.permissionType === "ALLOW" ? "allowed" : "denied"}>${acl.permissionType}</td>
                    <td data-label="Operation">${title(acl.operation)}</td>
                    <td data-label="Resource"><small>${title(acl.resourceType)}</small>
                      <bdi>${breakable(acl.resourceName)}${acl.patternType === "PREFIXED" ? "*" : ""}</bdi></td>
                    <td data-label="Host"><bdi>${acl.host === "*" ? "any" : visible(acl.host)}</bdi></td>
                    <td data-label="Written">${acl.offset === null ? "" : `offset ${acl.offset}, `}<span class="date">${timeOf(acl.timestamp)}</span></td>
                    ${findings
                      ? html`<td data-label="Findings">${(findings[acl.id] ?? []).map(
                          (each) => html`<div title=${visible(each.by.map(aclText).join("\n"))}>
                            <b>${each.rule}</b> <bdi>${visible(each.because)}</bdi></div>`,
                        )}</td>`
                      : null}
                    <td><${Copy} text=${aclText(acl)} what=${aclText(acl)} /></td>
                  </tr>`,
                )}
              </tbody>
            </table>
          </div>`
      : error ? null : html`<p class="notice">Computing…</p>`}
  </section>`;
}
