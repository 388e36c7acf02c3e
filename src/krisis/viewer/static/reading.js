"use strict";
// One key per answer: 1 to 9 choose, a abstains; then the confidence has the focus.
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const at = event.target;
  if (at.matches("textarea, input:not([type=radio])")) return;
  const answers = [...document.querySelectorAll("input[name=answer]")];
  if (!answers.length) return;
  const last = answers.length - 1;
  const chosen = event.key === "a" ? answers[last] : answers.slice(0, last)[Number(event.key) - 1];
  if (!chosen || event.key === " ") return;
  event.preventDefault();
  chosen.checked = true;
  document.querySelector(chosen === answers[last] ? "button[type=submit]" : "#confidence").focus();
});
