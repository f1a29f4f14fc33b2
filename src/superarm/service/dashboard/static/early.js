// before anything is drawn: light or dark, as somebody chose before
const chosen = localStorage.getItem("theme");
if (chosen === "light" || chosen === "dark") {
  document.documentElement.dataset.theme = chosen;
}
