// Runs before the first paint, so it is no module: with no choice stored, the theme is the system's.
(() => {
  const root = document.documentElement;
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const apply = () => {
    const chosen = root.dataset.theme;
    root.dataset.bsTheme = chosen === "system" ? (system.matches ? "dark" : "light") : chosen;
  };
  apply();
  system.addEventListener("change", apply);
  document.addEventListener("headworks:theme", apply);
})();
