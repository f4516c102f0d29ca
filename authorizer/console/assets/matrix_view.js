// Matrix of effective permissions: principals by resources, loaded window by window.

import { html, useEffect, useMemo, useRef, useState } from "./htm-preact.js";
import { useAnswer } from "./use_answer.js";
import { ErrorMessage } from "./error_message.js";
import { numberOf, offsetOf } from "./view.js";
import { TYPES, count, datedOffset, group, letters, nameOf, operationsOf, title, visible } from "./words.js";

const ROW_PX = 36;
// Share of the window's height, as in console.css.
const HEIGHT_SHARE = 0.62;
const SEPARATORS = ".-_:/";

function chips(mask, names, kind) {
  return operationsOf(mask, names).map(
    (each) => html`<span class=${`chip ${group(each)} ${kind}`} aria-hidden="true">${letters(each)}</span>`,
  );
}

// The operation that a click on a cell checks: the last one if the cell shows it, else the first that it
// shows, else the first that was granted or revoked.
function operationToCheck([always, sometimes], flips, names, before) {
  const masks = [always, sometimes & ~always & ~1, ...flips.map((each) => each?.[1] ?? 0)];
  const shown = masks.flatMap((mask) => operationsOf(mask, names));
  return shown.includes(before) || !shown.length ? before : shown[0];
}

function cellText([always, sometimes], names, inside) {
  const part = sometimes & ~always;
  const parts = [];
  if (always) parts.push(`${inside ? "all of them " : ""}${operationsOf(always, names).map(title).join(", ")}`);
  if (part) parts.push(`partly ${operationsOf(part, names).map(title).join(", ")}`);
  return parts.join("; ") || "nothing";
}

function Cell({ cell, granted, revoked, names, inside, operation, onOpen }) {
  if (cell === null) {
    const label = `${inside.toLocaleString("en")} principals are too many to aggregate: open the team`;
    return html`<td><button class="cell" title=${label} onClick=${() => onOpen(operation)}>
      <span class="hidden">${label}</span><span class="none" aria-hidden="true">…</span>
    </button></td>`;
  }
  const [always, sometimes] = cell;
  const flips = [];
  if (granted?.[1]) flips.push(`granted ${operationsOf(granted[1], names).map(title).join(", ")}`);
  if (revoked?.[1]) flips.push(`revoked ${operationsOf(revoked[1], names).map(title).join(", ")}`);
  const label = [cellText(cell, names, inside), ...flips].join("; ");
  const checked = operationToCheck(cell, [granted, revoked], names, operation);
  return html`<td class=${flips.length ? "flipped" : ""}>
    <button class="cell" title=${label} onClick=${() => onOpen(checked)}>
      <span class="hidden">${label}</span>
      ${chips(always, names, "always")}${chips(sometimes & ~always & ~1, names, "partly")}
      ${granted?.[1] ? html`<span class="flip granted" aria-hidden="true">+</span>` : null}
      ${revoked?.[1] ? html`<span class="flip revoked" aria-hidden="true">−</span>` : null}
      ${sometimes || flips.length ? null : html`<span class="none" aria-hidden="true">·</span>`}
    </button>
  </td>`;
}

// Breadcrumbs of the open prefix.
function Path({ label, all, under, begin = 0, go }) {
  const parts = [];
  for (let at = begin; at < under.length; at += 1) {
    if (SEPARATORS.includes(under[at]) || at === under.length - 1) parts.push(under.slice(0, at + 1));
  }
  return html`<nav class="path" aria-label=${label}>
    <button onClick=${() => go("")}>${all}</button>
    ${parts.map(
      (each) => html`<span aria-hidden="true">›</span>
        <button aria-current=${each === under ? "true" : null} onClick=${() => go(each)}><bdi>${visible(each)}</bdi></button>`,
    )}
  </nav>`;
}

function Head({ head, go }) {
  if (head.principal === null) return html`<th scope="col" title="principals without ACLs"><bdi>everyone else</bdi></th>`;
  if (head.inside) {
    const open = () => go({ team: head.principal, column: null });
    return html`<th scope="col" title=${visible(head.principal)} onDblClick=${open}>
      <button class="open" onClick=${open}><bdi>${visible(head.principal)}*</bdi>
        <small> ${head.inside.toLocaleString("en")}</small></button>
    </th>`;
  }
  return html`<th scope="col" title=${visible(head.principal)}>
    <bdi>${visible(head.principal)}</bdi>${head.super ? html` <abbr title="super user">★</abbr>` : null}
  </th>`;
}

// Space of columns that are not loaded.
function Pad({ count, px }) {
  return count > 0 ? html`<td class="pad" aria-hidden="true" style=${{ width: `${count * px}px` }}></td>` : null;
}

export function MatrixView({ view, go, time }) {
  const scrolled = useRef(null);
  const [top, setTop] = useState(0);
  const [left, setLeft] = useState(null);
  const [width, setWidth] = useState(innerWidth);
  useEffect(() => {
    const sized = () => setWidth(innerWidth);
    addEventListener("resize", sized);
    return () => removeEventListener("resize", sized);
  }, []);
  const isNarrow = width <= 700;
  const px = isNarrow ? 96 : 110;
  // Load windows of two or three screens, because each cell costs rendering time.
  const visibleRows = Math.ceil((innerHeight * HEIGHT_SHARE) / ROW_PX) + 1;
  const passed = Math.floor(top / ROW_PX / visibleRows);
  const block = Math.max(0, passed - 1) * visibleRows;
  const visibleColumns = Math.max(2, Math.ceil((width - (isNarrow ? 160 : 320)) / px));
  const first = left === null ? numberOf(view.column) ?? 0 : Math.round(left / px);
  const column = Math.max(0, Math.floor(first / visibleColumns) * visibleColumns - (first ? visibleColumns : 0));
  const columns = Math.min(200, (first ? 3 : 2) * visibleColumns);
  const query = {
    type: view.type,
    under: view.under || null,
    containing: view.containing || null,
    who: view.who || null,
    teams: view.teams ? true : null,
    team: (view.teams && view.team) || null,
    at_offset: offsetOf(view.at),
    since: offsetOf(view.since),
    row: block,
    rows: Math.min(200, (passed ? 3 : 2) * visibleRows),
    column,
    columns,
  };
  const { answer, error, busy } = useAnswer("console/v1/matrix", query, [
    JSON.stringify(query),
    offsetOf(view.at) === null ? time?.end_offset : time?.past?.first_end_offset,
  ]);
  const rows = answer?.rows;
  const who = answer?.columns;
  // The scroll position and the URL follow each other.
  useEffect(() => {
    if (scrolled.current && left === null) scrolled.current.scrollLeft = first * px;
    else if (left !== null && first !== (numberOf(view.column) ?? 0)) go({ column: first || null }, { replace: true });
  }, [first, Boolean(answer)]);
  const scrollToColumn = (to) => scrolled.current?.scrollTo({ left: Math.max(0, to) * px });
  const goToFirstColumn = (changes, how) => {
    if (scrolled.current) scrolled.current.scrollLeft = 0;
    go({ ...changes, column: null }, how);
  };
  const open = (row, { principal, inside }, operation) =>
    inside ? goToFirstColumn({ team: principal }) : go({
      view: "ask",
      principal: principal ?? "User:anyone",
      anyone: null,
      name: row.text || null,
      prefix: row.is_name ? null : "yes",
      operation,
    });
  // Rendered once per answer, because cells are slow to render.
  const table = useMemo(
    () => answer && html`<table class="matrix" data-offset=${answer.end_offset - 1}>
      <thead>
        <tr>
          <th scope="col">${title(answer.type)}</th>
          <${Pad} count=${who.first} px=${px} />
          ${who.items.map((each) => html`<${Head} key=${each.principal} head=${each} go=${goToFirstColumn} />`)}
          <${Pad} count=${who.total - who.first - who.items.length} px=${px} />
        </tr>
      </thead>
      <tbody>
        <tr class="spacer" aria-hidden="true"><td style=${{ height: `${rows.first * ROW_PX}px` }}></td></tr>
        ${rows.items.map(
          (row, at) => html`<tr key=${`${row.text}\n${row.is_name}`}>
            <th scope="row" onDblClick=${row.inside ? () => go({ under: row.text }) : null}>
              ${row.inside
                ? html`<button class="open" onClick=${() => go({ under: row.text })}>
                    <bdi>${nameOf(row)}</bdi> <small>${row.inside.toLocaleString("en")}</small>
                  </button>`
                : html`<bdi>${nameOf(row)}</bdi>`}
            </th>
            <${Pad} count=${who.first} px=${px} />
            ${who.items.map(
              (each, column) => html`<${Cell}
                key=${each.principal}
                cell=${answer.cells[at][column]}
                granted=${answer.granted?.[at][column]}
                revoked=${answer.revoked?.[at][column]}
                names=${answer.operations}
                inside=${each.inside}
                operation=${view.operation ?? "READ"}
                onOpen=${(operation) => open(row, each, operation)}
              />`,
            )}
            <${Pad} count=${who.total - who.first - who.items.length} px=${px} />
          </tr>`,
        )}
        <tr class="spacer" aria-hidden="true">
          <td style=${{ height: `${Math.max(0, rows.total - rows.first - rows.items.length) * ROW_PX}px` }}></td>
        </tr>
      </tbody>
    </table>`,
    [answer, px, view.operation],
  );
  return html`<section aria-label="Matrix">
    <form class="filters" onSubmit=${(event) => event.preventDefault()}>
      <label>Resources
        <select value=${view.type} onChange=${(event) => goToFirstColumn({ type: event.target.value, under: null })}>
          ${TYPES.map((each) => html`<option value=${each}>${title(each)}</option>`)}
        </select>
      </label>
      <label>Names with
        <input type="search" value=${view.containing ?? ""} placeholder="orders"
          onInput=${(event) => go({ containing: event.target.value }, { replace: true })} />
      </label>
      <label>Principals with
        <input type="search" value=${view.who ?? ""} placeholder="User:alice"
          onInput=${(event) => goToFirstColumn({ who: event.target.value }, { replace: true })} />
      </label>
      <label><input type="checkbox" checked=${Boolean(view.teams)}
        onChange=${(event) => goToFirstColumn({ teams: event.target.checked ? "yes" : null, team: null })} /> by team</label>
    </form>
    ${view.under
      ? html`<${Path} label="Open rows" all="all names" under=${view.under}
          go=${(under) => go({ under, row: null })} />`
      : null}
    ${view.teams && view.team
      ? html`<${Path} label="Open columns" all="all principals" under=${view.team} begin=${view.team.indexOf(":") + 1}
          go=${(team) => goToFirstColumn({ team })} />`
      : null}
    ${error ? html`<${ErrorMessage} error=${error} />` : null}
    ${answer
      ? html`<div class="counts" aria-live="polite">
            <span>${count(rows.total - 1, "row")}, ${count(who.total, view.teams ? "column" : "principal")}</span>
            <span class="pager">
              <button disabled=${first === 0} aria-label="Previous principals"
                onClick=${() => scrollToColumn(first - visibleColumns + 1)}>◀</button>
              <span>${who.total ? first + 1 : 0}–${Math.min(who.total, first + visibleColumns)}</span>
              <button disabled=${first + visibleColumns > who.total} aria-label="Next principals"
                onClick=${() => scrollToColumn(first + visibleColumns - 1)}>▶</button>
            </span>
          </div>
          <div class=${`scroll ${busy ? "busy" : ""}`} ref=${scrolled} tabindex="0" role="region"
            aria-label="Rows" onScroll=${(event) => {
              setTop(event.target.scrollTop);
              setLeft(event.target.scrollLeft);
            }}>
            ${table}
          </div>
          <p class="legend">
            <span class="chip read always">R</span> on all names of the row, from every host${" "}
            <span class="chip read partly">R</span> on some names, or from some hosts${view.teams ? "; for a team: for all members, or for some" : ""}
            ${answer.granted
              ? html`<span class="flip granted">+</span> granted <span class="flip revoked">−</span> revoked
                  since ${datedOffset(offsetOf(view.since), time.past)}`
              : null}
          </p>`
      : error ? null : html`<p class="notice">Computing…</p>`}
  </section>`;
}
