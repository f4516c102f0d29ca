// Answers the console's requests from the data in this file, without a node.

import { codeAt, headsOf, isMember, rowsOf } from "./matrix_table.js";
import { ANY, offsetText, title } from "./words.js";

export class RequestError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

// Imported by the console's modules; a file is always reachable and takes no token.
export const UNREACHABLE = 0;
export const TOKEN_SET = "aclog-token-set";

const element = document.getElementById("data");

// A report of a period opens on what changed in it.
if (element.dataset.start && !location.hash) history.replaceState(null, "", `#${element.dataset.start}`);

async function read() {
  const compressed = atob(element.textContent);
  const bytes = Uint8Array.from(compressed, (each) => each.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}

const dataPromise = read();

function quoted(word) {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\"'\"'")}'`;
}

function command(...words) {
  return words.map(quoted).join(" ");
}

// The offset of the last record of the file's state, as in `--at-offset`.
function fileOffset(data) {
  return data.now.end_offset - 1;
}

// The state before the first record has no `--at-offset`.
function atOffset(at) {
  return at < 0 ? [] : ["--at-offset", String(at)];
}

// The file has one state, and at most one other that it is compared with.
function requireState(data, at) {
  const offset = fileOffset(data);
  if (at === null || at === undefined || at === offset) return;
  const hint = data.is_log ? command("aclog", "report", ...data.flags, ...atOffset(at)) : "aclog report";
  throw new RequestError(410, `This file has only the state at ${offsetText(offset)}. For the state at ${offsetText(at)}: ${hint}`);
}

function requireSince(data, since) {
  if (since === data.since) return;
  const comparison = data.since === null ? "is not compared with another state" : `is compared only with the state at ${offsetText(data.since)}`;
  const hint = data.is_log ? command("aclog", "report", ...data.flags, "--since", String(Math.max(0, since))) : "aclog diff";
  throw new RequestError(410, `This file ${comparison}. For ${offsetText(since)}: ${hint}`);
}

function matrix(data, query) {
  requireState(data, query.at_offset);
  const isCompared = query.since !== null && query.since !== undefined;
  if (isCompared) requireSince(data, query.since);
  const matrix = data.matrices[query.type];
  if (!matrix) throw new RequestError(404, `This file contains only ${data.now.facts.narrowedTo.join(", ")}.`);
  let rows = rowsOf(matrix, query.under ?? "", query.containing ?? "");
  if (!rows) throw new RequestError(404, `This file has no row ${query.under}*.`);
  let heads = headsOf(matrix, query, data.teams);
  const others = matrix.columns[0];
  const cellOf = (column, kind, at) => {
    const code = codeAt(column[kind], at);
    return data.cells[code === -1 ? codeAt(others[kind], at) : code];
  };
  // What is allowed to all principals of a column, and to some.
  const cell = (members, kind, at) =>
    members
      .map((column) => cellOf(column, kind, at))
      .reduce(([always, sometimes, byHost], [all, some, hosts]) => [always & all, sometimes | some, byHost | hosts]);
  if (isCompared && query.only_changed) {
    const isChanged = (at, members) => ["granted", "revoked"].some((kind) => cell(members, kind, at)[1]);
    rows = rows.filter(({ at }, number) => !number || heads.some(({ members }) => isChanged(at, members)));
    heads = heads.filter(({ members }) => isChanged(rows[0].at, members));
  }
  const visibleRows = rows.slice(query.row, query.row + query.rows);
  const shown = heads.slice(query.column, query.column + query.columns);
  const denied = (members, at) => members.reduce((mask, column) => mask | codeAt(column.denied, at), 0);
  const cells = (kind) => visibleRows.map(({ at }) => shown.map(({ members }) => cell(members, kind, at)));
  const found = {
    end_offset: data.now.end_offset,
    type: query.type,
    operations: data.operations,
    rows: {
      total: rows.length,
      first: query.row,
      items: visibleRows.map(({ at, inside }) => ({ text: matrix.rows[at], is_name: Boolean(matrix.names[at]), inside })),
    },
    columns: {
      total: heads.length,
      first: query.column,
      items: shown.map(({ text, isTeam, members }) => ({
        principal: text,
        inside: members.length > 1 || isTeam ? members.length : 0,
        is_team: Boolean(isTeam),
        super: members.length === 1 && members[0].super,
      })),
    },
    cells: cells("cells"),
    denied: visibleRows.map(({ at }) => shown.map(({ members }) => denied(members, at))),
  };
  if (isCompared) {
    found.granted = cells("granted");
    found.revoked = cells("revoked");
  }
  return found;
}

function filtered(data, containing) {
  const wanted = containing?.toLowerCase();
  const has = (acl) => [acl.principal, acl.resourceName, acl.host].some((text) => text.toLowerCase().includes(wanted));
  return wanted ? data.acls.filter(has) : data.acls;
}

function acls(data, query) {
  requireState(data, query.at_offset);
  const found = filtered(data, query.containing);
  return {
    end_offset: data.now.end_offset,
    timestamp: data.now.timestamp,
    total: found.length,
    first: query.first,
    acls: found.slice(query.first, query.first + query.count),
  };
}

function findings(data, query) {
  const page = acls(data, query).acls.map((each) => each.id);
  if (data.findings === null) throw new RequestError(404, data.now.facts.leftOut[0]);
  return Object.fromEntries(page.filter((id) => id in data.findings).map((id) => [id, data.findings[id]]));
}

// As `Lint` of the library: by rule. A finding about an ACL of several ids is one.
function lintFindings(data) {
  const byKey = new Map();
  for (const acl of data.acls) {
    const { offset, timestamp, ...shown } = acl;
    for (const each of data.findings[acl.id] ?? []) {
      const key = JSON.stringify([each.rule, { ...shown, id: null }]);
      if (!byKey.has(key)) byKey.set(key, { acl: shown, ...each, accepted: null });
    }
  }
  return [...byKey.values()];
}

function lint(data, query) {
  requireState(data, query.at_offset);
  if (data.findings === null) throw new RequestError(404, data.now.facts.leftOut[0]);
  const all = lintFindings(data);
  const { found, first, page } = selected(all, query, {
    whoOf: ({ acl }) => acl.principal,
    teamOf: data.teams,
    namesOf: ({ acl }) => acl.resourceName,
    isOther: ({ acl, rule, severity, can_go: canGo }) =>
      (query.rule && rule !== query.rule) ||
      (query.severity && severity !== query.severity) ||
      (query.can_go && !canGo) ||
      isOtherAcl(acl, query),
  });
  const rules = Object.fromEntries(data.rules.map((rule) => [rule, all.filter((each) => each.rule === rule).length]));
  return {
    end_offset: data.now.end_offset,
    timestamp: data.now.timestamp,
    acls: new Set(data.acls.map(({ id, offset, timestamp, ...content }) => JSON.stringify(content))).size,
    can_go: all.filter((each) => each.can_go).length,
    accepted: 0,
    rules,
    total: found.length,
    first,
    findings: page,
  };
}

function isOtherAcl(acl, query) {
  return (
    (query.type && acl?.resourceType !== query.type) ||
    (query.operation && ![query.operation, "ALL"].includes(acl?.operation)) ||
    (query.everyone && acl?.principal !== "User:*")
  );
}

// The lines that the filters select, and a page of them. `whoOf` and `namesOf` are texts of a line; `isOther`
// finds what a type, an operation or an effect excludes.
function selected(lines, query, { whoOf, namesOf, isOther, teamOf, isOfEach = false }) {
  const has = (text, wanted) => !wanted || text.toLowerCase().includes(wanted.toLowerCase());
  // A class of every principal is one of each team.
  const isOfTeam = (who) => !query.team || isMember(who, query.team, teamOf) || (isOfEach && (who === "User:*" || isEveryone(who)));
  const found = lines.filter((line) => has(whoOf(line), query.who) && isOfTeam(whoOf(line)) && has(namesOf(line), query.containing) && !isOther(line));
  const first = query.first ?? 0;
  return { found, first, page: found.slice(first, first + (query.count ?? found.length)) };
}

function changes(data, query) {
  requireState(data, query.until);
  requireSince(data, query.after);
  const lines = query.oldest_first ? [...data.changes.changes].reverse() : data.changes.changes;
  const { found, first, page } = selected(lines, query, {
    whoOf: ({ acl }) => acl?.principal ?? "",
    teamOf: data.teams,
    namesOf: ({ acl }) => acl?.resourceName ?? "",
    isOther: ({ acl, kind, temporary }) =>
      (query.temporary && !temporary) ||
      isOtherAcl(acl, query) ||
      (query.effect && kind !== "replaced" && ((kind === "added") === (acl?.permissionType === "ALLOW")) !== (query.effect === "granted")),
  });
  return { total: found.length, first, changes: page.map(({ temporary, ...line }) => line) };
}

// Principals are written with their type and a colon, so none of them begins like this text.
function isEveryone(who) {
  return who.startsWith("every principal");
}

function flips(data, query) {
  requireState(data, query.at_offset);
  requireSince(data, query.since);
  const { total, granted, revoked, flips: known, ...state } = data.flips;
  const { found, first, page } = selected(known, query, {
    whoOf: ({ who }) => (isEveryone(who) ? "User:*" : who),
    teamOf: data.teams,
    isOfEach: true,
    namesOf: ({ what, witness }) => what.slice(what.indexOf(` on ${witness.type} `) + witness.type.length + 5, what.lastIndexOf(" from ")),
    isOther: ({ direction, witness, what, who }) =>
      (query.type && witness.type !== query.type) ||
      (query.operation && !what.startsWith("every operation") && !what.split(" on ")[0].split(", ").includes(title(query.operation))) ||
      (query.everyone && !isEveryone(who)) ||
      (query.effect && direction !== query.effect),
  });
  const numberOf = (kind) => found.filter((each) => each.direction === kind).length;
  const isAll = total > known.length && found.length === known.length;
  return {
    ...state,
    total: found.length,
    first,
    granted: isAll ? granted : numberOf("granted"),
    revoked: isAll ? revoked : numberOf("revoked"),
    flips: page,
    ...(total > known.length ? { left_out: total - known.length } : {}),
  };
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
  throw new RequestError(404, `This file answers only the requests that Compare lists. For this one: ${command("aclog", ...words)}`);
}

// The state as a command's set of ACLs.
function asSet(data, at) {
  return ["--acls", data.is_log ? `${data.flags[1]}@${at}` : data.flags[1]];
}

function decision(data, query) {
  const at = query.at_offset ?? fileOffset(data);
  const { principal, operation, resourceType, resourceName, host } = query;
  const known = data.answers.find(
    (each) =>
      each.end_offset === at + 1 && each.principal === principal && each.operation === operation &&
      each.resourceType === resourceType && each.resourceName === resourceName && (!host || each.host === host),
  );
  if (known) return known;
  if (!data.is_log) return refuse("what-can", ...asSet(data, at), "--principal", principal);
  const access = ["--principal", principal, "--operation", operation, ...resourceWords(resourceType, resourceName)];
  return refuse("check", ...data.flags, ...atOffset(at), ...access, ...(host ? ["--host", host] : []), "--explain");
}

// Who may, for the rows and operations that the file lists.
function allowed(data, query) {
  const { principal, operation, type, name, prefix, at_offset: at } = query;
  const set = asSet(data, at ?? fileOffset(data));
  if (principal) return refuse("what-can", ...set, "--principal", principal);
  const isName = !prefix;
  const isOfRow = (each) => each.type === type && each.text === name && each.is_name === isName;
  const listed = data.allowed.find((each) => isOfRow(each) && each.operation === operation);
  if (!listed || (at !== null && at !== undefined && at !== fileOffset(data))) {
    const [rows, total] = data.allowedRows;
    const words = operation === ANY ? [] : ["--operation", operation];
    const hint = command("aclog", operation === ANY ? "report" : "who-can", ...set, ...words, ...resourceWords(type, prefix ? `${name}*` : name));
    const known = rows < total ? `${rows.toLocaleString("en")} of the ${total.toLocaleString("en")}` : "the";
    throw new RequestError(404, `This file lists who may for ${known} names and prefixes of the matrix, and for the operations of their ACLs. For this one: ${hint}`);
  }
  const { found, first, page } = selected(listed.classes, query, {
    whoOf: ({ who }) => who,
    teamOf: data.teams,
    isOfEach: true,
    namesOf: () => "",
    isOther: () => false,
  });
  const { narrowedTo } = data.now.facts;
  return {
    end_offset: data.now.end_offset,
    timestamp: data.now.timestamp,
    principal: null,
    total: found.length,
    first,
    classes: page,
    ...(narrowedTo.length ? { restriction: narrowedTo } : {}),
  };
}

// As `console/routes/name_search.py`; also names of the compared state.
function best(word, items, count) {
  const wanted = word.toLowerCase();
  const rank = ({ text, part }) => {
    if (wanted === text.toLowerCase() || wanted === part.toLowerCase()) return 0;
    return part.toLowerCase().startsWith(wanted) || text.toLowerCase().startsWith(wanted) ? 1 : 2;
  };
  return items
    .filter(({ text }) => text && text.toLowerCase().includes(wanted))
    .sort((one, other) => rank(one) - rank(other) || one.text.length - other.text.length || (one.text < other.text ? -1 : 1))
    .slice(0, count)
    .map(({ value }) => value);
}

function names(data, { text, count }) {
  const matrices = Object.entries(data.matrices);
  const principals = new Set(matrices.flatMap(([, { columns }]) => columns.slice(1).map((each) => each.principal)));
  const who = [...principals].map((each) => ({ text: each, part: each.slice(each.indexOf(":") + 1), value: each }));
  const what = matrices.flatMap(([type, { rows, names: areNames, keys }]) =>
    rows.flatMap((each, at) =>
      keys[at] ? [{ text: each, part: each, value: { type, text: each, is_name: Boolean(areNames[at]) } }] : [],
    ),
  );
  const teams = [...new Set(Object.values(data.teams))].map((each) => ({ text: each, part: each, value: each }));
  const words = text.split(/\s+/).filter(Boolean).slice(0, 3);
  return { words: words.map((word) => ({ word, principals: best(word, who, count), teams: best(word, teams, count), names: best(word, what, count) })) };
}

const ANSWERS = {
  "console/v1/names": names,
  "console/v1/now": (data) => data.now,
  "console/v1/moments": (data) => data.moments,
  "console/v1/matrix": matrix,
  "console/v1/acls": acls,
  "console/v1/findings": findings,
  "console/v1/lint": lint,
  "console/v1/changes": changes,
  "console/v1/flips": flips,
  "console/v1/ask": decision,
  "console/v1/allowed": allowed,
};

export async function ask(path, query = {}) {
  const answer = ANSWERS[path];
  if (!answer) throw new RequestError(404, "This requires a node: this file has one state of the ACLs.");
  return answer(await dataPromise, query);
}

// Previews of pasted changes.
export async function send() {
  const data = await dataPromise;
  const hint = command("aclog", "plan", "FILE", ...(data.is_log ? data.flags : []));
  throw new RequestError(404, `A file cannot preview changes. Use: ${hint}`);
}

export function useToken() {}
