// Exact answers for all names with a prefix, or for all principals, in classes of requests decided alike.

import { html } from "./htm-preact.js";
import { useAnswer } from "./use_answer.js";
import { ErrorMessage } from "./error_message.js";
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
          ? html` <small>except ${each.but.map((one, place) => html`${place ? ", " : ""}<bdi>${nameOf(one)}</bdi>`)}${each
                .but_total > each.but.length
                ? ` and ${(each.but_total - each.but.length).toLocaleString("en")} more`
                : ""}</small>`
          : null}`,
    )}${total > names.length ? ` and ${(total - names.length).toLocaleString("en")} more` : ""}`;
}

function Class({ item, access, go }) {
  const { witness } = item;
  const request = { principal: witness.principal, name: witness.name, host: witness.host, prefix: null, anyone: null };
  return html`<li class=${item.allowed ? "allowed" : "denied"}>
    <b><span aria-hidden="true">${item.allowed ? "✓" : "✗"}</span> ${item.allowed ? "allowed" : "denied"}</b>
    <span class="plain"> <bdi>${visible(item.who)}</bdi> on <${Names} names=${item.names} total=${item.names_total} />${` from ${visible(item.hosts)}`}</span>
    <div class="why">${item.other_acls.length ? "for example the request below: " : ""}<bdi>${decisionText(item.decision)}</bdi>${item.other_acls.length
        ? html`; other requests of this class by ${item.other_acls_complete ? "" : "at least "}${item.other_acls.length} more ACLs:
            <ul class="acls">${item.other_acls.map((each) => html`<li><bdi>${aclText(each)}</bdi></li>`)}</ul>`
        : null}</div>
    <div class="plain">
      <button onClick=${() => go({ ...request, operation: access.operation })}>
        check ${visible(`${witness.principal} ${title(access.operation)} ${witness.name || "(the empty name)"} from ${witness.host}`)}
      </button>
    </div>
  </li>`;
}

export function AllowedView({ access, view, go, time }) {
  const query = { ...access, at_offset: offsetOf(view.at), first: numberOf(view.first) ?? 0, count: PAGE };
  const { answer, error, busy } = useAnswer("console/v1/allowed", query, [
    JSON.stringify(query),
    query.at_offset === null ? time?.end_offset : time?.past?.first_end_offset,
  ]);
  if (!answer) return error ? html`<${ErrorMessage} error=${error} />` : html`<p class="notice">Computing…</p>`;
  const [style, summary] = SUMMARIES[answer.summary] ?? [];
  const end = answer.first + answer.classes.length;
  return html`${error ? html`<${ErrorMessage} error=${error} />` : null}
    <div class=${`verdict ${busy ? "busy" : ""}`} aria-live="polite">
      ${answer.summary
        ? html`<p class=${`result ${style}`}>${summary}</p>`
        : html`<p class="result">${answer.total ? count(answer.total, "class", "classes") : "No principal"}</p>`}
      <p>As of ${stateAndTime(answer)}, for all possible names and hosts.</p>
    </div>
    <ul class="flips classes">
      ${answer.classes.map((each) => html`<${Class} item=${each} access=${access} go=${go} />`)}
    </ul>
    ${answer.total > PAGE
      ? html`<p class="pager">
          <button disabled=${!answer.first} aria-label="Previous page"
            onClick=${() => go({ first: Math.max(0, answer.first - PAGE) || null })}>◀</button>
          <span> ${answer.first + 1}–${end} of ${answer.total.toLocaleString("en")} </span>
          <button disabled=${end >= answer.total} aria-label="Next page"
            onClick=${() => go({ first: end })}>▶</button>
        </p>`
      : null}`;
}
