// Rows and columns of a matrix in the file, grouped as in the console.

// Separators between the parts of a name.
const SEPARATORS = /[.\-_:/]/g;

// A name up to the end of its next part after `begin`; null if there is no further part.
function part(text, begin) {
  SEPARATORS.lastIndex = begin;
  const found = SEPARATORS.exec(text);
  return found ? text.slice(0, found.index + 1) : null;
}

// Groups items with the same next part.
function grouped(items, under, partOf = part) {
  const found = [];
  for (let first = 0, end = 0; first < items.length; first = end) {
    const group = partOf(items[first].text, under.length);
    end = first + 1;
    while (group !== null && end < items.length && items[end].text.startsWith(group)) end += 1;
    const inside = items.slice(first, end);
    found.push({ text: inside.length === 1 ? inside[0].text : group, inside });
  }
  return found;
}

// The rows below a prefix, its own row first; null if there is no such row.
export function rowsOf(matrix, under, containing) {
  const { rows, names, keys } = matrix;
  const prefixes = new Map(rows.flatMap((text, at) => (names[at] ? [] : [[text, at]])));
  const root = under ? prefixes.get(under) : 0;
  if (root === undefined) return null;
  const wanted = containing.toLowerCase();
  const items = [];
  for (let at = root + 1; at < rows.length && !names[root] && rows[at].startsWith(rows[root]); at += 1) {
    if (keys[at] && rows[at].toLowerCase().includes(wanted)) items.push({ text: rows[at], at });
  }
  const found = grouped(items, rows[root]);
  return [
    { at: root, inside: 0 },
    ...found.map(({ text, inside }) =>
      inside.length === 1 ? { at: inside[0].at, inside: 0 } : { at: prefixes.get(text), inside: inside.length },
    ),
  ];
}

// The type of a principal is not a part of its name.
function principalPart(text, begin) {
  return part(text, Math.max(begin, text.indexOf(":") + 1));
}

// Principals grouped by their common start; a single group is opened.
function teamsOf(principals, under) {
  let found = grouped(principals, under, principalPart);
  while (found.length === 1 && found[0].inside.length > 1) found = grouped(found[0].inside, found[0].text, principalPart);
  return found;
}

// Whether a principal is of a team, or has no team and begins with this text.
export function isMember(principal, team, teamOf) {
  const found = teamOf[principal];
  return found === undefined ? principal.startsWith(team) : found === team;
}

// As `analysis/matrix/teams.py`: teams by name, then principals without one by their common start.
function groupsOf(selected, under, teamOf) {
  const inTeams = selected.filter(({ text }) => text in teamOf);
  if (under && inTeams.length) return inTeams.map((each) => ({ text: each.text, inside: [each] }));
  const byTeam = new Map();
  for (const each of inTeams) byTeam.set(teamOf[each.text], [...(byTeam.get(teamOf[each.text]) ?? []), each]);
  const teams = [...byTeam].sort(([one], [other]) => (one < other ? -1 : 1)).map(([text, inside]) => ({ text, inside, isTeam: true }));
  const others = selected.filter(({ text }) => !(text in teamOf));
  return [...teams, ...(teams.length ? grouped(others, under, principalPart) : teamsOf(others, under))];
}

// The columns: principals without ACLs first, then principals or teams.
export function headsOf(matrix, { who, teams, team }, teamOf) {
  const wanted = (who ?? "").toLowerCase();
  const under = team ?? "";
  const [others, ...named] = matrix.columns.map((column) => ({ text: column.principal, column }));
  const selected = named.filter(({ text }) => text.toLowerCase().includes(wanted) && (!under || isMember(text, under, teamOf)));
  const single = (item) => ({ text: item.text, members: [item.column] });
  let heads = selected.map(single);
  if (teams) {
    heads = groupsOf(selected, under, teamOf).map(({ text, inside, isTeam }) => ({ text, isTeam, members: inside.map((each) => each.column) }));
  }
  return wanted || under ? heads : [single(others), ...heads];
}

// The value of a row in a run-length encoded column: pairs of first row and value.
export function codeAt(runs, row) {
  let low = 0;
  let high = runs.length / 2 - 1;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (runs[2 * middle] <= row) low = middle;
    else high = middle - 1;
  }
  return runs[2 * low + 1];
}
