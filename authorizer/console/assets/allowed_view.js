// Exact answers for all names with a prefix, or for all principals, in classes of requests decided alike.

import { html } from "./htm-preact.js";
import { ask } from "./api.js";
import { time as timeOf } from "./dates.js";
import { Exports, aclColumns, isoDate, usePrintedList } from "./export.js";
import { Pager, TeamFilter } from "./list_controls.js";
import { useAnswer } from "./use_answer.js";
import { ErrorMessage } from "./error_message.js";
import { numberOf, offsetOf, urlOffset } from "./view.js";
import { ANY, aclText, breakable, count, decisionText, nameOf, stateAndTime, stateText, title, visible } from "./words.js";

const PAGE = 50;
const PATH = "console/v1/allowed";
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

// The state since which the request has its answer, and whether that is in the compared period.
function Since({ since, view, go, isFile }) {
  if (!since) return html`<span>check the request</span>`;
  const { known, end_offset: end, timestamp } = since;
  if (!known) return end ? `before ${stateAndTime(since)}, the first known state` : "the beginning";
  const from = offsetOf(view.since);
  const date = timeOf(timestamp);
  return html`${isFile ? date : html`<button onClick=${() => go({ at: urlOffset(end) })}>${date}</button>`} ${stateText(end)}${from !== null && end > from + 1
      ? html` <b>in this period</b>`
      : null}`;
}

// When the requests of a class were last allowed, in the lines of the reviewed log.
function LastUsed({ at, isAllowed }) {
  if (!isAllowed) return "";
  return at ? timeOf(at) : html`<span>not in these requests</span>`;
}

// What the column "Last used" is taken from.
function Window({ lastUsed }) {
  const { error, first, last, requests, sampled, not_understood: bad } = lastUsed;
  if (error) return html`<p class="notice error">No last use is shown. ${visible(error)}</p>`;
  return html`<p class="notice">Last used: in ${count(requests, "request", "requests")} from ${timeOf(first)} to ${timeOf(last)}.${sampled
      ? " They are a sample: other requests are not known."
      : ""}${bad ? ` ${count(bad, "line was", "lines were")} not understood.` : ""}</p>`;
}

function Class({ item, hasOperations, view, go, isFile }) {
  const { witness } = item;
  const request = { principal: witness.principal, name: witness.name, host: witness.host, prefix: null, anyone: null };
  return html`<tr class=${item.allowed ? "allowed" : "denied"}>
    <td data-label="Answer"><b><span aria-hidden="true">${item.allowed ? "✓" : "✗"}</span> ${item.allowed ? "allowed" : "denied"}</b></td>
    <td data-label="Principal" class="plain"><bdi>${breakable(item.who)}</bdi></td>
    ${hasOperations ? html`<td data-label="Operations" class="plain">${item.operations}</td>` : null}
    <td data-label="Names" class="plain"><${Names} names=${item.names} total=${item.names_total} /></td>
    <td data-label="Hosts" class="plain">${visible(item.hosts)}</td>
    <td data-label="Since when" class="plain since-when">${"since" in item ? html`<${Since} ...${{ since: item.since, view, go, isFile }} />` : null}</td>
    ${"last_used" in item ? html`<td data-label="Last used" class="plain"><${LastUsed} at=${item.last_used} isAllowed=${item.allowed} /></td>` : null}
    <td data-label="By" class="why">${item.other_acls.length ? "for example the request below: " : ""}<bdi>${decisionText(item.decision)}</bdi>${item.other_acls.length
        ? html`; other requests of this class by ${item.other_acls_complete ? "" : "at least "}${item.other_acls.length} more ACLs:
            <ul class="acls">${item.other_acls.map((each) => html`<li><bdi>${aclText(each)}</bdi></li>`)}</ul>`
        : null}
      <div><button onClick=${() => go({ ...request, operation: witness.operation })}>
        check ${visible(`${witness.principal} ${title(witness.operation)} ${witness.name || "(the empty name)"} from ${witness.host}`)}
      </button></div></td>
  </tr>`;
}

const SORTS = {
  who: ["Principal", (one, other) => (one.who < other.who ? -1 : Number(one.who > other.who))],
  used: ["Last used", (one, other) => (other.last_used ?? 0) - (one.last_used ?? 0)],
  since: ["Since when", (one, other) => (other.since?.end_offset ?? 0) - (one.since?.end_offset ?? 0)],
};

function Head({ name, view, go }) {
  const isSorted = view.sort === name;
  return html`<th scope="col" aria-sort=${isSorted ? (name === "who" ? "ascending" : "descending") : "none"}>
    <button onClick=${() => go({ sort: isSorted ? null : name }, { replace: true })}>${SORTS[name][0]}${isSorted ? (name === "who" ? " ▲" : " ▼") : ""}</button>
  </th>`;
}

function rowOf({ allowed, who, operations, names, hosts, decision, other_acls: others, since, last_used: used, witness }) {
  return {
    allowed, who, operations,
    names: names.map((each) => `${each.text}${each.is_name ? "" : "*"}`).join(" "), hosts,
    since: since?.known ? isoDate(since.timestamp) : "", sinceOffset: since?.known ? since.end_offset - 1 : "",
    ...(used === undefined ? {} : { lastUsed: used ? isoDate(used) : "" }),
    ...aclColumns(decision.acl), otherAcls: others.length,
    exampleName: witness.name, exampleHost: witness.host, examplePrincipal: witness.principal, exampleOperation: witness.operation,
  };
}

export function AllowedView({ access, view, go, time }) {
  const list = { ...access, ...(access.principal ? {} : { who: view.who || null, team: view.team || null }), at_offset: offsetOf(view.at) };
  const first = numberOf(view.first) ?? 0;
  const query = { ...list, first, count: PAGE };
  const { answer: page, error, busy } = useAnswer(PATH, query, [
    JSON.stringify(query),
    query.at_offset === null ? time?.end_offset : null,
    time?.past?.first_end_offset,
  ]);
  const answer = usePrintedList(page, { send: ask, path: PATH, query: list, list: "classes", part: PAGE });
  if (!answer) return error ? html`<${ErrorMessage} error=${error} />` : html`<p class="notice">Computing…</p>`;
  const hasOperations = access.operation === ANY;
  const summaries = hasOperations && answer.summary !== "none" ? {} : SUMMARIES;
  const [style, summary] = summaries[answer.summary] ?? [];
  const hasUse = Boolean(answer.last_used && !answer.last_used.error);
  const isPaged = answer.total > PAGE;
  const classes = SORTS[view.sort] ? [...answer.classes].sort(SORTS[view.sort][1]) : answer.classes;
  const revoked = {
    view: "compare", with: null, who: null, team: view.team ?? null, containing: access.name, only_type: access.type,
    only_operation: hasOperations ? null : access.operation, effect: "revoked", everyone: null, first: null,
  };
  return html`${error ? html`<${ErrorMessage} error=${error} />` : null}
    <div class=${`verdict ${busy ? "busy" : ""}`} aria-live="polite">
      ${summary
        ? html`<p class=${`result ${style}`}>${summary}</p>`
        : html`<p class="result">${answer.total ? count(answer.total, "class", "classes") : "No principal"}</p>`}
      <p>As of ${stateAndTime(answer)}, for all possible names and hosts.${answer.restriction
          ? html` Only of <bdi>${visible(answer.restriction.join(", "))}</bdi>.`
          : null}
        ${view.since === undefined ? null : html` <button onClick=${() => go(revoked)}>what was revoked in the period</button>`}</p>
    </div>
    <div class="counts">
      ${answer.summary
        ? null
        : html`<label class="filters">Principals with <input type="search" value=${view.who ?? ""} placeholder="User:team."
            onInput=${(event) => go({ who: event.target.value, first: null }, { replace: true })} /></label>
            ${time?.has_teams
              ? html`<span class="filters"><${TeamFilter} team=${view.team} onChange=${(team) => go({ team, first: null }, { replace: true })} /></span>`
              : null}`}
      <${Exports} send=${ask} path=${PATH} query=${list} list="classes" name="allowed" part=${PAGE}
        rowOf=${rowOf} endOffset=${answer.end_offset} />
      ${isPaged ? html`<${Pager} first=${first} size=${PAGE} total=${answer.total} onFirst=${(to) => go({ first: to })}
        command="aclog who-can --csv, and the export of this list, have all" />` : null}
    </div>
    ${answer.last_used ? html`<${Window} lastUsed=${answer.last_used} />` : null}
    ${view.sort && isPaged ? html`<p class="notice">Sorted within this page; an export has all.</p>` : null}
    <div class="scroll" tabindex="0" role="region" aria-label="Classes">
      <table class="list">
        <thead><tr>
          <th scope="col">Answer</th><${Head} name="who" view=${view} go=${go} />
          ${hasOperations ? html`<th scope="col">Operations</th>` : null}<th scope="col">Names</th>
          <th scope="col">Hosts</th><${Head} name="since" view=${view} go=${go} />${hasUse ? html`<${Head} name="used" view=${view} go=${go} />` : null}<th scope="col">By</th>
        </tr></thead>
        <tbody class="classes">
          ${classes.map((each) => html`<${Class} ...${{ item: each, hasOperations, view, go, isFile: Boolean(time?.facts) }} />`)}
        </tbody>
      </table>
    </div>`;
}
