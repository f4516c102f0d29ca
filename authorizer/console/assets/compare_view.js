// What is answered otherwise: between two moments, by changes that are pasted, or by another cluster.

import { html, useState } from "./htm-preact.js";
import { ask, send } from "./api.js";
import { useAnswer } from "./asked.js";
import { NO_CHANGE, contentOf, whyNot } from "./change.js";
import { FlipList, asking } from "./flip_list.js";
import { PlanSummary } from "./plan_summary.js";
import { Trouble } from "./trouble.js";
import { offsetOf, urlOffset } from "./view.js";
import { offsetText, stateAndTime, visible } from "./words.js";

// What the URL holds of a text: browsers and tickets take more, people do not.
const TEXT_IN_URL = 2000;

function Waiting({ error }) {
  return error
    ? html`<${Trouble} error=${error} />`
    : html`<p class="notice">Working it out…</p>`;
}

// Of what `at` or `since` names, as a label.
function atText(text) {
  const offset = offsetOf(text);
  return offset === null ? "now" : `at ${offset < 0 ? "the start" : offset}`;
}

function Moments({ view, go, time }) {
  const since = offsetOf(view.since);
  const at = offsetOf(view.at);
  const question = since === null ? null : { since, at_offset: at };
  const { answer, error } = useAnswer("console/v1/flips", question, [
    JSON.stringify(question),
    at === null ? time.end_offset : time.past?.first_end_offset,
  ]);
  if (since === null) {
    return html`<p class="notice">Choose what to compare with, below.</p>`;
  }
  const [before, after] = [view.since, view.at].map(atText);
  const buttons = (witness) => html`
    <button onClick=${() => go({ ...asking(witness), at: view.since })}>ask ${before}</button>
    <button onClick=${() => go({ ...asking(witness), at: view.at ?? null })}>ask ${after}</button>`;
  return html`<p>From ${offsetText(since)} to ${at === null ? `now (${stateAndTime(time)})` : offsetText(at)}:</p>
    ${answer && error ? html`<${Trouble} error=${error} />` : null}
    ${answer
      ? html`<${FlipList} answer=${answer} labels=${[before, after]} buttons=${buttons} />`
      : html`<${Waiting} error=${error} />`}`;
}

function Changes({ view, go, time, setChange }) {
  const [text, setText] = useState(view.changes ?? "");
  const [asked, setAsked] = useState(text);
  const at = offsetOf(view.at);
  const everything = Boolean(view.everything);
  const question = asked.trim() ? { text: asked, everything, at_offset: at } : null;
  const { answer, error } = useAnswer(
    "console/v1/plan",
    question,
    [JSON.stringify(question), at === null ? time.end_offset : time.past?.first_end_offset],
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
      : answer
        ? html`${error ? html`<${Trouble} error=${error} />` : null}<${PlanSummary} answer=${answer} />
            <${FlipList} answer=${answer} labels=${[atText(view.at), "then"]}
              buttons=${(witness) => html`<button onClick=${() => go(asking(witness))}>ask ${atText(view.at)}</button>`} />
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
    const place = at === null ? null : urlOffset(at + 1);
    const given = Object.entries({ ...asking(witness), at: place }).filter(([, value]) => value !== null);
    return `${base}#${new URLSearchParams(given)}`;
  };
  return html`<button onClick=${clicked}>ask both</button>
    ${answers?.map(({ value, reason }, number) => html`<div class="asked">
      <a href=${where(sides[number])}>${sides[number].label}</a>:
      ${value
        ? html` <b>${value.result}</b>, ${visible(value.reason)}, as of ${stateAndTime(value)}`
        : html` <span class="error">${visible(reason.message)}</span>`}
    </div>`)}`;
}

function Clusters({ view, go, time }) {
  const at = offsetOf(view.at);
  const cluster = view.cluster ?? null;
  const question = cluster === null ? null : { cluster, at_offset: at };
  const { answer, error } = useAnswer("console/v1/flips", question, [
    JSON.stringify(question),
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
      ? html`<p class="notice">Which one answers otherwise than ${here}?</p>`
      : answer
        ? html`${error ? html`<${Trouble} error=${error} />` : null}<p>${cluster} as it is now (${stateAndTime(answer)}), beside ${here}:</p>
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
