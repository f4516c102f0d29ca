// One question: the answer, why, what would mend it, and every change of it.

import { html } from "./htm-preact.js";
import { AllowedView } from "./allowed_view.js";
import { useAnswer } from "./asked.js";
import { Trouble } from "./trouble.js";
import { offsetOf, urlOffset } from "./view.js";
import { OPERATIONS, TYPES, aclText, stateAndTime, stateText, time as timeOf, title, visible } from "./words.js";

function Acls({ acls, heading }) {
  if (!acls.length) return null;
  return html`<h2>${heading}</h2>
    <ul class="acls">${acls.map((each) => html`<li><bdi>${aclText(each)}</bdi></li>`)}</ul>`;
}

function History({ history, go }) {
  if (!history) return null;
  const turns = [...history.turns].reverse();
  return html`<h2>Since when</h2>
    <ol class="turns" reversed>
      ${turns.map(
        (turn) => html`<li>
          <button onClick=${() => go({ at: urlOffset(turn.end_offset) })}>${stateText(turn.end_offset)}</button> ${timeOf(turn.timestamp)}:${" "}
          <b class=${turn.allowed ? "allowed" : "denied"}>${turn.allowed ? "allowed" : "denied"}</b>
          ${turn.by.map(
            (each) => html`<div>
              ${each.acl ? html`${each.change} at offset ${each.offset}: <bdi>${aclText(each.acl)}</bdi>` : `by the rules of Kafka ${each.release}, before that, of ${each.was}`}
            </div>`,
          )}
        </li>`,
      )}
      <li>
        ${history.since_end_offset ? `from ${stateText(history.since_end_offset)} on, where the history here begins` : "from the beginning"}:${" "}
        <b class=${history.began ? "allowed" : "denied"}>${history.began ? "allowed" : "denied"}</b>
      </li>
    </ol>`;
}

// From which host it was asked, and whether that matters.
function hostText({ host, hostAssumed, otherHosts }) {
  const asked = hostAssumed ? `No host was given: asked from ${visible(host)}, which is assumed.` : `Asked from ${visible(host)}.`;
  return `${asked} ${otherHosts ? "Not every host gets this answer." : "Every host gets this answer."}`;
}

function One({ asked, time, go }) {
  const isWhole = asked.principal && (asked.resourceName || asked.resourceType !== "TOPIC");
  const { answer, error, busy } = useAnswer("console/v1/ask", isWhole ? asked : null, [
    JSON.stringify(asked),
    asked.at_offset === null ? time?.end_offset : time?.past?.first_end_offset,
  ]);
  if (!isWhole) return html`<p class="notice">Name a resource.</p>`;
  if (!answer) return error ? html`<${Trouble} error=${error} />` : null;
  return html`${error ? html`<${Trouble} error=${error} />` : null}
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
              <small>its ${each.field} is <bdi>${visible(each.has)}</bdi>, asked was <bdi>${visible(each.asked)}</bdi></small>
            </li>`,
          )}</ul>`
      : null}
    ${answer.fix.length
      ? html`<h2>What would allow it</h2>
          ${answer.fix.map((each) => html`<pre tabindex="0"><code>${visible(each)}</code></pre>`)}`
      : null}
    <${History} history=${answer.history} go=${go} />`;
}

export function AskView({ view, go, time, firstField }) {
  const isAnyone = view.anyone !== undefined;
  const principal = isAnyone ? "" : view.principal || time?.caller;
  const operation = view.operation || "READ";
  const isCluster = view.type === "CLUSTER";
  const isPrefix = view.prefix !== undefined && !isCluster;
  const name = isCluster ? "kafka-cluster" : view.name ?? "";
  const ofMany = isAnyone || isPrefix;
  const set = (field) => (event) => go({ [field]: event.target.value, first: null }, { replace: true });
  // Where nobody is named, everyone is meant.
  const setPrincipal = (event) => {
    const { value } = event.target;
    go({ principal: value, anyone: value ? null : "yes", first: null }, { replace: true });
  };
  return html`<section aria-label="Ask">
    <form class="sentence" onSubmit=${(event) => event.preventDefault()}>
      <label>${isAnyone ? "Who may" : "May"} <input ref=${firstField} id="ask-principal" value=${principal ?? ""}
        aria-label="Principal" placeholder="anyone" onInput=${setPrincipal} /></label>
      <label><select value=${operation} aria-label="Operation" onChange=${set("operation")}>
        ${OPERATIONS.map((each) => html`<option value=${each}>${title(each)}</option>`)}
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
      ${ofMany
        ? html`<span>from any host?</span>`
        : html`<label>from <input value=${view.host ?? ""} placeholder="127.0.0.1" aria-label="Host"
            onInput=${set("host")} />?</label>`}
    </form>
    ${ofMany && (name || isPrefix || view.type !== "TOPIC")
      ? html`<${AllowedView} asked=${{ principal, operation, type: view.type, name, prefix: isPrefix }}
          view=${view} go=${go} time=${time} />`
      : html`<${One} time=${time} go=${go} asked=${{
          principal,
          operation,
          resourceType: view.type,
          resourceName: name,
          host: view.host || null,
          at_offset: offsetOf(view.at),
        }} />`}
  </section>`;
}
