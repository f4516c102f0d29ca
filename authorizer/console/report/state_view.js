// Facts about the report's state.

import { html } from "./htm-preact.js";
import { time as timeOf } from "./dates.js";
import { visible } from "./words.js";

export const LABEL = "State";

function stateFacts(name, { endOffset, epoch, ...found }) {
  const offset = endOffset ? `${endOffset - 1}` : epoch === null ? "not of a log" : "before the log's first record";
  return [
    [`${name}Offset`, epoch === null ? offset : `${offset}, epoch ${epoch}`],
    [`${name}Time`, found.timestamp === null ? "unknown" : timeOf(found.timestamp)],
    [`${name}ACLs`, found.aclCount.toLocaleString("en")],
    [`${name}Digest`, found.digest],
  ];
}

export function NodeView({ time }) {
  const { facts } = time;
  const { superUsers, narrowedTo, leftOut } = facts;
  const shown = [
    ["From", facts.source],
    ["Cluster", facts.clusterId ?? "not known"],
    ...stateFacts("", facts),
    ["Digest of effective permissions", facts.meaning ?? "not for a part of the ACLs"],
    ["Rules of", `Kafka ${facts.kafkaVersion.version ?? "release not known"}`],
    ["Committed", facts.uncommittedFrom === null ? "all records" : `before offset ${facts.uncommittedFrom}`],
    ["Super users", superUsers.join(", ") || "none"],
    ["Resources without ACLs", facts.allowEveryoneIfNoAclFound ? "allowed to everyone" : "denied to everyone"],
    ["Scope", narrowedTo.join(", ") || "all principals and names"],
    ...(facts.since === null ? [] : stateFacts("Since: ", facts.since)),
    ["Left out", leftOut.join("; ") || "nothing"],
    ["Made", `${timeOf(facts.made)} by aclog ${facts.aclogVersion}`],
  ];
  return html`<section aria-label="State">
    <p class="notice">This file shows one state of the ACLs.</p>
    <dl class="facts">
      ${shown.map(([name, value]) => html`<div><dt>${name}</dt><dd><bdi>${visible(value)}</bdi></dd></div>`)}
    </dl>
  </section>`;
}
