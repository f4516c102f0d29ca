// Decision changes: between two states, by pasted changes, or between two clusters.

import { html, useState } from "./htm-preact.js";
import { ask, send } from "./api.js";
import { useAnswer } from "./use_answer.js";
import { useDraft } from "./draft.js";
import { NO_CHANGE, contentOf, refusalOf } from "./change.js";
import { ListFilters, filtersOf } from "./list_controls.js";
import { DecisionChangeList, PAGE, TemporaryChanges, viewOfRequest } from "./decision_changes.js";
import { PlanSummary } from "./plan_summary.js";
import { ErrorMessage } from "./error_message.js";
import { numberOf, offsetOf, urlOffset } from "./view.js";
import { datedOffset, stateAndTime, visible } from "./words.js";

// Maximum length of a text in the URL, so that people can share it.
const TEXT_IN_URL = 2000;

function Pending({ error }) {
  return error
    ? html`<${ErrorMessage} error=${error} />`
    : html`<p class="notice">Computing…</p>`;
}

// Label of the state that `at` or `since` names.
function atText(text) {
  const offset = offsetOf(text);
  return offset === null ? "now" : `at ${offset < 0 ? "the start" : offset}`;
}

// The request of a page of changes, and what the list needs for the others.
function pageOf({ view, go, time }, path, request, sender = ask) {
  if (request === null) return [null, null];
  const list = { ...request, ...filtersOf(view) };
  const at = offsetOf(view.at);
  return [
    { ...list, first: numberOf(view.first) ?? 0, count: PAGE },
    { send: sender, path, query: list, endOffset: at === null ? time.end_offset : at + 1, onFirst: (first) => go({ first }) },
  ];
}

function States({ view, go, time }) {
  const since = offsetOf(view.since);
  const at = offsetOf(view.at);
  const request = since === null ? null : { since, at_offset: at };
  const [query, paged] = pageOf({ view, go, time }, "console/v1/flips", request);
  const { answer, error } = useAnswer("console/v1/flips", query, [
    JSON.stringify(query),
    at === null ? time.end_offset : time.past?.first_end_offset,
  ]);
  if (since === null) {
    return html`<p class="notice">Choose a state to compare with, below.</p>`;
  }
  const [before, after] = [view.since, view.at].map(atText);
  const buttons = (witness) => html`
    <button onClick=${() => go({ ...viewOfRequest(witness), at: view.since })}>check ${before}</button>
    <button onClick=${() => go({ ...viewOfRequest(witness), at: view.at ?? null })}>check ${after}</button>`;
  return html`<p>From ${datedOffset(since, time.past)} to ${at === null ? `now (${stateAndTime(time)})` : datedOffset(at, time.past)}:</p>
    ${answer && error ? html`<${ErrorMessage} error=${error} />` : null}
    ${answer
      ? html`<${DecisionChangeList} answer=${answer} labels=${[before, after]} buttons=${buttons} paged=${paged} />
          ${time.facts ? null : html`<${TemporaryChanges} view=${view} go=${go} time=${time} />`}`
      : html`<${Pending} error=${error} />`}`;
}

const PLAN_PATH = "console/v1/plan";

// All added or removed ACLs of a preview, however many pages they are.
async function allAcls(request, kind) {
  const acls = [];
  for (;;) {
    const { [kind]: page } = await send(PLAN_PATH, { ...request, [`${kind}_first`]: acls.length, count: 1 });
    acls.push(...page.acls);
    if (acls.length >= page.total || !page.acls.length) return acls;
  }
}

function Changes({ view, go, time, setChange }) {
  const inUrl = view.changes ?? "";
  const [draft, setDraft] = useDraft("pasted", { text: "", inUrl: "" });
  // A draft of another URL stays behind this one's text.
  const text = draft.inUrl === inUrl ? draft.text : inUrl;
  const [submittedText, setSubmittedText] = useState(inUrl);
  const [problem, setProblem] = useState(null);
  const at = offsetOf(view.at);
  const everything = Boolean(view.everything);
  const [firsts, setFirsts] = useState({});
  const request = submittedText.trim() ? { text: submittedText, everything, at_offset: at } : null;
  const [page, paged] = pageOf({ view, go, time }, PLAN_PATH, request, send);
  const query = page && { ...page, ...firsts };
  const { answer, error } = useAnswer(
    PLAN_PATH,
    query,
    [JSON.stringify(query), at === null ? time.end_offset : time.past?.first_end_offset],
    send,
  );
  const submitted = (event) => {
    event.preventDefault();
    setSubmittedText(text);
    setFirsts({});
    const isShort = text.length <= TEXT_IN_URL;
    setDraft({ text, inUrl: isShort ? text : "" });
    go({ changes: isShort ? text : null }, { replace: true });
  };
  const take = async () => {
    try {
      const [add, remove] = [await allAcls(request, "added"), await allAcls(request, "removed")];
      setChange({ ...NO_CHANGE, add: add.map(contentOf), remove: remove.map(contentOf) });
      go({ view: "acls" });
    } catch (failure) {
      setProblem(failure);
    }
  };
  return html`<form class="pasted" onSubmit=${submitted}>
      <label>Changes in a format of aclog plan: kafka-acls command lines, JSON lines, or a set of ACLs
        <textarea rows="5" spellcheck="false" value=${text} onInput=${(event) => setDraft({ text: event.target.value, inUrl })}
          placeholder="--add --allow-principal User:alice --operation Read --topic orders"></textarea>
      </label>
      <label><input type="checkbox" checked=${everything}
        onChange=${(event) => go({ everything: event.target.checked ? "yes" : null }, { replace: true })} />
        remove all ACLs that are not in the set</label>
      <button>Preview</button>
      ${submittedText.length > TEXT_IN_URL ? html`<p class="notice">This text is too long for the URL.</p>` : null}
    </form>
    ${query === null
      ? html`<p class="notice">A preview changes nothing.</p>`
      : answer
        ? html`${error ? html`<${ErrorMessage} error=${error} />` : null}<${PlanSummary} answer=${answer} onFirst=${(first) => setFirsts({ ...firsts, ...first })} />
            <${DecisionChangeList} answer=${answer} labels=${[atText(view.at), "after"]} paged=${paged}
              buttons=${(witness) => html`<button onClick=${() => go(viewOfRequest(witness))}>check ${atText(view.at)}</button>`} />
            ${refusalOf(view, time) === null && answer.added.total + answer.removed.total
              ? html`<button onClick=${take}>Edit these changes in ACLs</button>${problem ? html`<${ErrorMessage} error=${problem} />` : null}`
              : null}`
        : html`<${Pending} error=${error} />`}`;
}

// One request, checked at two clusters.
function CheckBoth({ witness, sides }) {
  const [answers, setAnswers] = useState(null);
  const { principal, operation, type, name, host } = witness;
  const query = { principal, operation, resourceType: type, resourceName: name, host };
  const clicked = async () => {
    const requests = sides.map(({ base, at }) => ask(`${base}console/v1/ask`, { ...query, at_offset: at }));
    setAnswers(await Promise.allSettled(requests));
  };
  const linkTo = ({ base, at }) => {
    const offset = at === null ? null : urlOffset(at + 1);
    const parameters = Object.entries({ ...viewOfRequest(witness), at: offset }).filter(([, value]) => value !== null);
    return `${base}#${new URLSearchParams(parameters)}`;
  };
  return html`<button onClick=${clicked}>check both</button>
    ${answers?.map(({ value, reason }, number) => html`<div class="side">
      <a href=${linkTo(sides[number])}>${sides[number].label}</a>:
      ${value
        ? html` <b>${value.result}</b>, ${visible(value.reason)}, as of ${stateAndTime(value)}`
        : html` <span class="error">${visible(reason.message)}</span>`}
    </div>`)}`;
}

function Clusters({ view, go, time }) {
  const at = offsetOf(view.at);
  const cluster = view.cluster ?? null;
  const request = cluster === null ? null : { cluster, at_offset: at };
  const [query, paged] = pageOf({ view, go, time }, "console/v1/flips", request);
  const { answer, error } = useAnswer("console/v1/flips", query, [
    JSON.stringify(query),
    at === null ? time.end_offset : time.past?.first_end_offset,
  ]);
  const here = at === null ? time.cluster : `${time.cluster} ${atText(view.at)}`;
  const sides = [
    { label: cluster, base: `../${cluster}/`, at: null },
    { label: here, base: `../${time.cluster}/`, at },
  ];
  return html`<label class="filters">The cluster
      <select value=${cluster ?? ""} onChange=${(event) => go({ cluster: event.target.value })}>
        <option value="" disabled>choose one</option>
        ${time.clusters.map((each) => html`<option value=${each}>${each}</option>`)}
      </select></label>
    ${cluster === null
      ? html`<p class="notice">Choose the cluster to compare with ${here}.</p>`
      : answer
        ? html`${error ? html`<${ErrorMessage} error=${error} />` : null}<p>${cluster} as it is now (${stateAndTime(answer)}) compared with ${here}:</p>
            <${DecisionChangeList} answer=${answer} labels=${[cluster, here]} paged=${paged}
              kinds=${{ granted: `allowed only in ${time.cluster}`, revoked: `allowed only in ${cluster}` }}
              buttons=${(witness) => html`<${CheckBoth} witness=${witness} sides=${sides} />`} />`
        : html`<${Pending} error=${error} />`}`;
}

const KINDS = {
  moment: ["another state", States],
  changes: ["pasted changes", Changes],
  cluster: ["another cluster", Clusters],
};

export function CompareView(props) {
  const { view, go, time } = props;
  const offered = { ...KINDS };
  if (!time.clusters.length) delete offered.cluster;
  // A report has no node that could compute a preview.
  if (time.facts) delete offered.changes;
  const kind = offered[view.with] ? view.with : "moment";
  const [, Shown] = offered[kind];
  return html`<section aria-label="Compare">
    <form class="filters" onSubmit=${(event) => event.preventDefault()}>
      <label>Compare ${time.cluster ?? "the ACLs"} with
        <select value=${kind} onChange=${(event) => go({ with: event.target.value === "moment" ? null : event.target.value })}>
          ${Object.entries(offered).map(([each, [label]]) => html`<option value=${each}>${label}</option>`)}
        </select></label>
    </form>
    <${ListFilters} view=${view} go=${go} time=${time} />
    <${Shown} key=${kind} ...${props} />
  </section>`;
}
