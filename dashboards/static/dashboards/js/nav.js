// Phones: the navigation slides in over the page. Menus close on Escape and on a click elsewhere.
const root = document.documentElement;
const opener = document.querySelector("[data-nav-open]");
const nav = document.getElementById("nav");
const scrim = document.querySelector("[data-nav-close]");

function setOpen(isOpen) {
  root.classList.toggle("nav-open", isOpen);
  opener.setAttribute("aria-expanded", String(isOpen));
  for (const part of document.querySelectorAll("[data-behind-nav]")) part.inert = isOpen;
  if (isOpen) nav.querySelector("a").focus();
}

function close() {
  if (!root.classList.contains("nav-open")) return false;
  setOpen(false);
  opener.focus();
  return true;
}

if (opener && nav && scrim) {
  opener.addEventListener("click", () => setOpen(true));
  scrim.addEventListener("click", close);
  window.matchMedia("(min-width: 701px)").addEventListener("change", () => setOpen(false));
}

function closeMenus(except) {
  for (const menu of document.querySelectorAll("details[data-menu][open]")) {
    if (menu !== except) menu.open = false;
  }
}

document.addEventListener("click", (event) => closeMenus(event.target.closest("details[data-menu]")));
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || close()) return;
  const menu = document.querySelector("details[data-menu][open]");
  if (menu) {
    menu.open = false;
    menu.querySelector("summary").focus();
  }
});
