// What is answered otherwise: between two moments, by changes that are pasted, or by another cluster.

import { html, useState } from "./htm-preact.js";
import { ask, send } from "./api.js";
import { useAnswer } from "./asked.js";
import { NO_CHANGE, contentOf, whyNot } from "./change.js";
import { FlipList, asking } from "./flip_list.js";
import { PlanSummary } from "./plan_summary.js";
import { numberOf } from "./view.js";
import { visible } from "./words.js";

// What the URL holds of a text: browsers and tickets take more, people do not.
const TEXT_IN_URL = 2000;

function Waiting({ error }) {
  return error
    ? html`<p class="error" role="alert">${visible(error.message)}</p>`
    : html`<p class="notice">Working it out…</p>`;
}

function Moments({ view, go, time }) {
  const since = numberOf(view.since);
  const at = numberOf(view.at);
  const question = since === null ? null : { since, at_offset: at };
  const { answer, error } = useAnswer("console/v1/flips", question, [
    JSON.stringify(question),
    at === null ? time.offset : time.past?.first,
  ]);
  if (since === null) {
    return html`<p class="notice">Choose what to compare with, below.</p>`;
  }
  const buttons = (witness) => html`
    <button onClick=${() => go({ ...asking(witness), at: since })}>ask at ${since}</button>
    <button onClick=${() => go({ ...asking(witness), at })}>ask at ${at ?? "now"}</button>`;
  return html`<p>From offset ${since} to ${at === null ? `now (${time.offset})` : at}:</p>
    ${answer
      ? html`<${FlipList} answer=${answer} labels=${[`at ${since}`, at === null ? "now" : `at ${at}`]} buttons=${buttons} />`
      : html`<${Waiting} error=${error} />`}`;
}

function Changes({ view, go, time, setChange }) {
  const [text, setText] = useState(view.changes ?? "");
  const [asked, setAsked] = useState(text);
  const at = numberOf(view.at);
  const everything = Boolean(view.everything);
  const question = asked.trim() ? { text: asked, everything, at_offset: at } : null;
  const { answer, error } = useAnswer(
    "console/v1/plan",
    question,
    [JSON.stringify(question), at === null ? time.offset : time.past?.first],
    send,
  );
  const submitted = (event) => {
    event.preventDefault();
    setAsked(text);
    go({ changes: text.length > TEXT_IN_URL ? null : text }, { replace: true });
  };
  const take = () => {
    setChange({ ...NO_CHANGE, add: answer.added.acls.map(contentOf), remove: answer.removed.acls.map(contentOf) });
    go({ view: "acls" });
  };
  const isListed = answer && answer.added.total + answer.removed.total === answer.added.acls.length + answer.removed.acls.length;
  return html`<form class="pasted" onSubmit=${submitted}>
      <label>Changes, as aclog plan reads them: kafka-acls command lines, JSON lines, or a set of ACLs
        <textarea rows="5" spellcheck="false" value=${text} onInput=${(event) => setText(event.target.value)}
          placeholder="--add --allow-principal User:alice --operation Read --topic orders"></textarea>
      </label>
      <label><input type="checkbox" checked=${everything}
        onChange=${(event) => go({ everything: event.target.checked ? "yes" : null }, { replace: true })} />
        a set of ACLs is all that there are to be</label>
      <button>What would it do</button>
      ${asked.length > TEXT_IN_URL ? html`<p class="notice">The URL does not hold this text: it is too long.</p>` : null}
    </form>
    ${question === null
      ? html`<p class="notice">Nothing is changed by looking.</p>`
      : answer && !error
        ? html`<${PlanSummary} answer=${answer} />
            <${FlipList} answer=${answer} labels=${[at === null ? "now" : `at ${at}`, "then"]}
              buttons=${(witness) => html`<button onClick=${() => go(asking(witness))}>ask ${at === null ? "now" : `at ${at}`}</button>`} />
            ${whyNot(view, time) === null && isListed && answer.added.total + answer.removed.total
              ? html`<button onClick=${take}>take these changes to the ACLs</button>`
              : null}`
        : html`<${Waiting} error=${error} />`}`;
}

// One question, asked at two clusters.
function AskBoth({ witness, sides }) {
  const [answers, setAnswers] = useState(null);
  const { principal, operation, type, name, host } = witness;
  const question = { principal, operation, resourceType: type, resourceName: name, host };
  const clicked = async () => {
    const asked = sides.map(({ base, at }) => ask(`${base}console/v1/ask`, { ...question, at_offset: at }));
    setAnswers(await Promise.allSettled(asked));
  };
  const where = ({ base, at }) => {
    const given = Object.entries({ ...asking(witness), at }).filter(([, value]) => value !== null);
    return `${base}#${new URLSearchParams(given)}`;
  };
  return html`<button onClick=${clicked}>ask both</button>
    ${answers?.map(({ value, reason }, number) => html`<div class="asked">
      <a href=${where(sides[number])}>${sides[number].label}</a>:
      ${value
        ? html` <b>${value.result}</b>, ${visible(value.reason)}, as of offset ${value.offset}`
        : html` <span class="error">${visible(reason.message)}</span>`}
    </div>`)}`;
}

function Clusters({ view, go, time }) {
  const at = numberOf(view.at);
  const cluster = view.cluster ?? null;
  const question = cluster === null ? null : { cluster, at_offset: at };
  const { answer, error } = useAnswer("console/v1/flips", question, [
    JSON.stringify(question),
    at === null ? time.offset : time.past?.first,
  ]);
  const here = at === null ? time.cluster : `${time.cluster} at ${at}`;
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
      ? html`<p class="notice">Which one answers otherwise than ${here}?</p>`
      : answer && !error
        ? html`<p>${cluster} as it is now (offset ${answer.offset}), beside ${here}:</p>
            <${FlipList} answer=${answer} labels=${[cluster, here]}
              kinds=${{ granted: `allowed in ${time.cluster} alone`, revoked: `allowed in ${cluster} alone` }}
              buttons=${(witness) => html`<${AskBoth} witness=${witness} sides=${sides} />`} />`
        : html`<${Waiting} error=${error} />`}`;
}

const KINDS = {
  moment: ["another moment", Moments],
  changes: ["changes that I paste", Changes],
  cluster: ["another cluster", Clusters],
};

export function CompareView(props) {
  const { view, go, time } = props;
  const offered = { ...KINDS };
  if (!time.clusters.length) delete offered.cluster;
  // A report's file, which has no node to work them out.
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
    <${Shown} key=${kind} ...${props} />
  </section>`;
}
