// The changes of ACLs between two states: filtered, grouped by change, page by page.

import { html } from "./htm-preact.js";
import { ask } from "./api.js";
import { useAnswer } from "./use_answer.js";
import { ErrorMessage } from "./error_message.js";
import { Exports, aclColumns, isoDate, usePrintedList } from "./export.js";
import { ListFilters, Pager, filtersOf } from "./list_controls.js";
import { time as timeOf } from "./dates.js";
import { numberOf, offsetOf, urlOffset } from "./view.js";
import { aclText, count, datedOffset, stateText } from "./words.js";

const PAGE = 100;
const MARKS = { added: "+", removed: "−", replaced: "±", many: "…" };
const PATH = "console/v1/changes";

function ChangeLine({ change }) {
  const { kind, acl, offset, added, removed } = change;
  return html`<li class=${kind}>
    <span class="mark">${MARKS[kind]}</span>
    <bdi>${acl ? aclText(acl) : `${added} added, ${removed} removed`}</bdi>
    <small>${offset === null ? `by ${stateText(change.end_offset)}` : `${kind} at offset ${offset}`}, ${timeOf(change.timestamp)}</small>
  </li>`;
}

export function ChangeLines({ changes }) {
  return html`<ol class="changes">${changes.map((each) => html`<${ChangeLine} change=${each} />`)}</ol>`;
}

// Consecutive lines of one state.
function groupsOf(changes) {
  const groups = [];
  for (const change of changes) {
    if (groups.at(-1)?.[0].end_offset === change.end_offset) groups.at(-1).push(change);
    else groups.push([change]);
  }
  return groups;
}

function rowOf(change) {
  const { kind, offset, end_offset: end, timestamp, acl } = change;
  return { change: kind, offset: offset ?? end - 1, date: isoDate(timestamp), ...aclColumns(acl) };
}

export function ChangesView({ view, go, time }) {
  const first = numberOf(view.first) ?? 0;
  const until = offsetOf(view.at);
  const oldest = view.order === "oldest";
  const list = { after: offsetOf(view.since) ?? -1, until, ...filtersOf(view), oldest_first: oldest || null, temporary: Boolean(view.temporary) || null };
  const query = { ...list, first, count: PAGE };
  const { answer: page, error, busy } = useAnswer(PATH, query, [
    JSON.stringify(query),
    until === null ? time.end_offset : null,
    time.past?.first_end_offset,
  ]);
  const answer = usePrintedList(page, { send: ask, path: PATH, query: list, list: "changes" });
  const from = view.since === undefined ? "the first known state" : datedOffset(list.after, time.past);
  return html`<section aria-label="Changes">
    <${ListFilters} view=${view} go=${go} time=${time}>
      <label>Order <select aria-label="Order" value=${oldest ? "oldest" : ""}
        onChange=${(event) => go({ order: event.target.value, first: null }, { replace: true })}>
        <option value="">newest first</option><option value="oldest">oldest first</option>
      </select></label>
      <label><input type="checkbox" checked=${Boolean(view.temporary)}
        onChange=${(event) => go({ temporary: event.target.checked ? "yes" : null, first: null }, { replace: true })} /> only what was undone in the period</label>
    <//>
    <p>From ${from} to ${until === null ? "now" : datedOffset(until, time.past)}; choose the period below.</p>
    ${error ? html`<${ErrorMessage} error=${error} />` : null}
    ${answer
      ? html`<div class="counts" aria-live="polite">
            <b class="total">${count(answer.total, "change")}</b>
            <${Exports} send=${ask} path=${PATH} query=${list} list="changes" name="acl-changes" rowOf=${rowOf}
              endOffset=${until === null ? time.end_offset : until + 1} />
            <${Pager} first=${first} size=${PAGE} total=${answer.total} onFirst=${(to) => go({ first: to })} />
          </div>
          <ol class=${`groups ${busy ? "busy" : ""}`}>
            ${groupsOf(answer.changes).map(
              (group) => html`<li>
                <button onClick=${() => go({ at: urlOffset(group[0].end_offset), view: "matrix" })}>show the state</button>
                ${" "}<b>${stateText(group[0].end_offset)}, ${timeOf(group[0].timestamp)}</b>
                <${ChangeLines} changes=${group} />
              </li>`,
            )}
          </ol>`
      : error ? null : html`<p class="notice">Computing…</p>`}
  </section>`;
}
