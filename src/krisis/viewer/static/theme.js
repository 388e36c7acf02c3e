"use strict";
// Before anything is drawn, so that a page never flashes in the other light.
try {
  const chosen = localStorage.getItem("krisis-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {} // storage is switched off: the system decides
