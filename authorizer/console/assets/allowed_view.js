// All names with a prefix, or everyone who may: which classes of questions are answered alike, exact.

import { html } from "./htm-preact.js";
import { useAnswer } from "./asked.js";
import { Trouble } from "./trouble.js";
import { numberOf, offsetOf } from "./view.js";
import { aclText, count, decisionText, nameOf, stateAndTime, title, visible } from "./words.js";

const PAGE = 50;
const SUMMARIES = {
  all: ["allowed", "✓ ALL NAMES, from every host"],
  some: ["some", "◐ SOME of the names, or from some hosts"],
  none: ["denied", "✗ NONE"],
};

function Names({ names, total }) {
  return html`${names.map(
      (each, at) => html`${at ? ", " : ""}<bdi>${nameOf(each)}</bdi>${each.but_total
          ? html` <small>but for ${each.but.map((one, place) => html`${place ? ", " : ""}<bdi>${nameOf(one)}</bdi>`)}${each
                .but_total > each.but.length
                ? ` and ${(each.but_total - each.but.length).toLocaleString("en")} more`
                : ""}</small>`
          : null}`,
    )}${total > names.length ? ` and ${(total - names.length).toLocaleString("en")} more` : ""}`;
}

function Class({ found, asked, go }) {
  const { witness } = found;
  const question = { principal: witness.principal, name: witness.name, host: witness.host, prefix: null, anyone: null };
  return html`<li class=${found.allowed ? "allowed" : "denied"}>
    <b><span aria-hidden="true">${found.allowed ? "✓" : "✗"}</span> ${found.allowed ? "allowed" : "denied"}</b>
    <span class="plain"> <bdi>${visible(found.who)}</bdi> on <${Names} names=${found.names} total=${found.names_total} />${` from ${visible(found.hosts)}`}</span>
    <div class="why">${found.other_acls.length ? "such as the question below: " : ""}<bdi>${decisionText(found.decision)}</bdi>${found.other_acls.length
        ? html`; other questions of these by ${found.other_acls_complete ? "" : "at least "}${found.other_acls.length} more ACLs:
            <ul class="acls">${found.other_acls.map((each) => html`<li><bdi>${aclText(each)}</bdi></li>`)}</ul>`
        : null}</div>
    <div class="plain">
      <button onClick=${() => go({ ...question, operation: asked.operation })}>
        ask ${visible(`${witness.principal} ${title(asked.operation)} ${witness.name || "(the empty name)"} from ${witness.host}`)}
      </button>
    </div>
  </li>`;
}

export function AllowedView({ asked, view, go, time }) {
  const question = { ...asked, at_offset: offsetOf(view.at), first: numberOf(view.first) ?? 0, count: PAGE };
  const { answer, error, busy } = useAnswer("console/v1/allowed", question, [
    JSON.stringify(question),
    question.at_offset === null ? time?.end_offset : time?.past?.first_end_offset,
  ]);
  if (!answer) return error ? html`<${Trouble} error=${error} />` : html`<p class="notice">Working it out…</p>`;
  const [style, said] = SUMMARIES[answer.summary] ?? [];
  const end = answer.first + answer.classes.length;
  return html`${error ? html`<${Trouble} error=${error} />` : null}
    <div class=${`verdict ${busy ? "busy" : ""}`} aria-live="polite">
      ${answer.summary
        ? html`<p class=${`result ${style}`}>${said}</p>`
        : html`<p class="result">${answer.total ? count(answer.total, "answer") : "Nobody"}</p>`}
      <p>As of ${stateAndTime(answer)}, for all names and hosts that there could be.</p>
    </div>
    <ul class="flips classes">
      ${answer.classes.map((each) => html`<${Class} found=${each} asked=${asked} go=${go} />`)}
    </ul>
    ${answer.total > PAGE
      ? html`<p class="pager">
          <button disabled=${!answer.first} aria-label="Earlier answers"
            onClick=${() => go({ first: Math.max(0, answer.first - PAGE) || null })}>◀</button>
          <span> ${answer.first + 1}–${end} of ${answer.total.toLocaleString("en")} </span>
          <button disabled=${end >= answer.total} aria-label="Later answers"
            onClick=${() => go({ first: end })}>▶</button>
        </p>`
      : null}`;
}
