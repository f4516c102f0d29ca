// Number of ACLs over time, as counted by Spark.

import { html } from "./htm-preact.js";
import { usePoll } from "./poll.js";
import { time as timeOf } from "./dates.js";
import { count, visible } from "./words.js";

const WIDTH = 600;
const HEIGHT = 80;

// A count is valid until the time of the next one.
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

function Counts({ counts, error }) {
  const title = html`<h2>ACLs over time, as counted by Spark</h2>`;
  if (error) return html`${title}<p class="error" role="alert">${visible(error)}</p>`;
  const { points, from, until } = counts;
  if (!points.length) {
    return html`${title}<p class="notice">${counts.files_left ? "Reading…" : "No counts of this log are stored yet."}</p>`;
  }
  const last = Math.max(until, points.at(-1)[0]);
  return html`${title}
    <figure class="counted">
      <${Chart} points=${points} from=${from} until=${last} />
      <figcaption>Known from ${timeOf(from)} to ${timeOf(last)}, by the times of the records;
        at the end ${count(points.at(-1)[1], "ACL")}${counts.files_left ? `; ${count(counts.files_left, "file")} left to read` : ""}</figcaption>
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

// The stored counts, or `fallback` if none are configured.
export function StoredCounts({ fallback }) {
  const [answer, pollError] = usePoll("console/v1/counts");
  const error = answer ? answer.error : pollError?.message;
  if (!answer && !error) return null;
  return answer?.kept || error ? html`<${Counts} counts=${answer?.kept} error=${error} />` : fallback;
}
