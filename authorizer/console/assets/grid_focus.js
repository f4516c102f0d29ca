// Moves the focus in a table by arrow keys: the table is one stop of the Tab key (the ARIA grid pattern).

import { useLayoutEffect, useRef } from "./htm-preact.js";

const MOVES = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

// The focusable elements of a table by row and column, without spacers.
function stopsOf(table) {
  return [...table.querySelectorAll("tr:not(.spacer)")].map((row) =>
    [...row.querySelectorAll("th, td:not(.pad)")].map((cell) => cell.querySelector("button") ?? cell),
  );
}

function placeOf(stops, element) {
  for (const [row, cells] of stops.entries()) {
    const column = cells.indexOf(element);
    if (column >= 0) return [row, column];
  }
  return null;
}

// Returns the ref of the element around the table, and its key and focus handlers.
export function useGridFocus() {
  const around = useRef(null);
  const current = useRef(null);
  const select = (element) => {
    if (current.current && current.current !== element) current.current.tabIndex = -1;
    element.tabIndex = 0;
    current.current = element;
  };
  useLayoutEffect(() => {
    const table = around.current?.querySelector("table");
    if (!table || (current.current && table.contains(current.current))) return;
    const stops = stopsOf(table);
    const first = stops[1]?.[1] ?? stops[0]?.[0];
    if (first) select(first);
  });
  const onFocus = (event) => {
    const stop = event.target.closest("th, td");
    if (stop) select(stop.querySelector("button") ?? stop);
  };
  const onKeyDown = (event) => {
    const move = MOVES[event.key];
    if (!move || event.altKey || event.ctrlKey || event.metaKey) return;
    const stops = stopsOf(around.current);
    const place = placeOf(stops, event.target);
    if (!place) return;
    // In the grid the arrow keys do not step through time.
    event.stopPropagation();
    event.preventDefault();
    const next = stops[place[0] + move[0]]?.[place[1] + move[1]];
    if (!next) return;
    next.tabIndex = 0;
    next.focus();
    next.scrollIntoView({ block: "nearest", inline: "nearest" });
  };
  return { ref: around, onFocus, onKeyDown };
}
