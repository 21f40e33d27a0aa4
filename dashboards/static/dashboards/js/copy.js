// Buttons that copy: `data-copy` holds the text, or `data-copy-from` the id of what shows it.
const SHOWN_MS = 1600;

function textOf(button) {
  const source = button.dataset.copyFrom;
  return source ? document.getElementById(source).textContent.trim() : button.dataset.copy;
}

// Without a secure context there is no clipboard interface; a selection still can be copied.
function copyBySelection(text) {
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "vh";
  document.body.append(area);
  area.select();
  const isDone = document.execCommand("copy");
  area.remove();
  return isDone;
}

async function copy(text) {
  if (!navigator.clipboard) return copyBySelection(text);
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyBySelection(text);
  }
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy], [data-copy-from]");
  if (!button) return;
  const isDone = await copy(textOf(button));
  const said = document.getElementById("said");
  if (said) said.textContent = isDone ? "Copied" : "Not copied: the browser refused";
  button.classList.toggle("is-copied", isDone);
  button.focus();
  window.setTimeout(() => {
    button.classList.remove("is-copied");
    if (said) said.textContent = "";
  }, SHOWN_MS);
});
