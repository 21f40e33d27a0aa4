// Forms marked `data-guard`: leaving one with unsaved changes is asked about; sending it is not.
function guard(form) {
  let isDirty = "dirty" in form.dataset;
  form.addEventListener("input", () => { isDirty = true; });
  form.addEventListener("submit", () => { isDirty = false; });
  window.addEventListener("beforeunload", (event) => {
    if (isDirty) event.preventDefault();
  });
}

for (const form of document.querySelectorAll("form[data-guard]")) guard(form);
const wrong = document.querySelector("form[data-guard] [aria-invalid=true]");
if (wrong) wrong.focus();
