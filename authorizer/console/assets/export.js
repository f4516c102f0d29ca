// Saves a complete list as CSV or JSON, and links to the view at its offset.

import { html, useState } from "./htm-preact.js";
import { ErrorMessage } from "./error_message.js";
import { PRINTED_MAXIMUM, usePrinted } from "./print.js";
import { urlOffset } from "./view.js";

// Number of lines in each request.
const PART = 5000;

// An answer with all lines of its list, however many pages they are, up to a maximum.
export async function complete(send, path, query, list, { part = PART, maximum = Infinity } = {}) {
  const lines = [];
  for (;;) {
    const answer = await send(path, { ...query, first: lines.length, count: Math.min(part, maximum - lines.length) });
    lines.push(...answer[list]);
    if (lines.length >= Math.min(maximum, answer.total) || !answer[list].length) return { ...answer, first: 0, [list]: lines };
  }
}

// All lines of an answer's list.
export async function collect(send, path, query, list, part = PART) {
  return (await complete(send, path, query, list, { part }))[list];
}

// The answer of a list that is printed, or the one of its page.
export function usePrintedList(answer, { send, path, query, list, part }) {
  return usePrinted(answer, () => complete(send, path, query, list, { part, maximum: PRINTED_MAXIMUM }));
}

function quoted(value) {
  const text = value === null || value === undefined ? "" : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function csv(rows) {
  const heads = Object.keys(rows[0] ?? {});
  return [heads, ...rows.map((row) => heads.map((head) => row[head]))].map((cells) => `${cells.map(quoted).join(",")}\r\n`).join("");
}

function save(name, type, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 0);
}

// The date of a record in an exported row: in UTC, whatever the page shows.
export function isoDate(ms) {
  return ms > 0 ? new Date(ms).toISOString() : "";
}

// `rowOf`: the cells of a line by column. `what`: names the list, if the view has two. `endOffset`: of the shown state, so that the link stays with it.
export function Exports({ send, path, query, list, name, what, rowOf, endOffset, part = PART }) {
  const [state, setState] = useState({ busy: false, error: null });
  const saved = (extension, type, text) => async () => {
    setState({ busy: true, error: null });
    try {
      const rows = (await collect(send, path, query, list, part)).map(rowOf);
      save(`${name}.${extension}`, type, text(rows));
      setState({ busy: false, error: null });
    } catch (error) {
      setState({ busy: false, error });
    }
  };
  const labelOf = (format) => (what ? `${format} of ${what}` : null);
  const fragment = new URLSearchParams(location.hash.slice(1));
  fragment.set("at", urlOffset(endOffset));
  return html`<span class="exports">Export
    <button aria-label=${labelOf("CSV")} disabled=${state.busy} onClick=${saved("csv", "text/csv", csv)}>CSV</button>
    <button aria-label=${labelOf("JSON")} disabled=${state.busy} onClick=${saved("json", "application/json", (rows) => JSON.stringify(rows, null, 1))}>JSON</button>
    <a href=${`#${fragment}`}>link to this state</a>
    ${state.busy ? html`<span role="status">Exporting…</span>` : null}
    ${state.error ? html`<${ErrorMessage} error=${state.error} />` : null}
  </span>`;
}

// The columns of an ACL in an exported row. Names are as they are, so that programs find them.
export function aclColumns(acl) {
  const { permissionType, principal, operation, resourceType, patternType, resourceName, host } = acl ?? {};
  return { permissionType, principal, operation, resourceType, patternType, resourceName, host };
}
