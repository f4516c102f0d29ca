// Classes of requests that were granted and revoked again within the compared period, or the reverse.

import { html } from "./htm-preact.js";
import { ask } from "./api.js";
import { PAGE, viewOfRequest } from "./decision_changes.js";
import { ErrorMessage } from "./error_message.js";
import { Exports, isoDate, usePrintedList } from "./export.js";
import { filtersOf } from "./list_filters.js";
import { Pager } from "./pager.js";
import { useAnswer } from "./use_answer.js";
import { numberOf, offsetOf, urlOffset } from "./view.js";
import { count, stateAndTime, title, visible } from "./words.js";

const PATH = "console/v1/temporary";
const KINDS = { granted: ["+", "granted and revoked again", "allowed"], revoked: ["−", "revoked and granted again", "denied"] };

function rowOf({ direction, who, what, witness, since, until, times, releases }) {
  const { principal, operation, type, name, host } = witness;
  return {
    change: KINDS[direction][1], who, what, principal, operation, resourceType: type, resourceName: name, host,
    sinceOffset: since.end_offset - 1, since: isoDate(since.timestamp),
    untilOffset: until.end_offset - 1, until: isoDate(until.timestamp), times, releases,
  };
}

function TemporaryChange({ change, go }) {
  const { direction, who, what, witness, since, until, times } = change;
  const [mark, kind, style] = KINDS[direction];
  const check = (state, label) => html`<button onClick=${() => go({ ...viewOfRequest(witness), at: urlOffset(state.end_offset) })}>${label}</button>`;
  return html`<li class=${style}>
    <b><span aria-hidden="true">${mark}</span> ${kind}</b>
    <span class="plain"> <bdi>${visible(who)}</bdi>: <bdi>${visible(what)}</bdi></span>
    <div class="plain">
      for example <bdi>${visible(witness.principal)} ${title(witness.operation)} ${visible(witness.name)} from ${visible(witness.host)}</bdi>
      ${" "}${check(since, "check at its begin")} ${check(until, "check at its end")}
    </div>
    <div class="why">since ${stateAndTime(since)}, until ${stateAndTime(until)}${times > 1 ? `, ${times} times` : ""}</div>
  </li>`;
}

export function TemporaryChanges({ view, go, time }) {
  const [since, at] = [view.since, view.at].map(offsetOf);
  const list = { since, at_offset: at, ...filtersOf(view) };
  const query = { ...list, first: numberOf(view.temporary_first) ?? 0, count: PAGE };
  const endOffset = at === null ? time.end_offset : at + 1;
  const { answer: page, error } = useAnswer(PATH, query, [JSON.stringify(query), at === null ? time.end_offset : time.past?.first_end_offset]);
  const paged = { send: ask, path: PATH, query: list, list: "temporary" };
  const answer = usePrintedList(page, paged);
  return html`<section aria-label="Within the period">
    <h2>Granted and revoked again within the period</h2>
    ${error ? html`<${ErrorMessage} error=${error} />` : null}
    ${answer
      ? html`<p aria-live="polite">${answer.unknown
            ? `Not known: ${answer.unknown}.`
            : html`<b>${answer.total ? count(answer.total, "class", "classes") : "No class"}</b> of requests had another answer in between only.`}</p>
          ${answer.total
            ? html`<div class="counts">
                <${Exports} ...${paged} name="temporary-changes" what="what was temporary" rowOf=${rowOf} endOffset=${endOffset} />
                ${answer.total > PAGE || answer.first
                  ? html`<${Pager} first=${answer.first} size=${PAGE} total=${answer.total} onFirst=${(first) => go({ temporary_first: first })} />`
                  : null}
              </div>
              <ul class="classes-within">${answer.temporary.map((change) => html`<${TemporaryChange} key=${JSON.stringify(change)} change=${change} go=${go} />`)}</ul>`
            : null}`
      : error ? null : html`<p class="notice">Computing…</p>`}
  </section>`;
}
