// One cell of the matrix: chips of operations, as many as fit, and a text for screen readers.

import { html } from "./htm-preact.js";
import { useIsPrinting } from "./print.js";
import { group, letters, operationsOf, title } from "./words.js";

// Widths of the parts of a cell in pixels, somewhat more than those of usual fonts.
const PADDING_PX = 12;
const CHIP_PX = 12;
const LETTER_PX = 8;
const REST_PX = 20;

// Kinds of chips: what is before and after the letters, and what the text calls them.
export const KINDS = {
  always: ["", "", ""],
  partly: ["", "", "partly "],
  hosts: ["", "@", "from some hosts "],
  deny: ["⊘", "", "DENY for "],
  granted: ["+", "", "granted "],
  revoked: ["−", "", "revoked "],
};

const ALLOWED = ["always", "partly", "hosts"];
const CHANGED = ["granted", "revoked"];

export function Chip({ operation, kind }) {
  const [before, after] = KINDS[kind];
  return html`<span class=${`chip ${group(operation)} ${kind}`}>${before}${letters(operation)}${after}</span>`;
}

// The operations of a cell by kind, in the order of their importance.
function partsOf({ cell, denied, granted, revoked, names }) {
  const [always, sometimes, byHost = 0] = cell;
  const part = sometimes & ~always & ~1;
  const masks = {
    granted: granted?.[1] ?? 0,
    revoked: revoked?.[1] ?? 0,
    deny: denied ?? 0,
    always,
    partly: part & ~byHost,
    hosts: part & byHost,
  };
  return Object.entries(masks).flatMap(([kind, mask]) =>
    operationsOf(mask, names).map((operation) => ({ kind, operation })),
  );
}

// How many parts fit.
function fitting(parts, px) {
  const widths = parts.map(({ kind, operation }) => {
    const [before, after] = KINDS[kind];
    return CHIP_PX + LETTER_PX * (before + letters(operation) + after).length;
  });
  const room = px - PADDING_PX;
  const total = widths.reduce((sum, each) => sum + each, 0);
  if (total <= room) return parts.length;
  let used = REST_PX;
  return Math.max(1, widths.findIndex((each) => (used += each) > room));
}

function cellText(parts, inside) {
  const texts = Object.entries(KINDS).flatMap(([kind, [, , words]]) => {
    const found = parts.filter((each) => each.kind === kind).map((each) => title(each.operation));
    if (!found.length) return [];
    return [`${kind === "always" && inside ? "all of them " : words}${found.join(", ")}`];
  });
  const isAllowed = parts.some(({ kind }) => ALLOWED.includes(kind));
  return (isAllowed ? texts : ["nothing", ...texts]).join("; ");
}

// The operations that a cell shows, each once.
function operationsShown(parts) {
  return [...new Set([...parts.filter(({ kind }) => ALLOWED.includes(kind)), ...parts].map(({ operation }) => operation))];
}

// The operation that a click on a cell checks: the last one if the cell shows it, else the first that it
// shows, else the first that was granted or revoked.
function operationToCheck(parts, before) {
  const shown = operationsShown(parts);
  return shown.includes(before) || !shown.length ? before : shown[0];
}

export function Cell({ cell, denied, granted, revoked, names, row, inside, operation, onlyChanged, px, onOpen }) {
  const isPrinting = useIsPrinting();
  if (cell === null) {
    const label = row.team ? "too many names or principals to aggregate: open the row or the team"
      : `${inside.toLocaleString("en")} principals are too many to aggregate: open the team`;
    return html`<td><button class="cell" tabindex="-1" title=${label} onClick=${() => onOpen(operation, [])}>
      <span class="hidden">${label}</span><span class="none" aria-hidden="true">…</span>
    </button></td>`;
  }
  const parts = partsOf({ cell, denied, granted, revoked, names });
  const isChanged = Boolean(granted?.[1] || revoked?.[1]);
  const label = cellText(parts, inside);
  // What was granted is shown once; of changed rows only what changed.
  const chips = onlyChanged ? parts.filter(({ kind }) => CHANGED.includes(kind)) : parts.filter(
    ({ kind, operation }) => !isChanged || !ALLOWED.includes(kind)
      || !parts.some((each) => each.kind === "granted" && each.operation === operation),
  );
  // On paper nothing opens.
  const number = isPrinting ? chips.length : fitting(chips, px);
  return html`<td class=${isChanged ? "flipped" : ""}>
    <button class="cell" tabindex="-1" title=${label} onClick=${() => onOpen(operationToCheck(parts, operation), operationsShown(parts))}>
      <span class="hidden">${label}</span>
      <span aria-hidden="true">
        ${chips.slice(0, number).map((each) => html`<${Chip} ...${each} />`)}
        ${number < chips.length ? html`<span class="rest">+${chips.length - number}</span>` : null}
        ${chips.length ? null : html`<span class="none">·</span>`}
      </span>
    </button>
  </td>`;
}

// The letters that the cells of an answer show, in the order of the operations.
export function shownOperations({ cells, denied, granted, revoked, operations: names }) {
  let mask = 0;
  let hasAll = false;
  const add = (each) => {
    if (!each) return;
    if (operationsOf(each, names)[0] === "ALL") hasAll = true;
    else mask |= each;
  };
  // Of operations on some names each has its chip, as in the cell.
  for (const row of cells) for (const cell of row) if (cell) [cell[0], cell[1] & ~cell[0] & ~1].forEach(add);
  for (const table of [granted, revoked]) for (const row of table ?? []) for (const cell of row) add(cell?.[1]);
  for (const row of denied ?? []) row.forEach(add);
  const found = operationsOf(mask & ~1, names);
  return hasAll && found[0] !== "ALL" ? ["ALL", ...found] : found;
}
