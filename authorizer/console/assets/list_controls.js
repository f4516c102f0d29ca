// Controls that lists share: filters, held in the URL, and buttons for the pages.

import { html } from "./htm-preact.js";
import { PRINTED_MAXIMUM, PrintedPart, useIsPrinting } from "./print.js";
import { useAnswer } from "./use_answer.js";
import { OPERATIONS, TYPES, title } from "./words.js";

const SUGGESTED = 10;
const EFFECTS = { granted: "granted (wider)", revoked: "revoked (narrower)" };

// The parameters of a request for a filtered list.
export function filtersOf(view) {
  const { who, team, containing, only_type: type, only_operation: operation, effect, everyone } = view;
  const chosen = Object.entries({ who, team, containing, type, operation, effect, everyone: Boolean(everyone) });
  return Object.fromEntries(chosen.filter(([, value]) => value));
}

export function Choice({ label, value, values, onChange }) {
  return html`<label>${label} <select aria-label=${label} value=${value ?? ""} onChange=${(event) => onChange(event.target.value)}>
    <option value="">all</option>
    ${values.map(([each, text]) => html`<option value=${each}>${text}</option>`)}
  </select></label>`;
}

// A team of the configured pattern, with suggestions.
export function TeamFilter({ team, onChange }) {
  const { answer } = useAnswer("console/v1/names", team ? { text: team, count: SUGGESTED } : null, [team]);
  return html`<label>Team <input type="search" list="teams" value=${team ?? ""} placeholder="payments"
      onInput=${(event) => onChange(event.target.value)} /></label>
    <datalist id="teams">${answer?.words.flatMap(({ teams }) => teams.map((each) => html`<option value=${each} />`))}</datalist>`;
}

export function ListFilters({ view, go, time, hasEffect = true, children }) {
  const set = (name) => (value) => go({ [name]: value, first: null, temporary_first: null }, { replace: true });
  const typed = (name) => (event) => set(name)(event.target.value);
  const titled = (names) => names.map((each) => [each, title(each)]);
  return html`<form class="filters" onSubmit=${(event) => event.preventDefault()}>
    <label>Principals with <input type="search" value=${view.who ?? ""} placeholder="User:team." onInput=${typed("who")} /></label>
    ${time?.has_teams ? html`<${TeamFilter} team=${view.team} onChange=${set("team")} />` : null}
    <label>Names with <input type="search" value=${view.containing ?? ""} placeholder="orders" onInput=${typed("containing")} /></label>
    <${Choice} label="Resource" value=${view.only_type} values=${titled(TYPES)} onChange=${set("only_type")} />
    <${Choice} label="Operation" value=${view.only_operation} values=${titled(OPERATIONS)} onChange=${set("only_operation")} />
    ${hasEffect ? html`<${Choice} label="Effect" value=${view.effect} values=${Object.entries(EFFECTS)} onChange=${set("effect")} />` : null}
    <label><input type="checkbox" checked=${Boolean(view.everyone)}
      onChange=${(event) => set("everyone")(event.target.checked ? "yes" : null)} /> only for every principal (User:*)</label>
    ${children}
  </form>`;
}

// `command`: prints all lines, where that is not a report.
export function Pager({ first: firstOfPage, size: sizeOfPage, total, onFirst, command }) {
  const isPrinting = useIsPrinting();
  const [first, size] = isPrinting ? [0, PRINTED_MAXIMUM] : [firstOfPage, sizeOfPage];
  const isPart = first > 0 || first + size < total;
  const lines = `lines ${(first + 1).toLocaleString("en")} to ${Math.min(total, first + size).toLocaleString("en")} of ${total.toLocaleString("en")}`;
  return html`${isPart ? html`<${PrintedPart} printed=${lines} command=${command} />` : null}<span class="pager">
    <button disabled=${!first} aria-label="Previous page" onClick=${() => onFirst(Math.max(0, first - size) || null)}>◀</button>
    <span>${total ? (first + 1).toLocaleString("en") : 0}–${Math.min(total, first + size).toLocaleString("en")} of ${total.toLocaleString("en")}</span>
    <button disabled=${first + size >= total} aria-label="Next page" onClick=${() => onFirst(first + size)}>▶</button>
  </span>`;
}
