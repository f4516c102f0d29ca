// Which state the file is of: everything in it is of that one.

import { html } from "./htm-preact.js";
import { time as timeOf, visible } from "./words.js";

export const LABEL = "State";

function place(name, { endOffset, epoch, ...found }) {
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
    ...place("", facts),
    ["Digest of all answers", facts.meaning ?? "not of all ACLs"],
    ["Rules of", `Kafka ${facts.kafkaVersion.version ?? "release not known"}`],
    ["Certainly committed", facts.uncommittedFrom === null ? "all of it" : `before offset ${facts.uncommittedFrom}`],
    ["Super users", superUsers.join(", ") || "none"],
    ["Where no ACL is", facts.allowEveryoneIfNoAclFound ? "everyone is allowed" : "everyone is denied"],
    ["About", narrowedTo.join(", ") || "all principals and names"],
    ...(facts.since === null ? [] : place("Since: ", facts.since)),
    ["Left out", leftOut.join("; ") || "nothing"],
    ["Made", `${timeOf(facts.made)} by aclog ${facts.aclogVersion}`],
  ];
  return html`<section aria-label="State">
    <p class="notice">Everything in this file is of this one state.</p>
    <dl class="facts">
      ${shown.map(([name, value]) => html`<div><dt>${name}</dt><dd><bdi>${visible(value)}</bdi></dd></div>`)}
    </dl>
  </section>`;
}
