// Classes of requests whose decision changes, each with a witness and the deciding ACLs; and those that were
// granted and revoked again within the compared period, or the reverse.

import { html } from "./htm-preact.js";
import { ask } from "./api.js";
import { ErrorMessage } from "./error_message.js";
import { Exports, isoDate, usePrintedList } from "./export.js";
import { Pager, filtersOf } from "./list_controls.js";
import { useAnswer } from "./use_answer.js";
import { numberOf, offsetOf, urlOffset } from "./view.js";
import { count, decisionText, stateAndTime, title, visible } from "./words.js";

const KINDS = { granted: "granted", revoked: "revoked" };

// The view that checks a witness.
export function viewOfRequest({ principal, operation, type, name, host }) {
  return { view: "ask", principal, operation, type, name, host, prefix: null, anyone: null };
}

export function DecisionChange({ flip, labels, kinds = KINDS, buttons }) {
  const { direction, witness } = flip;
  return html`<li class=${direction === "granted" ? "allowed" : "denied"}>
    <b><span aria-hidden="true">${direction === "granted" ? "+" : "−"}</span> ${kinds[direction]}</b>
    <span class="plain"> <bdi>${visible(flip.who)}</bdi>: <bdi>${visible(flip.what)}</bdi></span>
    <div class="plain">
      for example <bdi>${visible(witness.principal)} ${title(witness.operation)} ${visible(witness.name)} from ${visible(witness.host)}</bdi>
      ${buttons?.(witness)}
    </div>
    <div class="why">${labels[0]}: <bdi>${decisionText(flip.before)}</bdi></div>
    <div class="why">${labels[1]}: <bdi>${decisionText(flip.after)}</bdi></div>
  </li>`;
}

// `labels` name the two sides, `kinds` the two directions; `buttons` check a witness.
// Number of changes on a page.
export const PAGE = 200;

function rowOf({ direction, who, what, witness, before, after, releases }) {
  const { principal, operation, type, name, host } = witness;
  return {
    change: direction, who, what, principal, operation, resourceType: type, resourceName: name, host,
    before: decisionText(before), after: decisionText(after), releases,
  };
}

// `paged`: the request of the list and a function to its pages.
export function DecisionChangeList({ answer: page, labels, kinds = KINDS, buttons, paged }) {
  const answer = usePrintedList(page, { ...paged, list: "flips" });
  const { total, granted, revoked, flips, first, left_out: leftOut } = answer;
  return html`<p class="flipped-classes" aria-live="polite">
      <b>${total ? count(total, "class", "classes") : "No class"}</b> of requests changed${total
        ? `: ${granted} ${kinds.granted}, ${revoked} ${kinds.revoked}`
        : ""}${leftOut ? `; ${leftOut.toLocaleString("en")} more are not in this file` : ""}
    </p>
    <div class="counts">
      <${Exports} ...${paged} list="flips" name="decision-changes" rowOf=${rowOf} />
      <${Pager} first=${first} size=${PAGE} total=${total} onFirst=${paged.onFirst} />
    </div>
    <ul class="flips">
      ${flips.map((flip) => html`<${DecisionChange} key=${`${flip.direction}\n${flip.who}\n${flip.what}`} ...${{ flip, labels, kinds, buttons }} />`)}
    </ul>`;
}

const TEMPORARY_PATH = "console/v1/temporary";
const TEMPORARY_KINDS = { granted: ["+", "granted and revoked again", "allowed"], revoked: ["−", "revoked and granted again", "denied"] };

function temporaryRowOf({ direction, who, what, witness, since, until, times, releases }) {
  const { principal, operation, type, name, host } = witness;
  return {
    change: TEMPORARY_KINDS[direction][1], who, what, principal, operation, resourceType: type, resourceName: name, host,
    sinceOffset: since.end_offset - 1, since: isoDate(since.timestamp),
    untilOffset: until.end_offset - 1, until: isoDate(until.timestamp), times, releases,
  };
}

function TemporaryChange({ change, go }) {
  const { direction, who, what, witness, since, until, times } = change;
  const [mark, kind, style] = TEMPORARY_KINDS[direction];
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
  const { answer: page, error } = useAnswer(TEMPORARY_PATH, query, [JSON.stringify(query), at === null ? time.end_offset : time.past?.first_end_offset]);
  const paged = { send: ask, path: TEMPORARY_PATH, query: list, list: "temporary" };
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
                <${Exports} ...${paged} name="temporary-changes" what="what was temporary" rowOf=${temporaryRowOf} endOffset=${endOffset} />
                ${answer.total > PAGE || answer.first
                  ? html`<${Pager} first=${answer.first} size=${PAGE} total=${answer.total} onFirst=${(first) => go({ temporary_first: first })} />`
                  : null}
              </div>
              <ul class="classes-within">${answer.temporary.map((change) => html`<${TemporaryChange} key=${JSON.stringify(change)} change=${change} go=${go} />`)}</ul>`
            : null}`
      : error ? null : html`<p class="notice">Computing…</p>`}
  </section>`;
}
