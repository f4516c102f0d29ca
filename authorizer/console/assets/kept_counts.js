// How many ACLs there were when, as Spark has counted them.

import { html } from "./htm-preact.js";
import { useAgain } from "./again.js";
import { count, time as timeOf, visible } from "./words.js";

const WIDTH = 600;
const HEIGHT = 80;

// A count holds from its time until the next one.
function Chart({ points, from, until }) {
  const most = Math.max(1, ...points.map(([, acls]) => acls));
  const x = (ms) => ((ms - from) / Math.max(1, until - from)) * WIDTH;
  const y = (acls) => HEIGHT - (Math.max(0, acls) / most) * (HEIGHT - 4);
  const steps = points.flatMap(([ms, acls], at) => [
    ...(at ? [`${x(ms)},${y(points[at - 1][1])}`] : []),
    `${x(ms)},${y(acls)}`,
  ]);
  const line = [...steps, `${x(until)},${y(points.at(-1)[1])}`].join(" ");
  return html`<svg viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} role="img" class="chart"
    aria-label=${`from ${timeOf(from)} to ${timeOf(until)}, at most ${count(most, "ACL")}; the table below has the numbers`}>
    <polyline points=${line} />
  </svg>`;
}

function Kept({ kept, refusal }) {
  const title = html`<h2>ACLs over time, as Spark has counted them</h2>`;
  if (refusal) return html`${title}<p class="error" role="alert">${visible(refusal)}</p>`;
  const { points, from, until } = kept;
  if (!points.length) {
    return html`${title}<p class="notice">${kept.files_left ? "Reading…" : "Nothing of this log has been counted yet."}</p>`;
  }
  const last = Math.max(until, points.at(-1)[0]);
  return html`${title}
    <figure class="counted">
      <${Chart} points=${points} from=${from} until=${last} />
      <figcaption>Known from ${timeOf(from)} to ${timeOf(last)}, by the times of the records;
        at the end ${count(points.at(-1)[1], "ACL")}${kept.files_left ? `; ${count(kept.files_left, "file")} still to be read` : ""}</figcaption>
    </figure>
    <details>
      <summary>As a table</summary>
      <div class="scroll" tabindex="0" role="region" aria-label="Counts">
        <table class="figures">
          <thead><tr><th scope="col">From</th><th scope="col">ACLs</th></tr></thead>
          <tbody>${points.map(([ms, acls]) => html`<tr><th scope="row">${timeOf(ms)}</th><td>${acls.toLocaleString("en")}</td></tr>`)}</tbody>
        </table>
      </div>
    </details>`;
}

// What is kept, and the moments of the log itself where nothing is.
export function KeptCounts({ otherwise }) {
  const [found, error] = useAgain("console/v1/counts");
  const refusal = found ? found.error : error?.message;
  if (!found && !refusal) return null;
  return found?.kept || refusal ? html`<${Kept} kept=${found?.kept} refusal=${refusal} />` : otherwise;
}
