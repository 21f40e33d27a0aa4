// A page with a secret: loading it again leads to the object, never to the secret or a second one.
const shown = document.querySelector("[data-shown-once]");
if (shown) window.history.replaceState(null, "", shown.dataset.shownOnce);
