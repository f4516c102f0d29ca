// One request: the decision, its explanation, commands that would allow it, and its history.

import { html } from "./htm-preact.js";
import { Copy } from "./copy.js";
import { AllowedView } from "./allowed_view.js";
import { useAnswer } from "./use_answer.js";
import { ErrorMessage } from "./error_message.js";
import { offsetOf, urlOffset } from "./view.js";
import { time as timeOf } from "./dates.js";
import { ANY, OPERATIONS, TYPES, aclText, stateAndTime, stateText, title, visible } from "./words.js";

function Acls({ acls, heading }) {
  if (!acls.length) return null;
  return html`<h2>${heading}</h2>
    <ul class="acls">${acls.map((each) => html`<li><bdi>${aclText(each)}</bdi> <${Copy} text=${aclText(each)} what=${aclText(each)} /></li>`)}</ul>`;
}

function History({ history, go }) {
  if (!history) return null;
  const changes = [...history.turns].reverse();
  return html`<h2>Since when</h2>
    <ol class="history" reversed>
      ${changes.map(
        (change) => html`<li>
          <button onClick=${() => go({ at: urlOffset(change.end_offset) })}>${stateText(change.end_offset)}</button> ${timeOf(change.timestamp)}:${" "}
          <b class=${change.allowed ? "allowed" : "denied"}>${change.allowed ? "allowed" : "denied"}</b>
          ${change.by.map(
            (each) => html`<div>
              ${each.acl ? html`${each.change} at offset ${each.offset}: <bdi>${aclText(each.acl)}</bdi>` : `by the rules of Kafka ${each.release}, before that, of ${each.was}`}
            </div>`,
          )}
        </li>`,
      )}
      <li>
        ${history.since_end_offset ? `from ${stateText(history.since_end_offset)} on, the first known state` : "since the beginning"}:${" "}
        <b class=${history.began ? "allowed" : "denied"}>${history.began ? "allowed" : "denied"}</b>
      </li>
    </ol>`;
}

// The client's host, and whether it affects the decision.
function hostText({ host, hostAssumed, otherHosts }) {
  const from = hostAssumed ? `No host was given: ${visible(host)} is assumed.` : `Client host: ${visible(host)}.`;
  return `${from} ${otherHosts ? "The decision depends on the host." : "The decision is the same for every host."}`;
}

function Decision({ request, time, go }) {
  const isComplete = request.principal && (request.resourceName || request.resourceType !== "TOPIC");
  const { answer, error, busy } = useAnswer("console/v1/ask", isComplete ? request : null, [
    JSON.stringify(request),
    request.at_offset === null ? time?.end_offset : time?.past?.first_end_offset,
  ]);
  if (!isComplete) return html`<p class="notice">Name a resource.</p>`;
  if (!answer) return error ? html`<${ErrorMessage} error=${error} />` : null;
  return html`${error ? html`<${ErrorMessage} error=${error} />` : null}
    <div class=${`verdict ${busy ? "busy" : ""}`} aria-live="polite">
      <p class=${`result ${answer.result === "ALLOWED" ? "allowed" : "denied"}`}>
        ${answer.result === "ALLOWED" ? "✓ ALLOWED" : "✗ DENIED"}
      </p>
      <p><bdi>${visible(answer.reason)}</bdi> (as of ${stateAndTime(answer)}).</p>
      <p><bdi>${hostText(answer)}</bdi></p>
      ${answer.notes.map((each) => html`<p><bdi>${visible(each)}</bdi></p>`)}
      ${answer.remark ? html`<p>${answer.remark}</p>` : null}
    </div>
    ${answer.acl
      ? html`<${Acls} acls=${[answer.acl]} heading=${
          answer.acl.offset === null ? "Decided by" : `Decided by, written at offset ${answer.acl.offset}, ${timeOf(answer.acl.timestamp)}`
        } />`
      : null}
    <${Acls} acls=${answer.alsoMatched} heading="Also matched" />
    ${answer.nearMisses.length
      ? html`<h2>Near misses</h2>
          <ul class="acls">${answer.nearMisses.map(
            (each) => html`<li><bdi>${aclText(each.acl)}</bdi>
              <small>the ACL's ${each.field} is <bdi>${visible(each.has)}</bdi>, the request's is <bdi>${visible(each.asked)}</bdi></small>
            </li>`,
          )}</ul>`
      : null}
    ${answer.fix.length
      ? html`<h2>What would allow it</h2>
          ${answer.fix.map((each) => html`<pre tabindex="0"><code>${visible(each)}</code></pre><${Copy} text=${each} what="the command" label="copy the command" />`)}`
      : null}
    <${History} history=${answer.history} go=${go} />`;
}

const SUMMARIES = { all: ["✓", "allowed"], some: ["◐", "partly allowed"], none: ["✗", "denied"] };

// One of the operations of an opened cell, with its answer for every host.
function CellOperation({ access, isSelected, view, time, go }) {
  const { operation } = access;
  const query = { ...access, at_offset: offsetOf(view.at), count: 1 };
  const { answer } = useAnswer("console/v1/allowed", query, [
    JSON.stringify(query),
    query.at_offset === null ? time?.end_offset : time?.past?.first_end_offset,
  ]);
  const [mark, text] = SUMMARIES[answer?.summary] ?? ["", ""];
  return html`<button aria-pressed=${isSelected} onClick=${() => go({ operation })}>
    <span aria-hidden="true">${mark}</span> ${title(operation)}<span class="hidden"> ${text}</span>
  </button>`;
}

function CellOperations({ view, time, go, access }) {
  const operations = (view.operations ?? "").split(",").filter((each) => OPERATIONS.includes(each));
  if (!operations.length || !access.principal) return null;
  return html`<div class="filters" role="group" aria-label="Operations of the cell">
    ${operations.map((operation) => html`<${CellOperation} key=${operation} view=${view} time=${time} go=${go}
      access=${{ ...access, operation }} isSelected=${operation === access.operation} />`)}
  </div>`;
}

export function AskView({ view, go, time }) {
  const isAnyone = view.anyone !== undefined;
  const principal = isAnyone ? "" : view.principal || time?.caller;
  const isCluster = view.type === "CLUSTER";
  const isPrefix = view.prefix !== undefined && !isCluster;
  const name = isCluster ? "kafka-cluster" : view.name ?? "";
  const hasManyAnswers = isAnyone || isPrefix;
  // One request has one operation.
  const operations = hasManyAnswers ? [...OPERATIONS, ANY] : OPERATIONS;
  const operation = operations.includes(view.operation) ? view.operation : "READ";
  const set = (field) => (event) => go({ [field]: event.target.value, first: null }, { replace: true });
  // An empty field means all principals.
  const setPrincipal = (event) => {
    const { value } = event.target;
    go({ principal: value, anyone: value ? null : "yes", first: null }, { replace: true });
  };
  return html`<section aria-label="Ask">
    <form class="sentence" onSubmit=${(event) => event.preventDefault()}>
      <label>${isAnyone ? "Who may" : "May"} <input id="ask-principal" value=${principal ?? ""}
        aria-label="Principal" placeholder="anyone" onFocus=${(event) => event.target.select()}
        onInput=${setPrincipal} /></label>
      <label><select value=${operation} aria-label="Operation" onChange=${set("operation")}>
        ${operations.map((each) => html`<option value=${each}>${each === ANY ? "any operation" : title(each)}</option>`)}
      </select></label>
      <label><select value=${view.type} aria-label="Resource type" onChange=${set("type")}>
        ${TYPES.map((each) => html`<option value=${each}>${title(each)}</option>`)}
      </select></label>
      ${isCluster
        ? null
        : html`<label><select value=${isPrefix ? "yes" : ""} aria-label="Which names" onChange=${set("prefix")}>
              <option value="">the name</option>
              <option value="yes">all names with the prefix</option>
            </select></label>
            <label><input value=${name} placeholder=${isPrefix ? "every name" : "orders"} aria-label="Resource name"
              onInput=${set("name")} /></label>`}
      ${hasManyAnswers
        ? html`<span>from any host?</span>`
        : html`<label>from <input value=${view.host ?? ""} placeholder="127.0.0.1" aria-label="Host"
            onInput=${set("host")} />?</label>`}
    </form>
    <${CellOperations} view=${view} time=${time} go=${go}
      access=${{ principal, operation, type: view.type, name, prefix: isPrefix }} />
    ${hasManyAnswers && (name || isPrefix || view.type !== "TOPIC")
      ? html`<${AllowedView} access=${{ principal, operation, type: view.type, name, prefix: isPrefix }}
          view=${view} go=${go} time=${time} />`
      : html`<${Decision} time=${time} go=${go} request=${{
          principal,
          operation,
          resourceType: view.type,
          resourceName: name,
          host: view.host || null,
          at_offset: offsetOf(view.at),
        }} />`}
  </section>`;
}
