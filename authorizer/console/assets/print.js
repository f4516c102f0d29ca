// Printing of a view: all lines of its lists are loaded first, up to a maximum, and then the browser prints.

import { createContext, html, useContext, useEffect, useLayoutEffect, useState } from "./htm-preact.js";

// Maximum number of printed lines of a list.
export const PRINTED_MAXIMUM = 5000;

// The print job in progress; null: none.
const Printing = createContext(null);
export const PrintProvider = Printing.Provider;

// Counts the lists that still load their lines; `done` is called when none does.
function newJob(hash, done, failed) {
  let waiting = 0;
  const finished = () => (waiting ? null : done());
  return {
    hash,
    failed,
    finished,
    begin: () => { waiting += 1; },
    end: () => { waiting -= 1; finished(); },
  };
}

// The job in progress, a function that begins one, and the error of the last one.
export function usePrint() {
  const [job, setJob] = useState(null);
  const [error, setError] = useState(null);
  const stop = () => setJob(null);
  const print = () => {
    const done = () => {
      addEventListener("afterprint", stop, { once: true });
      window.print();
    };
    setError(null);
    setJob(newJob(location.hash, done, (failure) => {
      setError(failure);
      stop();
    }));
  };
  // After the effects of the lists, which have begun to load.
  useEffect(() => job?.finished(), [job]);
  // A browser without the event after printing leaves the lines until the next step.
  useEffect(() => {
    if (job && job.hash !== location.hash) stop();
  });
  return [job, print, error];
}

export function useIsPrinting() {
  return useContext(Printing) !== null;
}

// The complete answer while the view is printed, which `load` returns; else the answer of the page.
export function usePrinted(answer, load) {
  const job = useContext(Printing);
  const [complete, setComplete] = useState(null);
  useLayoutEffect(() => {
    setComplete(null);
    if (job === null) return undefined;
    let isLeft = false;
    job.begin();
    load().then((found) => (isLeft ? null : setComplete(found)), (error) => (isLeft ? null : job.failed(error)));
    return () => { isLeft = true; };
  }, [job]);
  useEffect(() => {
    if (complete !== null) job?.end();
  }, [complete]);
  return job === null ? answer : complete ?? answer;
}

// The command that prints the shown state and period.
function reportCommand() {
  const shown = new URLSearchParams(location.hash.slice(1));
  const flags = [["--at-offset", "at"], ["--since", "since"]].flatMap(([flag, name]) => (shown.has(name) ? [`${flag} ${shown.get(name)}`] : []));
  return ["aclog report --log LOG", ...flags, "--format print --output FILE"].join(" ");
}

// A line on paper that says what is missing there.
export function PrintedPart({ printed, command = `${reportCommand()} has up to 20,000 lines, and --format csv all` }) {
  const button = useIsPrinting() ? "" : ` The button Print, or Ctrl+P, prints up to ${PRINTED_MAXIMUM.toLocaleString("en")} lines.`;
  return html`<span class="printed part">This page is not complete: it has ${printed}.${button} ${command}.</span>`;
}
