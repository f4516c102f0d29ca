// Texts of offsets, operations and ACLs.

import { time } from "./dates.js";

import { html } from "./htm-preact.js";

export const TYPES = ["TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID", "DELEGATION_TOKEN", "USER"];
export const OPERATIONS = [
  "READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "CLUSTER_ACTION", "DESCRIBE_CONFIGS",
  "ALTER_CONFIGS", "IDEMPOTENT_WRITE", "CREATE_TOKENS", "DESCRIBE_TOKENS", "TWO_PHASE_COMMIT", "ALL",
];

// In place of an operation: any one, with all operations of a principal in one row.
export const ANY = "ANY";

// The letters of each operation in a cell, and its color group.
const CHIPS = {
  ALL: ["all", "all"],
  READ: ["R", "read"],
  WRITE: ["W", "write"],
  CREATE: ["C", "manage"],
  DELETE: ["X", "manage"],
  ALTER: ["A", "manage"],
  DESCRIBE: ["D", "look"],
  CLUSTER_ACTION: ["K", "manage"],
  DESCRIBE_CONFIGS: ["dc", "look"],
  ALTER_CONFIGS: ["ac", "manage"],
  IDEMPOTENT_WRITE: ["I", "write"],
  CREATE_TOKENS: ["ct", "manage"],
  DESCRIBE_TOKENS: ["dt", "look"],
  TWO_PHASE_COMMIT: ["2p", "write"],
};

export function title(operation) {
  return operation
    .split("_")
    .map((word) => word[0] + word.slice(1).toLowerCase())
    .join("");
}

export function letters(operation) {
  return CHIPS[operation]?.[0] ?? operation;
}

export function group(operation) {
  return CHIPS[operation]?.[1] ?? "manage";
}

// The operations of a mask; ALL stands for all of them. ALL alone does not imply the others.
export function operationsOf(mask, names) {
  if (mask === 1 || mask === 2 ** names.length - 1) return ["ALL"];
  return names.filter((_, bit) => bit && mask & (1 << bit));
}

// A state by the offset of its last record, which is its end offset minus one.
export function stateText(endOffset) {
  return endOffset ? `offset ${endOffset - 1}` : "the start, before the first record";
}

// A state with the time of its last record.
export function stateAndTime({ end_offset: endOffset, timestamp }) {
  return endOffset ? `${stateText(endOffset)}, ${time(timestamp)}` : stateText(endOffset);
}

// A state by the offset of its last record.
export function offsetText(offset) {
  return stateText(offset + 1);
}

// The time of the last change up to an offset, of the known states; 0 if it is unknown.
export function timeAt(offset, past) {
  return past?.moments.findLast((each) => each.end_offset <= offset + 1)?.timestamp ?? 0;
}

// A state by the offset of its last record, with its date if it is known.
export function datedOffset(offset, past) {
  const ms = timeAt(offset, past);
  return offset >= 0 && ms > 0 ? `${offsetText(offset)} (${time(ms)})` : offsetText(offset);
}

// Escapes invisible characters and those that change the text direction.
export function visible(text) {
  return text.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (each) => `\\u{${each.codePointAt(0).toString(16)}}`);
}

// A name that may break after its separators, and not inside words.
export function breakable(text) {
  return visible(text).split(/(?<=[.\-_:/@])/).flatMap((part, at) => (at ? [html`<wbr />`, part] : [part]));
}

export function count(number, one, many = `${one}s`) {
  return `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
}

// Verdicts on other nodes: mark, text and style.
export const VERDICTS = {
  agrees: ["✓", "agrees", "allowed"],
  differs: ["✗", "DIFFERS", "denied"],
  "other log": ["✗", "another log", "denied"],
  unknown: ["?", "not compared", "plain"],
  away: ["✗", "away", "denied"],
};

// Number of nodes by verdict; null if the caller may not see it.
export function agreementText(verdicts) {
  if (verdicts === null) return "";
  const found = Object.entries(verdicts);
  if (!found.length) return "none configured";
  return found.map(([verdict, number]) => `${VERDICTS[verdict][0]} ${number} ${VERDICTS[verdict][1]}`).join(", ");
}

// Prefixes are shown with a star, so a literal name that ends with one is marked.
function literalText(name) {
  return name.endsWith("*") ? `${name} (literal)` : name;
}

export function nameOf(row) {
  if (row.team) return visible(row.team);
  if (row.is_name) return visible(literalText(row.text)) || "(the empty name)";
  return row.text ? `${visible(row.text)}*` : "every name";
}

function patternText({ patternType, resourceName }) {
  if (patternType === "PREFIXED") return `${resourceName}*`;
  return resourceName === "*" ? resourceName : literalText(resourceName);
}

export function aclText(acl) {
  const name = patternText(acl);
  const host = acl.host === "*" ? "any host" : acl.host;
  const { permissionType, principal, operation, resourceType } = acl;
  return visible(`${permissionType} ${principal} ${title(operation)} on ${resourceType} ${name} from ${host}`);
}

// The deciding ACL, or the rule if there is none.
export function decisionText({ result, rule, acl }) {
  return `${result} by ${acl ? aclText(acl) : rule.replace(/\B[A-Z]/g, " $&").toLowerCase()}`;
}
