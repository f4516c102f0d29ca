// What the console asks a node, answered from what this file holds: nothing is decided here, and nobody asked.

import { codeAt, headsOf, rowsOf } from "./sheet.js";
import { offsetText } from "./words.js";

export class Refusal extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

// A file holds all that it answers from, and takes no token: neither is ever seen here.
export const UNREACHABLE = 0;
export const TOKEN_GIVEN = "aclog-token-given";

async function read() {
  const packed = atob(document.getElementById("held").textContent);
  const bytes = Uint8Array.from(packed, (each) => each.charCodeAt(0));
  const unpacked = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(unpacked).json();
}

const reading = read();

function quoted(word) {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\"'\"'")}'`;
}

function command(...words) {
  return words.map(quoted).join(" ");
}

// The offset of the last record of the file's state: states are named by it, here as by `--at-offset`.
function ownOffset(held) {
  return held.now.end_offset - 1;
}

// Of the state before the first record there is no `--at-offset`.
function atOffset(at) {
  return at < 0 ? [] : ["--at-offset", String(at)];
}

// The file is of one state, and compares it with one other at most.
function requireState(held, at) {
  const own = ownOffset(held);
  if (at === null || at === undefined || at === own) return;
  const way = held.is_log ? command("aclog", "report", ...held.flags, ...atOffset(at)) : "aclog report";
  throw new Refusal(410, `This file holds the state at ${offsetText(own)} alone. For that at ${offsetText(at)}: ${way}`);
}

function requireSince(held, since) {
  if (since === held.since) return;
  const has = held.since === null ? "compares its state with no other" : `compares its state with that at ${offsetText(held.since)} alone`;
  const way = held.is_log ? command("aclog", "report", ...held.flags, "--since", String(Math.max(0, since))) : "aclog diff";
  throw new Refusal(410, `This file ${has}. For ${offsetText(since)}: ${way}`);
}

function matrix(held, question) {
  requireState(held, question.at_offset);
  const isCompared = question.since !== null && question.since !== undefined;
  if (isCompared) requireSince(held, question.since);
  const sheet = held.sheets[question.type];
  if (!sheet) throw new Refusal(404, `This file is about ${held.now.facts.narrowedTo.join(", ")} alone.`);
  const rows = rowsOf(sheet, question.under ?? "", question.containing ?? "");
  if (!rows) throw new Refusal(404, `This file has no row ${question.under}*.`);
  const heads = headsOf(sheet, question);
  const some = rows.slice(question.row, question.row + question.rows);
  const shown = heads.slice(question.column, question.column + question.columns);
  const everybody = sheet.columns[0];
  const cellOf = (column, kind, at) => {
    const code = codeAt(column[kind], at);
    return held.cells[code === -1 ? codeAt(everybody[kind], at) : code];
  };
  // What holds for all principals of a column, and what for some.
  const cell = (members, kind, at) =>
    members
      .map((column) => cellOf(column, kind, at))
      .reduce(([always, sometimes], [all, some]) => [always & all, sometimes | some]);
  const cells = (kind) => some.map(({ at }) => shown.map(({ members }) => cell(members, kind, at)));
  const found = {
    end_offset: held.now.end_offset,
    type: question.type,
    operations: held.operations,
    rows: {
      total: rows.length,
      first: question.row,
      items: some.map(({ at, inside }) => ({ text: sheet.rows[at], is_name: Boolean(sheet.names[at]), inside })),
    },
    columns: {
      total: heads.length,
      first: question.column,
      items: shown.map(({ text, members }) => ({
        principal: text,
        inside: members.length > 1 ? members.length : 0,
        super: members.length === 1 && members[0].super,
      })),
    },
    cells: cells("cells"),
  };
  if (isCompared) {
    found.granted = cells("granted");
    found.revoked = cells("revoked");
  }
  return found;
}

function listed(held, containing) {
  const wanted = containing?.toLowerCase();
  const has = (acl) => [acl.principal, acl.resourceName, acl.host].some((text) => text.toLowerCase().includes(wanted));
  return wanted ? held.acls.filter(has) : held.acls;
}

function acls(held, question) {
  requireState(held, question.at_offset);
  const found = listed(held, question.containing);
  return {
    end_offset: held.now.end_offset,
    timestamp: held.now.timestamp,
    total: found.length,
    first: question.first,
    acls: found.slice(question.first, question.first + question.count),
  };
}

function findings(held, question) {
  const page = acls(held, question).acls.map((each) => each.id);
  if (held.findings === null) throw new Refusal(404, held.now.facts.leftOut[0]);
  return Object.fromEntries(page.filter((id) => id in held.findings).map((id) => [id, held.findings[id]]));
}

function changes(held, question) {
  requireState(held, question.until);
  requireSince(held, question.after);
  return held.changes;
}

function flips(held, question) {
  requireState(held, question.at_offset);
  requireSince(held, question.since);
  return held.flips;
}

const FLAGS = {
  TOPIC: "--topic",
  GROUP: "--group",
  TRANSACTIONAL_ID: "--transactional-id",
  DELEGATION_TOKEN: "--delegation-token",
  USER: "--user-principal",
};

function resourceWords(type, name) {
  return type === "CLUSTER" ? ["--cluster"] : [FLAGS[type], name];
}

function refuse(...words) {
  throw new Refusal(404, `This file answers the questions of Compare alone. For this one: ${command("aclog", ...words)}`);
}

// The state as any command takes it that does not go by offsets.
function asSet(held, at) {
  return ["--acls", held.is_log ? `${held.flags[1]}@${at}` : held.flags[1]];
}

function answered(held, question) {
  const at = question.at_offset ?? ownOffset(held);
  const { principal, operation, resourceType, resourceName, host } = question;
  const found = held.answers.find(
    (each) =>
      each.end_offset === at + 1 && each.principal === principal && each.operation === operation &&
      each.resourceType === resourceType && each.resourceName === resourceName && (!host || each.host === host),
  );
  if (found) return found;
  if (!held.is_log) return refuse("what-can", ...asSet(held, at), "--principal", principal);
  const asked = ["--principal", principal, "--operation", operation, ...resourceWords(resourceType, resourceName)];
  return refuse("check", ...held.flags, ...atOffset(at), ...asked, ...(host ? ["--host", host] : []), "--explain");
}

// Of all names with a prefix, or of anyone.
function allowed(held, { principal, operation, type, name, prefix, at_offset }) {
  const set = asSet(held, at_offset ?? ownOffset(held));
  if (principal) return refuse("what-can", ...set, "--principal", principal);
  return refuse("who-can", ...set, "--operation", operation, ...resourceWords(type, prefix ? `${name}*` : name));
}

const ANSWERS = {
  "console/v1/now": (held) => held.now,
  "console/v1/moments": (held) => held.moments,
  "console/v1/matrix": matrix,
  "console/v1/acls": acls,
  "console/v1/findings": findings,
  "console/v1/changes": changes,
  "console/v1/flips": flips,
  "console/v1/ask": answered,
  "console/v1/allowed": allowed,
};

export async function ask(path, question = {}) {
  const answer = ANSWERS[path];
  if (!answer) throw new Refusal(404, "That takes a node: this file holds one state of the ACLs.");
  return answer(await reading, question);
}

// Changes that are pasted.
export async function send() {
  const held = await reading;
  const way = command("aclog", "plan", "FILE", ...(held.is_log ? held.flags : []));
  throw new Refusal(404, `A file holds what is, and not what would be: ${way}`);
}

// No file takes a token.
export function useToken() {}
