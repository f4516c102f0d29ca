// Matrix of effective permissions: principals by resources, loaded window by window.

import { html, useEffect, useMemo, useRef, useState } from "./htm-preact.js";
import { ask } from "./api.js";
import { PrintedPart, usePrinted } from "./print.js";
import { useAnswer } from "./use_answer.js";
import { ErrorMessage } from "./error_message.js";
import { useGridFocus } from "./grid_focus.js";
import { Cell, Chip, shownOperations } from "./matrix_cell.js";
import { numberOf, offsetOf } from "./view.js";
import { TYPES, breakable, count, datedOffset, nameOf, title, visible } from "./words.js";

const PATH = "console/v1/matrix";
const ROW_PX = 36;
// The table's height: a share of the window's, and at least six rows with their heads; as in console.css.
const HEIGHT_SHARE = 0.62;
const HEIGHT_MINIMUM_PX = 322;
const SEPARATORS = ".-_:/";

// Breadcrumbs of the open prefix or team.
function Path({ label, all, under, begin = 0, go }) {
  // A team of a pattern is one part, without a principal's type.
  const parts = begin === under.length ? [under] : [];
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
  if (head.principal === null) return html`<th scope="col" tabindex="-1" title="principals without ACLs"><bdi>everyone else</bdi></th>`;
  if (head.inside) {
    const open = () => go({ team: head.principal, column: null });
    return html`<th scope="col" title=${visible(head.principal)} onDblClick=${open}>
      <button class="open" tabindex="-1" onClick=${open}><bdi>${breakable(head.principal)}${head.is_team ? "" : "*"}</bdi>
        <small> ${head.inside.toLocaleString("en")}</small></button>
    </th>`;
  }
  return html`<th scope="col" tabindex="-1" title=${visible(head.principal)}>
    <bdi>${breakable(head.principal)}</bdi>${head.super ? html` <abbr title="super user">★</abbr>` : null}
  </th>`;
}

// Mark of a row whose prefix covers names of other teams; with an example.
function Outside({ name }) {
  const label = name ? `covers names outside the team, such as ${visible(name)}` : null;
  return html` <span class="outside" title=${label}><span aria-hidden="true">⇱</span>${label ? html`<span class="hidden">${label}</span>` : null}</span>`;
}

// What the letters and the forms of the chips mean; only of what the cells show.
function Legend({ answer, view, time }) {
  const operations = shownOperations(answer);
  const has = (test) => answer.cells.some((row) => row.some((cell) => cell && test(cell)));
  const hasHosts = has(([always, sometimes, byHost]) => byHost & sometimes & ~always);
  const outside = answer.rows.items.some((row) => row.outside);
  const hasDenials = answer.denied?.some((row) => row.some(Boolean));
  const example = operations[0] ?? "READ";
  return html`<div class="legend">
    <p>${operations.map((each) => html`<span><${Chip} operation=${each} kind="always" /> ${title(each)}</span>`)}</p>
    <p>
      <span><${Chip} operation=${example} kind="always" /> on all names of the row, from every host${view.teams ? ", for all members of a team" : ""}</span>
      <span><${Chip} operation=${example} kind="partly" /> on some names${view.teams ? ", or for some members" : ""}</span>
      ${hasHosts ? html`<span><${Chip} operation=${example} kind="hosts" /> from some hosts only</span>` : null}
      ${hasDenials ? html`<span><${Chip} operation=${example} kind="deny" /> a DENY for it, on some name or from some host</span>` : null}
      ${view.name_teams
        ? html`<span>A team's row: all names that its ACLs name, and all possible names with their prefixes. A click on a cell opens them.</span>`
        : null}
      ${outside ? html`<span><${Outside} /> a prefix of the team covers names outside the team</span>` : null}
      ${answer.granted
        ? html`<span><${Chip} operation=${example} kind="granted" /> granted <${Chip} operation=${example} kind="revoked" /> revoked
            since ${datedOffset(offsetOf(view.since), time.past)}</span>`
        : null}
    </p>
  </div>`;
}

// Columns of a printed table, and maximums of the printed matrix.
const PRINTED_COLUMNS = 9;
const PRINTED_COLUMNS_MAXIMUM = 90;
const PRINTED_ROWS_MAXIMUM = 1000;
const PRINTED_CELLS_MAXIMUM = 20_000;
const WINDOW = 200;
const TABLES = ["cells", "denied", "granted", "revoked"];

// The answer with all rows and columns, up to the maximums.
async function completeMatrix(query) {
  const { rows, columns: heads } = await ask(PATH, { ...query, row: 0, rows: 1, column: 0, columns: 1 });
  const columns = Math.max(1, Math.min(heads.total, PRINTED_COLUMNS_MAXIMUM));
  const count = Math.min(rows.total, PRINTED_ROWS_MAXIMUM, Math.floor(PRINTED_CELLS_MAXIMUM / columns));
  let found = null;
  for (let row = 0; row < count; row += WINDOW) {
    const part = await ask(PATH, { ...query, row, rows: Math.min(WINDOW, count - row), column: 0, columns });
    if (found) {
      found.rows.items.push(...part.rows.items);
      for (const name of TABLES) found[name]?.push(...part[name]);
    } else found = { ...part, isComplete: true };
  }
  return found;
}

// Some of the columns of an answer, as one that has no others.
function columnsOf(answer, first) {
  const part = (each) => each.slice(first, first + PRINTED_COLUMNS);
  const items = part(answer.columns.items);
  const tables = TABLES.filter((name) => answer[name]).map((name) => [name, answer[name].map(part)]);
  return { ...answer, rows: { ...answer.rows, total: answer.rows.items.length }, columns: { total: items.length, first: 0, items }, ...Object.fromEntries(tables) };
}

// What a printed page lacks.
function MatrixPart({ answer: { rows, columns, isComplete } }) {
  const printedColumns = isComplete ? columns.items.length : Math.min(columns.items.length, PRINTED_COLUMNS);
  if (rows.items.length === rows.total && printedColumns === columns.total) return null;
  const of = (number, total) => `${number.toLocaleString("en")} of ${total.toLocaleString("en")}`;
  return html`<${PrintedPart} printed=${`${of(rows.items.length, rows.total)} rows and ${of(printedColumns, columns.total)} columns`} />`;
}

// Space of columns that are not loaded.
function Pad({ count, px }) {
  return count > 0 ? html`<td class="pad" aria-hidden="true" style=${{ width: `${count * px}px` }}></td>` : null;
}

export function MatrixView({ view, go, time }) {
  const focus = useGridFocus();
  const scrolled = focus.ref;
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
  const visibleRows = Math.ceil(Math.max(innerHeight * HEIGHT_SHARE, HEIGHT_MINIMUM_PX) / ROW_PX) + 1;
  const passed = Math.floor(top / ROW_PX / visibleRows);
  const block = Math.max(0, passed - 1) * visibleRows;
  const visibleColumns = Math.max(2, Math.ceil((width - (isNarrow ? 160 : 320)) / px));
  const first = left === null ? numberOf(view.column) ?? 0 : Math.round(left / px);
  const column = Math.max(0, Math.floor(first / visibleColumns) * visibleColumns - (first ? visibleColumns : 0));
  const columns = Math.min(200, (first ? 3 : 2) * visibleColumns);
  const onlyChanged = Boolean(view.changed) && offsetOf(view.since) !== null;
  const query = {
    type: view.type,
    under: view.under || null,
    containing: view.containing || null,
    who: view.who || null,
    teams: view.teams ? true : null,
    team: (view.teams && view.team) || null,
    name_teams: view.name_teams ? true : null,
    name_team: (view.name_teams && view.name_team) || null,
    at_offset: offsetOf(view.at),
    since: offsetOf(view.since),
    only_changed: onlyChanged || null,
    row: block,
    rows: Math.min(200, (passed ? 3 : 2) * visibleRows),
    column,
    columns,
  };
  const { answer: page, error, busy } = useAnswer(PATH, query, [
    JSON.stringify(query),
    offsetOf(view.at) === null ? time?.end_offset : time?.past?.first_end_offset,
  ]);
  const answer = usePrinted(page, () => completeMatrix(query));
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
  const openRow = (row) => go(row.team ? { name_team: row.team } : { under: row.text });
  const open = (row, { principal, inside }, operation, operations) => {
    if (row.team && row.inside) return openRow(row);
    if (inside) return goToFirstColumn({ team: principal });
    // The names of the open team are listed already: show them for this principal.
    if (row.team) return goToFirstColumn({ who: principal });
    return go({
      view: "ask",
      principal: principal ?? "User:anyone",
      anyone: null,
      host: null,
      type: answer.type,
      name: row.text || null,
      prefix: row.is_name ? null : "yes",
      operation,
      operations: operations.length > 1 ? operations.join(",") : null,
    });
  };
  // Rendered once per answer, because cells are slow to render.
  const tableOf = (answer, { rows, columns: who } = answer) => html`<table class="matrix" role="grid" data-offset=${answer.end_offset - 1}>
      <thead>
        <tr>
          <th scope="col" tabindex="-1">${title(answer.type)}</th>
          <${Pad} count=${who.first} px=${px} />
          ${who.items.map((each) => html`<${Head} key=${each.principal} head=${each} go=${goToFirstColumn} />`)}
          <${Pad} count=${who.total - who.first - who.items.length} px=${px} />
        </tr>
      </thead>
      <tbody>
        <tr class="spacer" aria-hidden="true"><td style=${{ height: `${rows.first * ROW_PX}px` }}></td></tr>
        ${rows.items.map(
          (row, at) => html`<tr key=${`${row.team ?? ""}\n${row.text}\n${row.is_name}`}>
            <th scope="row" tabindex=${row.inside ? null : "-1"} onDblClick=${row.inside ? () => openRow(row) : null}>
              ${row.inside
                ? html`<button class="open" tabindex="-1" onClick=${() => openRow(row)}>
                    <bdi>${nameOf(row)}</bdi> <small>${row.inside.toLocaleString("en")}</small>${row.outside ? html`<${Outside} name=${row.outside} />` : null}
                  </button>`
                : html`<bdi>${nameOf(row)}</bdi>${row.outside ? html`<${Outside} name=${row.outside} />` : null}`}
            </th>
            <${Pad} count=${who.first} px=${px} />
            ${who.items.map(
              (each, column) => html`<${Cell}
                key=${each.principal}
                cell=${answer.cells[at][column]}
                denied=${answer.denied?.[at][column]}
                granted=${answer.granted?.[at][column]}
                revoked=${answer.revoked?.[at][column]}
                names=${answer.operations}
                onlyChanged=${onlyChanged}
                row=${row}
                inside=${each.inside}
                operation=${view.operation ?? "READ"}
                px=${px}
                onOpen=${(...operations) => open(row, each, ...operations)}
              />`,
            )}
            <${Pad} count=${who.total - who.first - who.items.length} px=${px} />
          </tr>`,
        )}
        <tr class="spacer" aria-hidden="true">
          <td style=${{ height: `${Math.max(0, rows.total - rows.first - rows.items.length) * ROW_PX}px` }}></td>
        </tr>
      </tbody>
    </table>`;
  const table = useMemo(() => {
    if (!answer?.isComplete) return answer && tableOf(answer);
    const firsts = answer.columns.items.map((_, at) => at).filter((at) => at % PRINTED_COLUMNS === 0);
    return firsts.map((first) => tableOf(columnsOf(answer, first)));
  }, [answer, px, view.operation]);
  return html`<section aria-label="Matrix">
    <form class="filters" onSubmit=${(event) => event.preventDefault()}>
      <label>Resources
        <select value=${view.type} onChange=${(event) => goToFirstColumn({ type: event.target.value, under: null, name_team: null })}>
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
      ${time?.has_name_teams
        ? html`<label><input type="checkbox" checked=${Boolean(view.name_teams)}
            onChange=${(event) => go({ name_teams: event.target.checked ? "yes" : null, name_team: null, under: null })} /> teams of names</label>`
        : null}
      ${offsetOf(view.since) === null
        ? null
        : html`<label><input type="checkbox" checked=${onlyChanged}
            onChange=${(event) => goToFirstColumn({ changed: event.target.checked ? "yes" : null })} /> only changed</label>`}
    </form>
    ${view.under
      ? html`<${Path} label="Open rows" all="all names" under=${view.under}
          go=${(under) => go({ under })} />`
      : null}
    ${view.name_teams && view.name_team
      ? html`<${Path} label="Open team of names" all="all names" under=${view.name_team} begin=${view.name_team.length}
          go=${(team) => go({ name_team: team })} />`
      : null}
    ${view.teams && view.team
      ? html`<${Path} label="Open columns" all="all principals" under=${view.team} begin=${view.team.includes(":") ? view.team.indexOf(":") + 1 : view.team.length}
          go=${(team) => goToFirstColumn({ team })} />`
      : null}
    ${error ? html`<${ErrorMessage} error=${error} />` : null}
    ${answer
      ? html`<div class="counts" aria-live="polite">
            <span>${count(rows.total - 1, onlyChanged ? "changed row" : "row")}, ${count(who.total, view.teams ? "column" : "principal")}</span>
            ${answer.isComplete ? null : html`<span class="pager">
              <button disabled=${first === 0} aria-label="Previous principals"
                onClick=${() => scrollToColumn(first - visibleColumns + 1)}>◀</button>
              <span>${who.total ? first + 1 : 0}–${Math.min(who.total, first + visibleColumns)}</span>
              <button disabled=${first + visibleColumns > who.total} aria-label="Next principals"
                onClick=${() => scrollToColumn(first + visibleColumns - 1)}>▶</button>
            </span>`}
          </div>
          <${MatrixPart} answer=${answer} />
          <div class=${`scroll ${busy ? "busy" : ""}`} ref=${scrolled} role="region"
            aria-label="Rows" onFocusCapture=${focus.onFocus} onKeyDown=${focus.onKeyDown} onScroll=${(event) => {
              setTop(event.target.scrollTop);
              setLeft(event.target.scrollLeft);
            }}>
            ${table}
          </div>
          <${Legend} answer=${answer} view=${view} time=${time} />`
      : error ? null : html`<p class="notice">Computing…</p>`}
  </section>`;
}
