// Input that is not sent yet: stored in this tab, for this node's address, so that a reload keeps it. Texts that
// are too large for sessionStorage are in IndexedDB, which all tabs of this address share.

import { useLayoutEffect, useMemo, useState } from "./htm-preact.js";

// Characters beyond which a text is in IndexedDB: sessionStorage holds some five million.
const SMALL = 1_000_000;
// The name of the key of a large text in sessionStorage, so that each tab has its own.
const LARGE = "aclog-large ";

// By name: the large texts, the keys that this page writes, the keys before it was loaded, and the last write.
const texts = new Map();
const keys = new Map();
const formerKeys = new Map();
const writes = new Map();

// Reads the large texts; before the first use of a draft.
export async function loadDrafts() {
  const items = Object.keys(sessionStorage).filter((item) => item.startsWith(LARGE));
  await Promise.all(items.map(async (item) => {
    const name = item.slice(LARGE.length);
    formerKeys.set(name, JSON.parse(sessionStorage.getItem(item)));
    texts.set(name, await readText(formerKeys.get(name)));
  }));
}

function stored(name) {
  try {
    return JSON.parse(sessionStorage.getItem(name) ?? texts.get(name) ?? null);
  } catch {
    return null;
  }
}

// Deletes the text from before a reload. A duplicated tab leaves it to the tab that it is a copy of.
async function deleteFormer(name) {
  const [navigation] = performance.getEntriesByType("navigation");
  const key = formerKeys.get(name);
  formerKeys.delete(name);
  if (key && navigation?.type === "reload") await deleteText(key);
}

async function storeLarge(name, text) {
  if (!keys.has(name)) keys.set(name, newKey());
  const write = {};
  writes.set(name, write);
  texts.set(name, text);
  await writeText(keys.get(name), text);
  if (writes.get(name) !== write) return;
  sessionStorage.setItem(LARGE + name, JSON.stringify(keys.get(name)));
  await deleteFormer(name);
}

async function dropLarge(name) {
  sessionStorage.removeItem(LARGE + name);
  writes.delete(name);
  texts.delete(name);
  const key = keys.get(name);
  keys.delete(name);
  if (key) await deleteText(key);
  await deleteFormer(name);
}

// As useState, for an object; and whether it is stored. `keptOf` selects the stored fields.
export function useDraft(name, initial, keptOf = (value) => value) {
  const key = `aclog-${name} ${location.pathname}`;
  const [value, setValue] = useState(() => ({ ...initial, ...stored(key) }));
  const [isStored, setStored] = useState(true);
  const text = useMemo(() => JSON.stringify(keptOf(value)), [value]);
  // Before the page is painted, so that what is shown is stored; a large text some time later.
  useLayoutEffect(() => {
    let isLatest = true;
    const failed = () => isLatest && setStored(false);
    try {
      // First, because a text beyond the browser's limit must not leave the one before it.
      sessionStorage.removeItem(key);
      setStored(true);
      if (text.length > SMALL) storeLarge(key, text).catch(failed);
      else {
        if (text !== JSON.stringify(keptOf(initial))) sessionStorage.setItem(key, text);
        dropLarge(key).catch(() => null);
      }
    } catch {
      failed();
    }
    return () => { isLatest = false; };
  }, [text]);
  return [value, setValue, isStored];
}

const NAME = "aclog-drafts";
const STORE = "texts";
// A tab that was closed leaves its texts; those that were not written for so long are deleted.
const KEPT_MS = 7 * 24 * 3600 * 1000;

// Completed when the request, or the transaction, is.
function completed(target) {
  return new Promise((resolve, reject) => {
    target.onsuccess = target.oncomplete = () => resolve(target.result);
    target.onerror = target.onabort = () => reject(target.error);
  });
}

let database = null;

function open() {
  database ??= (async () => {
    const request = indexedDB.open(NAME, 1);
    request.onupgradeneeded = () => request.result.createObjectStore(STORE);
    const found = await completed(request);
    const transaction = found.transaction(STORE, "readwrite");
    transaction.objectStore(STORE).delete(IDBKeyRange.upperBound([Date.now() - KEPT_MS]));
    await completed(transaction);
    return found;
  })();
  return database;
}

async function inStore(work) {
  const transaction = (await open()).transaction(STORE, "readwrite");
  work(transaction.objectStore(STORE));
  transaction.commit();
  await completed(transaction);
}

// A new key, which no other tab has.
export function newKey() {
  return [Date.now(), Math.random()];
}

export async function readText(key) {
  return completed((await open()).transaction(STORE).objectStore(STORE).get(key));
}

let writing = 0;

function warned(event) {
  event.preventDefault();
}

// While it writes, the browser asks before it leaves the page.
export async function writeText(key, text) {
  if (!writing) addEventListener("beforeunload", warned);
  writing += 1;
  try {
    await inStore((store) => store.put(text, key));
  } finally {
    writing -= 1;
    if (!writing) removeEventListener("beforeunload", warned);
  }
}

export function deleteText(key) {
  return inStore((store) => store.delete(key));
}
