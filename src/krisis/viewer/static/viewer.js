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
    const answer = await fetch(address).catch(() => null);
    if (mine !== turn) return;
    const text = answer ? await answer.text() : "";
    const fresh = new DOMParser().parseFromString(text, "text/html");
    const results = fresh.querySelector("#results");
    if (mine !== turn) return;
    if (results) {
      document.querySelector("#results").replaceWith(document.importNode(results, true));
      history.replaceState(null, "", address);
      return;
    }
    const said = fresh.querySelector("main p");
    const words = said ? said.textContent : "the viewer does not answer; is it still running?";
    document.querySelector("#results [role=status]").textContent = words;
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

function copying() {
  for (const button of document.querySelectorAll("button[data-copy]")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      const source = document.querySelector(button.dataset.copy);
      const said = button.parentElement.querySelector("[role=status]");
      const done = await navigator.clipboard.writeText(source.textContent).then(() => true, () => false);
      said.textContent = done ? "copied" : "not allowed by the browser; select the text and copy it";
    });
  }
}

function percent(value) {
  return value === null ? "–" : (value * 100).toFixed(1) + " %";
}

function slider() {
  const input = document.querySelector("#coverage");
  if (!input) return;
  const drawing = document.querySelector("#curve");
  const top = Number(drawing.dataset.top);
  let turn = 0;
  const show = (point) => {
    const x = point.coverage * 600;
    for (const [name, key] of [["selective", "selective_risk"], ["generalized", "generalized_risk"]]) {
      const dot = drawing.querySelector(".dot." + name);
      dot.setAttribute("cx", x);
      dot.setAttribute("cy", 300 - (point[key] / top) * 300);
    }
    const marker = drawing.querySelector(".marker");
    marker.setAttribute("x1", x);
    marker.setAttribute("x2", x);
  };
  const refresh = async () => {
    const mine = ++turn;
    const address = "?coverage=" + input.value;
    input.setAttribute("aria-valuetext", percent(Number(input.value)));
    const facts = await fetchJson(location.pathname + ".json" + address);
    if (mine !== turn || !facts.point) return;
    show(facts.point);
    for (const field of document.querySelectorAll("[data-point]")) {
      const value = facts.point[field.dataset.point];
      field.textContent = field.dataset.as === "percent" ? percent(value) : value.toLocaleString("en");
    }
    if (mine === turn) await swapFrom(address, ["#deferred"]);
    history.replaceState(null, "", address);
  };
  let timer = 0;
  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(refresh, 60);
  });
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
copying();
slider();
liveRuns();
liveRun();
