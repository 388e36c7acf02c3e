"use strict";
// Small conveniences; every page also works without them.

async function fetchJson(address) {
  const answer = await fetch(address, { headers: { accept: "application/json" } });
  if (!answer.ok) throw new Error(answer.status);
  return answer.json();
}

async function swapFrom(address, selectors) {
  const answer = await fetch(address);
  if (!answer.ok) return false;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const selector of selectors) {
    const there = fresh.querySelector(selector);
    const here = document.querySelector(selector);
    if (there && here) here.replaceWith(document.importNode(there, true));
  }
  return true;
}

function explorer() {
  const form = document.querySelector("form.filters[data-live]");
  if (!form) return;
  let timer = 0;
  let turn = 0;
  const refresh = async () => {
    const fields = [...new FormData(form)].filter(([, value]) => value !== "");
    const address = "?" + new URLSearchParams(fields);
    const mine = ++turn;
    const answer = await fetch(address);
    if (mine !== turn || !answer.ok) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    const results = fresh.querySelector("#results");
    if (results && mine === turn) {
      document.querySelector("#results").replaceWith(document.importNode(results, true));
      history.replaceState(null, "", address);
    }
  };
  form.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(refresh, 200);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    refresh();
  });
}

function decide() {
  if (!document.querySelector("#decision")) return;
  const shown = ["#decision", "#evidence"];
  let timer = 0;
  let turn = 0;
  const refresh = async (form) => {
    const fields = [...new FormData(form)].filter(([, value]) => value !== "");
    const address = location.pathname + "?" + new URLSearchParams(fields);
    const mine = ++turn;
    const answer = await fetch(address);
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (mine !== turn) return;
    if (!answer.ok) {
      const words = fresh.querySelector(".warning, main p") || document.createElement("p");
      document.querySelector("#decision").replaceChildren(document.importNode(words, true));
      return;
    }
    // The form in use keeps what is being typed; the others take the new state of the address.
    for (const other of fresh.querySelectorAll("form[data-decide]")) {
      if (other.id !== form.id) shown.includes("#" + other.id) || shown.push("#" + other.id);
    }
    for (const selector of shown.filter((one) => one !== "#" + form.id)) {
      const there = fresh.querySelector(selector);
      const here = document.querySelector(selector);
      if (there && here) here.replaceWith(document.importNode(there, true));
    }
    if (form.id === "slide") {
      const slider = form.querySelector("#slider");
      slider.setAttribute("aria-valuetext", slider.value + " %");
    }
    showCopy();
    history.replaceState(null, "", address);
  };
  const formOf = (event) => event.target.closest("form[data-decide]");
  document.addEventListener("input", (event) => {
    const form = formOf(event);
    if (!form) return;
    clearTimeout(timer);
    timer = setTimeout(() => refresh(form), 120);
  });
  document.addEventListener("submit", (event) => {
    const form = formOf(event);
    if (!form) return;
    event.preventDefault();
    clearTimeout(timer);
    refresh(form);
  });
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button[data-copy]");
    if (!button) return;
    await navigator.clipboard.writeText(button.dataset.copy);
    button.textContent = "copied";
  });
  showCopy();
}

function showCopy() {
  for (const button of document.querySelectorAll("button[data-copy]")) {
    button.hidden = !navigator.clipboard;
  }
}

function liveRuns() {
  const table = document.querySelector("#runs[data-live]");
  if (!table) return;
  setInterval(() => document.hidden || swapFrom("/", ["#runs"]), 2000);
}

function liveRun() {
  const banner = document.querySelector("#live");
  if (!banner) return;
  let seen = Number(banner.dataset.done);
  const timer = setInterval(async () => {
    if (document.hidden) return;
    const progress = await fetchJson(location.pathname + "/progress.json");
    document.querySelector("#live progress").value = progress.n_done;
    document.querySelector("#live-done").textContent = progress.n_done.toLocaleString("en");
    if (progress.n_done !== seen || progress.state === "ended") {
      seen = progress.n_done;
      await swapFrom(location.pathname, ["main"]);
    }
    if (progress.state === "ended") clearInterval(timer);
  }, 3000);
}

explorer();
decide();
liveRuns();
liveRun();
