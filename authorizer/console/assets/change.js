// What is to be changed: ACLs to be added and removed, held in the page; what they would do; and then to do it.

import { html, useEffect, useRef, useState } from "./htm-preact.js";
import { UNREACHABLE, send } from "./api.js";
import { FlipList, asking } from "./flip_list.js";
import { PlanSummary } from "./plan_summary.js";
import { OPERATIONS, TYPES, aclText, count, stateText, title, visible } from "./words.js";

const FIELDS = ["resourceType", "resourceName", "patternType", "principal", "host", "operation", "permissionType"];
const APPLY = "console/v1/apply";
const UNKNOWN = "The node did not answer: the change may have been carried out, or not. Look at the ACLs before you try again.";
export const NO_CHANGE = { add: [], remove: [], plan: null, done: null, error: null };

// What an ACL says, without its id and where it was written.
export function contentOf(acl) {
  return Object.fromEntries(FIELDS.map((each) => [each, acl[each]]));
}

function isSame(one, other) {
  return FIELDS.every((each) => one[each] === other[each]);
}

// Whatever was worked out is of other edits then.
function edited(change, edits) {
  return { ...NO_CHANGE, add: change.add, remove: change.remove, ...edits };
}

export function isGoing(change, acl) {
  return change.remove.some((each) => isSame(each, acl));
}

export function withRemoval(change, acl) {
  return edited(change, { remove: [...change.remove, contentOf(acl)] });
}

export function without(change, acl) {
  const others = (each) => !isSame(each, acl);
  return edited(change, { add: change.add.filter(others), remove: change.remove.filter(others) });
}

// Why nothing can be changed here; null where it can.
export function whyNot(view, time) {
  if (time.refusal) return `Nothing can be changed here: ${time.refusal}`;
  if (!time.may_alter) return `You cannot change ACLs: ${time.caller} needs Alter on the cluster.`;
  if (view.at) return `This is the past: changes are made to the ACLs of now.`;
  return null;
}

function AddForm({ onAdd }) {
  const [type, setType] = useState("TOPIC");
  const submitted = (event) => {
    event.preventDefault();
    const given = Object.fromEntries(new FormData(event.target));
    const isCluster = type === "CLUSTER";
    onAdd({
      ...given,
      resourceName: isCluster ? "kafka-cluster" : given.resourceName,
      patternType: isCluster ? "LITERAL" : given.patternType,
    });
  };
  const options = (names) => names.map((each) => html`<option value=${each}>${title(each)}</option>`);
  return html`<form class="sentence add" aria-label="An ACL to be added" onSubmit=${submitted}>
    <label>Permission <select name="permissionType">${options(["ALLOW", "DENY"])}</select></label>
    <label>Principal <input name="principal" required placeholder="User:alice" /></label>
    <label>Operation <select name="operation">${options(OPERATIONS)}</select></label>
    <label>Type <select name="resourceType" value=${type} onChange=${(event) => setType(event.target.value)}>${options(TYPES)}</select></label>
    ${type === "CLUSTER"
      ? null
      : html`<label>Pattern <select name="patternType">${options(["LITERAL", "PREFIXED"])}</select></label>
          <label>Name <input name="resourceName" required placeholder="orders" /></label>`}
    <label>Host <input name="host" required value="*" /></label>
    <button>add to the change</button>
  </form>`;
}

function Held({ change, setChange }) {
  const lines = [...change.add.map((acl) => ["+", "added", acl]), ...change.remove.map((acl) => ["−", "removed", acl])];
  return html`<ul class="changes" aria-label="The change">
    ${lines.map(
      ([mark, kind, acl]) => html`<li class=${kind}>
        <span class="mark">${mark}</span> <span class="hidden">to be ${kind}:</span> <bdi>${aclText(acl)}</bdi>
        <button aria-label=${`Take back ${aclText(acl)}`} onClick=${() => setChange(without(change, acl))}>take back</button>
      </li>`,
    )}
  </ul>`;
}

function Confirm({ plan, onYes, onNo }) {
  const dialog = useRef(null);
  useEffect(() => dialog.current.showModal(), []);
  const closed = () => (dialog.current.returnValue === "yes" ? onYes() : onNo());
  return html`<dialog ref=${dialog} aria-labelledby="confirm" onClose=${closed}>
    <h2 id="confirm">Apply this change?</h2>
    <p><b>+ ${count(plan.granted, "class", "classes")}</b> of questions that ${plan.granted === 1 ? "is" : "are"} denied now will be allowed.</p>
    <p><b>− ${count(plan.revoked, "class", "classes")}</b> of questions that ${plan.revoked === 1 ? "is" : "are"} allowed now will be denied.</p>
    <p>${count(plan.added.total, "ACL")} added, ${count(plan.removed.total, "ACL")} removed.</p>
    ${plan.counts.isMassRemoval
      ? html`<p class="error" role="alert"><b>This removes ${plan.counts.removedPercent} % of all ACLs</b>: ${plan.counts.toRemove} of ${plan.counts.acls}.</p>`
      : null}
    <button onClick=${() => dialog.current.close("yes")}>${plan.counts.isMassRemoval ? `Remove ${plan.counts.removedPercent} % of all ACLs` : "Apply it"}</button>
    <button onClick=${() => dialog.current.close("no")}>Not now</button>
  </dialog>`;
}

function Planned({ plan, go, onApply }) {
  const buttons = (witness) => html`<button onClick=${() => go(asking(witness))}>ask now</button>`;
  return html`<${PlanSummary} answer=${plan} isListed=${false} />
    <${FlipList} answer=${plan} labels=${["now", "then"]} buttons=${buttons} />
    ${plan.added.total + plan.removed.total
      ? html`<button class="apply" onClick=${onApply}>Apply…</button>`
      : html`<p class="notice">There is nothing to do.</p>`}`;
}

export function ChangePanel({ view, go, time, lookAgain, change, setChange }) {
  const [busy, setBusy] = useState(false);
  const [asks, setAsks] = useState(false);
  const held = change.add.length + change.remove.length;
  const refusal = whyNot(view, time);
  const [isOpen, setOpen] = useState(false);
  useEffect(() => (held ? setOpen(true) : undefined), [held]);
  const failed = (error) => setChange((last) => ({ ...last, error }));
  const working = async (path, body, done) => {
    setBusy(true);
    try {
      done(await send(path, body));
    } catch (error) {
      failed(error.status === UNREACHABLE && path === APPLY ? UNKNOWN : error.message);
    }
    setBusy(false);
  };
  const look = () => {
    const { add, remove } = change;
    setChange(edited(change, {}));
    // Of these edits alone: others may have been made while it was worked out.
    working("console/v1/plan", { add, remove, to_apply: true }, (plan) =>
      setChange((last) => (last.add === add && last.remove === remove ? { ...last, plan } : last)),
    );
  };
  const apply = () => {
    setAsks(false);
    // No more than the share that was confirmed.
    const { acls, toRemove, isMassRemoval } = change.plan.counts;
    const consent = isMassRemoval ? { maxRemovedPercent: Math.ceil((100 * toRemove) / acls) } : {};
    working(APPLY, { ...change.plan.plan, ...consent }, ({ end_offset: endOffset, results: [result] }) => {
      if (result.error) return setChange((last) => ({ ...last, plan: null, error: result.error.message }));
      setChange({ ...NO_CHANGE, done: { endOffset, ...result } });
      return lookAgain();
    });
  };
  return html`<details class="change" open=${isOpen} onToggle=${(event) => setOpen(event.target.open)}>
    <summary>Change ACLs${held ? ` (${held} held)` : ""}</summary>
    ${refusal
      ? html`<p class="notice">${visible(refusal)}</p>
          ${view.at ? html`<button onClick=${() => go({ at: null })}>look at now</button>` : null}`
      : html`<${AddForm} onAdd=${(acl) => setChange(edited(without(change, acl), { add: [...without(change, acl).add, acl] }))} />
          <p class="notice">Mark ACLs in the table to remove them. Nothing is written before it is applied.</p>
          <${Held} change=${change} setChange=${setChange} />
          ${held ? html`<button disabled=${busy} onClick=${look}>What would it do</button>
            <button disabled=${busy} onClick=${() => setChange(NO_CHANGE)}>take all back</button>` : null}
          ${busy ? html`<p class="notice" role="status">Working it out…</p>` : null}
          ${change.error
            ? html`<p class="error" role="alert"><bdi>${visible(change.error)}</bdi></p>
                ${held ? html`<button disabled=${busy} onClick=${look}>make the plan anew</button>` : null}`
            : null}
          ${change.plan ? html`<${Planned} plan=${change.plan} go=${go} onApply=${() => setAsks(true)} />` : null}
          ${asks ? html`<${Confirm} plan=${change.plan} onYes=${apply} onNo=${() => setAsks(false)} />` : null}`}
    ${change.done
      ? html`<p class="done" role="status">✓ In force from ${stateText(change.done.endOffset)} on:${" "}
          ${count(change.done.added.length, "ACL")} added, ${count(change.done.removed.length, "ACL")} removed.</p>`
      : null}
  </details>`;
}
