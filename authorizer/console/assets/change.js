// The pending change: ACLs to add and remove, held in the page; its preview; and its application.

import { html, useEffect, useRef, useState } from "./htm-preact.js";
import { send } from "./api.js";
import { useDraft } from "./draft.js";
import { DecisionChange, DecisionChangeList, PAGE, viewOfRequest } from "./decision_changes.js";
import { ErrorMessage } from "./error_message.js";
import { Pager } from "./list_controls.js";
import { PlanSummary } from "./plan_summary.js";
import { useAnswer } from "./use_answer.js";
import { OPERATIONS, TYPES, aclText, count, stateText, title, visible } from "./words.js";

const FIELDS = ["resourceType", "resourceName", "patternType", "principal", "host", "operation", "permissionType"];
const APPLY = "console/v1/apply";
const PLAN = "console/v1/plan";
// No answer, or one of a node that failed or of a proxy.
const UNKNOWN_STATUSES = [0, 500, 502, 504];
const UNKNOWN = "The node did not answer: it is unknown whether the change was applied. Check the ACLs before you try again.";
export const NO_CHANGE = { add: [], remove: [], plan: null, done: null, error: null, isPlanWanted: false };
const LISTED = 200;

// What a reload of the page keeps. A plan is made again.
export function storedOf({ add, remove, done }) {
  return { add, remove, done };
}

// The content of an ACL, without id, offset and time.
export function contentOf(acl) {
  return Object.fromEntries(FIELDS.map((each) => [each, acl[each]]));
}

function isSame(one, other) {
  return FIELDS.every((each) => one[each] === other[each]);
}

// An edit makes the plan obsolete.
function withEdits(change, edits) {
  return { ...NO_CHANGE, add: change.add, remove: change.remove, ...edits };
}

export function isRemoved(change, acl) {
  return change.remove.some((each) => isSame(each, acl));
}

export function withRemoval(change, acl) {
  return withEdits(change, { remove: [...change.remove, contentOf(acl)] });
}

// For a list of any length, with a plan.
export function withRemovals(change, acls) {
  const contents = [...change.remove, ...acls.map(contentOf)];
  const distinct = new Map(contents.map((each) => [JSON.stringify(FIELDS.map((name) => each[name])), each]));
  return withEdits(change, { remove: [...distinct.values()], isPlanWanted: true });
}

// What reverts an applied change, with a plan. An ACL may have been removed under several ids.
function inverseOf({ added, removed }) {
  const { remove: add } = withRemovals(NO_CHANGE, removed);
  return { ...withRemovals(NO_CHANGE, added), add };
}

export function without(change, acl) {
  const others = (each) => !isSame(each, acl);
  return withEdits(change, { add: change.add.filter(others), remove: change.remove.filter(others) });
}

// Why ACLs cannot be changed here; null if they can.
export function refusalOf(view, time) {
  if (time.refusal) return `ACLs cannot be changed here: ${time.refusal}`;
  if (!time.may_alter) return `You cannot change ACLs: ${time.caller} needs Alter on the cluster.`;
  if (view.at) return `This is a past state: only the current ACLs can be changed.`;
  return null;
}

const EMPTY_FORM = {
  permissionType: "ALLOW", principal: "", operation: "READ", resourceType: "TOPIC", patternType: "LITERAL", resourceName: "", host: "*",
};

function AddForm({ onAdd }) {
  const [fields, setFields] = useDraft("acl", EMPTY_FORM);
  const isCluster = fields.resourceType === "CLUSTER";
  const submitted = (event) => {
    event.preventDefault();
    onAdd(isCluster ? { ...fields, resourceName: "kafka-cluster", patternType: "LITERAL" } : fields);
  };
  const field = (name) => ({ name, value: fields[name], onInput: (event) => setFields({ ...fields, [name]: event.target.value }) });
  const options = (names) => names.map((each) => html`<option value=${each}>${title(each)}</option>`);
  return html`<form class="sentence add" aria-label="Add an ACL" onSubmit=${submitted}>
    <label>Permission <select ...${field("permissionType")}>${options(["ALLOW", "DENY"])}</select></label>
    <label>Principal <input ...${field("principal")} required placeholder="User:alice" /></label>
    <label>Operation <select ...${field("operation")}>${options(OPERATIONS)}</select></label>
    <label>Type <select ...${field("resourceType")}>${options(TYPES)}</select></label>
    ${isCluster
      ? null
      : html`<label>Pattern <select ...${field("patternType")}>${options(["LITERAL", "PREFIXED"])}</select></label>
          <label>Name <input ...${field("resourceName")} required placeholder="orders" /></label>`}
    <label>Host <input ...${field("host")} required /></label>
    <button>Add to the change</button>
  </form>`;
}

function PendingChange({ change, setChange }) {
  const lines = [...change.add.map((acl) => ["+", "added", acl]), ...change.remove.map((acl) => ["−", "removed", acl])];
  const [first, setFirst] = useState(0);
  const shown = Math.min(first, Math.max(0, lines.length - 1));
  return html`<ul class="changes" aria-label="Pending change">
    ${lines.slice(shown, shown + LISTED).map(
      ([mark, kind, acl]) => html`<li class=${kind}>
        <span class="mark">${mark}</span> <span class="hidden">will be ${kind}:</span> <bdi>${aclText(acl)}</bdi>
        <button aria-label=${`Undo ${aclText(acl)}`} onClick=${() => setChange(without(change, acl))}>Undo</button>
      </li>`,
    )}
  </ul>
  ${lines.length > LISTED ? html`<${Pager} first=${shown} size=${LISTED} total=${lines.length} onFirst=${(to) => setFirst(to ?? 0)} />` : null}`;
}

// A plan with its ACLs, whose later pages are previews of the same change.
function ListedPlan({ plan, change }) {
  const [firsts, setFirsts] = useState({});
  const isLater = Object.values(firsts).some(Boolean);
  const query = isLater ? { add: change.add, remove: change.remove, ...firsts, count: 1 } : null;
  const { answer, error } = useAnswer(PLAN, query, [JSON.stringify(firsts), plan], send);
  const { added, removed } = isLater && answer ? answer : plan;
  return html`<${PlanSummary} answer=${{ ...plan, added, removed }} onFirst=${(first) => setFirsts({ ...firsts, ...first })} />
    ${isLater && error ? html`<${ErrorMessage} error=${error} />` : null}`;
}

function Confirm({ plan, change, onYes, onNo }) {
  const dialog = useRef(null);
  useEffect(() => dialog.current.showModal(), []);
  const closed = () => (dialog.current.returnValue === "yes" ? onYes() : onNo());
  return html`<dialog class="confirm" ref=${dialog} aria-labelledby="confirm" onClose=${closed}>
    <h2 id="confirm">Apply this change?</h2>
    <div class="content" tabindex="0" role="region" aria-label="The change">
    <p><b>+ ${count(plan.granted, "class", "classes")}</b> of requests ${plan.granted === 1 ? "is" : "are"} denied now and will be allowed.</p>
    <p><b>− ${count(plan.revoked, "class", "classes")}</b> of requests ${plan.revoked === 1 ? "is" : "are"} allowed now and will be denied.</p>
    ${plan.widest.map(
      (each) => html`<h3>The class with the widest effect</h3>
        <ul class="flips"><${DecisionChange} flip=${each} labels=${["now", "after"]} /></ul>`,
    )}
    ${plan.counts.isMassRemoval
      ? html`<p class="error" role="alert"><b>This removes ${plan.counts.removedPercent} % of all ACLs</b>: ${plan.counts.toRemove} of ${plan.counts.acls}.</p>`
      : null}
    <h3>ACLs</h3>
    <${ListedPlan} plan=${plan} change=${change} />
    </div>
    <p>
      <button autofocus onClick=${() => dialog.current.close("no")}>Cancel</button>
      <button class="apply" onClick=${() => dialog.current.close("yes")}>${plan.counts.isMassRemoval ? `Remove ${plan.counts.removedPercent} % of all ACLs` : "Apply"}</button>
    </p>
  </dialog>`;
}

// The classes of a plan, whose later pages are previews of the same change.
function Preview({ plan, change, go, onApply }) {
  const [first, setFirst] = useState(0);
  useEffect(() => setFirst(0), [plan]);
  const list = { add: change.add, remove: change.remove };
  const query = first ? { ...list, first, count: PAGE } : null;
  const later = useAnswer(PLAN, query, [first, plan], send);
  const answer = first && later.answer ? { ...plan, flips: later.answer.flips, first: later.answer.first } : plan;
  const paged = { send, path: PLAN, query: list, endOffset: plan.end_offset, onFirst: (to) => setFirst(to ?? 0) };
  const buttons = (witness) => html`<button onClick=${() => go(viewOfRequest(witness))}>check now</button>`;
  return html`<${PlanSummary} answer=${plan} />
    ${first && later.error ? html`<${ErrorMessage} error=${later.error} />` : null}
    <${DecisionChangeList} answer=${answer} labels=${["now", "after"]} buttons=${buttons} paged=${paged} />
    ${plan.added.total + plan.removed.total
      ? html`<button class="apply" onClick=${onApply}>Apply…</button>`
      : html`<p class="notice">The change has no effect.</p>`}`;
}

export function ChangePanel({ view, go, time, refresh, change, setChange }) {
  const [busy, setBusy] = useState(false);
  const [isConfirming, setConfirming] = useState(false);
  const size = change.add.length + change.remove.length;
  const refusal = refusalOf(view, time);
  const [isOpen, setOpen] = useState(false);
  useEffect(() => (size || change.done ? setOpen(true) : undefined), [size, change.done]);
  const failed = (error) => setChange((last) => ({ ...last, error }));
  const working = async (path, body, done) => {
    setBusy(true);
    try {
      done(await send(path, body));
    } catch (error) {
      failed(UNKNOWN_STATUSES.includes(error.status) && path === APPLY ? UNKNOWN : error.message);
    }
    setBusy(false);
  };
  const preview = () => {
    const { add, remove } = change;
    setChange(withEdits(change, {}));
    // Only for these edits: there may be newer ones.
    working(PLAN, { add, remove, to_apply: true }, (plan) =>
      setChange((last) => (last.add === add && last.remove === remove ? { ...last, plan } : last)),
    );
  };
  useEffect(() => (change.isPlanWanted ? preview() : undefined), [change.isPlanWanted]);
  const apply = () => {
    setConfirming(false);
    // Allow no more than the confirmed share.
    const { acls, toRemove, isMassRemoval } = change.plan.counts;
    const consent = isMassRemoval ? { maxRemovedPercent: Math.ceil((100 * toRemove) / acls) } : {};
    working(APPLY, { ...change.plan.plan, ...consent }, ({ end_offset: endOffset, results: [result] }) => {
      if (result.error) return setChange((last) => ({ ...last, plan: null, error: result.error.message }));
      setChange({ ...NO_CHANGE, done: { endOffset, ...result } });
      return refresh();
    });
  };
  return html`<details class="change" open=${isOpen} onToggle=${(event) => setOpen(event.target.open)}>
    <summary>Change ACLs${size ? ` (${size} pending)` : ""}</summary>
    ${refusal
      ? html`<p class="notice">${visible(refusal)}</p>
          ${view.at ? html`<button onClick=${() => go({ at: null })}>Show current ACLs</button>` : null}`
      : html`<${AddForm} onAdd=${(acl) => setChange(withEdits(without(change, acl), { add: [...without(change, acl).add, acl] }))} />
          <p class="notice">Select ACLs in the table to remove them. Nothing is written until you apply the change.</p>
          <${PendingChange} change=${change} setChange=${setChange} />
          ${size ? html`<button disabled=${busy} onClick=${preview}>Preview</button>
            <button disabled=${busy} onClick=${() => setChange(NO_CHANGE)}>Discard</button>` : null}
          ${busy ? html`<p class="notice" role="status">Computing…</p>` : null}
          ${change.error
            ? html`<p class="error" role="alert"><bdi>${visible(change.error)}</bdi></p>
                ${size ? html`<button disabled=${busy} onClick=${preview}>Make a new plan</button>` : null}`
            : null}
          ${change.plan ? html`<${Preview} plan=${change.plan} change=${change} go=${go} onApply=${() => setConfirming(true)} />` : null}
          ${isConfirming ? html`<${Confirm} plan=${change.plan} change=${change} onYes=${apply} onNo=${() => setConfirming(false)} />` : null}`}
    ${change.done
      ? html`<p class="done" role="status">✓ In force from ${stateText(change.done.endOffset)} on:${" "}
          ${count(change.done.added.length, "ACL")} added, ${count(change.done.removed.length, "ACL")} removed.${" "}
          ${refusal ? null : html`<button onClick=${() => setChange(inverseOf(change.done))}>Undo as a plan</button>`}</p>`
      : null}
  </details>`;
}
