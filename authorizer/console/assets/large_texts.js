// Texts that are too large for sessionStorage, in IndexedDB, which all tabs of this address share.

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
