// Native dialogs: `data-dialog` names the one a button opens, `data-dialog-close` closes its own.
document.addEventListener("click", (event) => {
  const opener = event.target.closest("[data-dialog]");
  if (opener) document.getElementById(opener.dataset.dialog).showModal();
  const closer = event.target.closest("[data-dialog-close]");
  if (closer) closer.closest("dialog").close();
});
