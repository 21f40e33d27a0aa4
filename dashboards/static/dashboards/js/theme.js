// The theme button: system, light, dark. The cookie lets the server write the choice into the page.
const ORDER = ["system", "light", "dark"];
const YEAR_S = 365 * 24 * 3600;
const root = document.documentElement;

function store(theme) {
  const secure = window.location.protocol === "https:" ? "; Secure" : "";
  document.cookie = `headworks_theme=${theme}; Path=/; Max-Age=${YEAR_S}; SameSite=Lax${secure}`;
}

function show(button) {
  const label = `Theme: ${root.dataset.theme}`;
  button.setAttribute("aria-label", label);
  button.title = label;
}

for (const button of document.querySelectorAll("[data-theme-toggle]")) {
  show(button);
  button.addEventListener("click", () => {
    root.dataset.theme = ORDER[(ORDER.indexOf(root.dataset.theme) + 1) % ORDER.length];
    store(root.dataset.theme);
    document.dispatchEvent(new CustomEvent("headworks:theme"));
    show(button);
  });
}
