// When a message goes on from what a page shows, and when the document is read again.
const SPREAD_MS = 2000;

// Two buckets in common: the page's newest was still filling, and the one before may have been
// short of records under way. With fewer in common one of them would never be told whole.
export function overlaps(message, newest, bucketS) {
  return message.at.length > 0 && message.at[0] <= newest - bucketS;
}

// `before` is the last message, null after a document.
export function follows(message, before, newest, bucketS) {
  if (!overlaps(message, newest, bucketS)) return false;
  return before === null || (message.epoch === before.epoch && message.seq === before.seq + 1);
}

// What makes one page read again makes all of them: they come spread out. `chance` is below 1.
export function waitBeforeReadMs(chance) {
  return chance * SPREAD_MS;
}
