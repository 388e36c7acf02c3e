"use strict";
// Small conveniences; every page also works without them.

// Says in one line what went wrong and what to do; nothing takes the line away.
function notice(sentence) {
  const line = document.querySelector("#notice");
  if (line.textContent !== sentence) line.textContent = sentence;
}

async function fetchPage(address) {
  let answer;
  try {
    answer = await fetch(address);
  } catch {
    throw new Error(
      "The viewer does not answer, so this page may be out of date. Is krisis view still running " +
        "in its terminal? If not, start it and open the address that it prints.",
    );
  }
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  if (answer.ok) return page;
  const said = page.querySelector("main .warning")?.textContent;
  throw new Error("Not possible: " + (said || "the answer was " + answer.status));
}

// Does something that may fail; the reader is told, and told no more once it works again.
async function attempt(work) {
  try {
    const done = await work();
    notice("");
    return done;
  } catch (error) {
    notice(error.message);
    return undefined;
  }
}

async function swapFrom(address, selectors) {
  const fresh = await fetchPage(address);
  for (const selector of selectors) {
    const there = fresh.querySelector(selector);
    const here = document.querySelector(selector);
    if (there && here) morph(here, there);
  }
}

// Makes a part of the page like a fresh one, keeping every element that is still there: ticks,
// focus, open details and places of scrolling stay. Lines with data-key are found wherever they are.
function morph(here, there) {
  if (here.isEqualNode(there)) return;
  if (here.nodeName !== there.nodeName) {
    here.replaceWith(document.importNode(there, true));
    return;
  }
  if (here.nodeType !== Node.ELEMENT_NODE) {
    here.nodeValue = there.nodeValue;
    return;
  }
  const kept = (name) => name === "open" && here.nodeName === "DETAILS";
  for (const { name } of [...here.attributes])
    if (!there.hasAttribute(name) && !kept(name)) here.removeAttribute(name);
  for (const { name, value } of there.attributes)
    if (here.getAttribute(name) !== value && !kept(name)) here.setAttribute(name, value);
  const keyed = new Map();
  const wanted = new Set([...there.children].map((child) => child.dataset.key));
  for (const child of [...here.children]) {
    if (!child.dataset.key) continue;
    if (wanted.has(child.dataset.key)) keyed.set(child.dataset.key, child);
    else child.remove();
  }
  let place = here.firstChild;
  for (const child of [...there.childNodes]) {
    const known = keyed.get(child.dataset?.key);
    if (known && known !== place) here.insertBefore(known, place);
    const match = known || (place && !place.dataset?.key && !child.dataset?.key ? place : null);
    if (!match) {
      here.insertBefore(document.importNode(child, true), place);
      continue;
    }
    if (match === place) place = place.nextSibling;
    morph(match, child);
  }
  while (place) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
}

function stored(name, value, storage = "localStorage") {
  try {
    if (value === undefined) return window[storage].getItem(name);
    window[storage].setItem(name, value);
  } catch {} // storage is switched off: nothing is kept
  return null;
}

function theme() {
  const choice = document.querySelector("#theme");
  document.querySelector("#settings").hidden = false;
  choice.value = document.documentElement.dataset.theme || "system";
  choice.addEventListener("change", () => {
    stored("krisis-theme", choice.value);
    if (choice.value === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = choice.value;
  });
}

// The links that j and k go through: the first one of every line of a table or list of lines.
function lines() {
  const all = [...document.querySelectorAll("main tbody tr, main [data-line]")];
  return all.filter((line) => line.offsetParent !== null && line.querySelector("a[href]"));
}

function step(by) {
  const all = lines();
  if (!all.length) return;
  const at = all.findIndex((line) => line.contains(document.activeElement));
  const next = at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(Math.max(at + by, 0), all.length - 1);
  all[next].querySelector("a[href]").focus();
  all[next].scrollIntoView({ block: "nearest" });
}

function keyboard() {
  const list = document.querySelector("#keys");
  const on = document.querySelector("#keys-on");
  const inList = () => lines().find((line) => line.contains(document.activeElement));
  const follow = (selector) => document.querySelector(selector)?.click();
  on.checked = stored("krisis-keys") !== "off";
  on.addEventListener("change", () => stored("krisis-keys", on.checked ? "on" : "off"));
  document.querySelector("#show-keys").addEventListener("click", () => list.showModal());
  const themes = document.querySelector("#theme");
  const nextTheme = () => {
    themes.selectedIndex = (themes.selectedIndex + 1) % themes.options.length;
    themes.dispatchEvent(new Event("change"));
  };
  const acts = {
    "/": () => document.querySelector("main input[type=search]")?.focus(),
    "?": () => list.showModal(),
    j: () => step(1),
    k: () => step(-1),
    x: () => inList()?.querySelector("input[type=checkbox]")?.click(),
    n: () => follow("main a[rel=next]"),
    p: () => follow("main a[rel=prev]"),
    h: () => follow(".brand"),
    t: nextTheme,
  };
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input:not([type=checkbox]), select, textarea, [contenteditable]");
    if (typing || event.ctrlKey || event.metaKey || event.altKey || list.open) return;
    if ((event.key === "ArrowDown" || event.key === "ArrowUp") && inList()) {
      event.preventDefault();
      step(event.key === "ArrowDown" ? 1 : -1);
    } else if (on.checked && Object.hasOwn(acts, event.key)) {
      event.preventDefault();
      acts[event.key]();
    }
  });
}

function explorer() {
  const form = document.querySelector("form.filters[data-live]");
  if (!form) return;
  let timer = 0;
  let turn = 0;
  const refresh = () => attempt(async () => {
    const fields = [...new FormData(form)].filter(([, value]) => value !== "");
    const address = "?" + new URLSearchParams(fields);
    const mine = ++turn;
    const fresh = await fetchPage(address);
    const results = fresh.querySelector("#results");
    if (results && mine === turn) {
      document.querySelector("#results").replaceWith(document.importNode(results, true));
      history.replaceState(null, "", address);
    }
  });
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
  showCopy();
  const link = document.querySelector("#copy-link");
  link.hidden = !navigator.clipboard;
  link.addEventListener("click", async () => {
    const done = await navigator.clipboard.writeText(location.href).then(() => true, () => false);
    link.textContent = done ? "Link copied" : "Not allowed by the browser";
  });
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button[data-copy], button[data-copy-from]");
    if (!button) return;
    const text = button.dataset.copy ?? document.querySelector(button.dataset.copyFrom).textContent;
    const done = await navigator.clipboard.writeText(text).then(() => true, () => false);
    const said = button.parentElement.querySelector("[role=status]") || button;
    said.textContent = done ? "copied" : "not allowed by the browser; select the text and copy it";
  });
}

function showCopy() {
  for (const button of document.querySelectorAll("button[data-copy], button[data-copy-from]"))
    button.hidden = !navigator.clipboard;
}

function decide() {
  if (!document.querySelector("#decision")) return;
  const shown = ["#decision", "#explored", "#evidence"];
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
    timer = setTimeout(() => attempt(() => refresh(form)), 120);
  });
  document.addEventListener("submit", (event) => {
    const form = formOf(event);
    if (!form) return;
    event.preventDefault();
    clearTimeout(timer);
    attempt(() => refresh(form));
  });
}

// Asks again after a while, the next time only when the answer is there; not while nobody looks.
function every(milliseconds, work, isDue = () => true) {
  const again = async () => {
    const goesOn = document.hidden || !isDue() || (await attempt(work)) !== false;
    if (goesOn) setTimeout(again, milliseconds);
  };
  setTimeout(again, milliseconds);
}

// Home: filters act at once, and the runs that were ticked stay so whatever is shown.
function home() {
  const form = document.querySelector("#view");
  const choice = document.querySelector("#choice");
  const runs = document.querySelector("#runs");
  if (!runs) return;
  const chosen = new Set(JSON.parse(stored("krisis-chosen", undefined, "sessionStorage") || "[]"));
  const boxes = () => [...runs.querySelectorAll("input[name=run]")];
  // With one run ticked, the second is one click away.
  const offer = (box) => {
    const line = box.closest("[data-key]");
    line.querySelector(".with-it")?.remove();
    if (chosen.size !== 1 || box.checked) return;
    const link = document.createElement("a");
    const pair = [...chosen, box.value].map((name) => ["run", name]);
    Object.assign(link, { className: "with-it", href: "/compare?" + new URLSearchParams(pair) });
    link.textContent = "compare with the ticked run";
    line.querySelector("th, div").append(link);
  };
  const show = () => {
    if (!choice) return;
    const here = new Set(boxes().map((box) => box.value));
    for (const box of boxes()) {
      box.checked = chosen.has(box.value);
      box.disabled = chosen.size >= 6 && !box.checked;
      offer(box);
    }
    const elsewhere = [...chosen].filter((name) => !here.has(name));
    document.querySelector("#chosen-elsewhere").replaceChildren(
      ...elsewhere.map((name) => {
        const field = document.createElement("input");
        Object.assign(field, { type: "hidden", name: "run", value: name });
        return field;
      }),
    );
    const words = elsewhere.length ? ` (${elsewhere.length} not shown here)` : "";
    document.querySelector("#n-chosen").textContent = chosen.size
      ? `${chosen.size} chosen${words}; two to six can be compared.`
      : "Tick two to six runs to compare them.";
    choice.classList.toggle("has-some", chosen.size > 0);
    choice.querySelector("[type=submit]").disabled = chosen.size < 2;
    document.querySelector("#clear-choice").hidden = !chosen.size;
    stored("krisis-chosen", JSON.stringify([...chosen]), "sessionStorage");
  };
  runs.addEventListener("change", ({ target }) => {
    if (target.name !== "run") return;
    if (target.checked) chosen.add(target.value);
    else chosen.delete(target.value);
    show();
  });
  document.querySelector("#clear-choice")?.addEventListener("click", () => {
    chosen.clear();
    show();
  });
  show();
  let turn = 0;
  let timer = 0;
  const load = async (address) => {
    const mine = ++turn;
    const fresh = await fetchPage(address);
    if (mine !== turn) return;
    morph(runs, fresh.querySelector("#runs"));
    show();
    if (address !== location.href) history.replaceState(null, "", address);
  };
  const filter = () => {
    const fields = [...new FormData(form)].filter(([, value]) => value !== "");
    return attempt(() => load("/" + (fields.length ? "?" + new URLSearchParams(fields) : "")));
  };
  form?.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(filter, 200);
  });
  every(2000, () => load(location.href), () => runs.hasAttribute("data-live"));
}

function liveRun() {
  const panel = document.querySelector("#live");
  if (panel?.dataset.state !== "running") return;
  const address = location.pathname + "/progress";
  let drawn = panel.dataset.done;
  let wait = 0;
  every(2000, async () => {
    await swapFrom(address, ["#live"]);
    const { done, state } = document.querySelector("#live").dataset;
    const goesOn = state === "running";
    // A report takes a while to make: it is drawn again at most a tenth of the time.
    if (done !== drawn && (!goesOn || performance.now() > wait)) {
      const start = performance.now();
      await swapFrom(location.href, ["main"]);
      drawn = done;
      wait = performance.now() + Math.max(6000, 10 * (performance.now() - start));
    }
    return goesOn;
  });
}

// A run that is being indexed is shown as soon as it can be.
function waiting() {
  if (!document.querySelector("[data-waiting]")) return;
  every(2000, async () => {
    const fresh = await fetchPage(location.href);
    if (fresh.querySelector("[data-waiting]")) {
      morph(document.querySelector("main"), fresh.querySelector("main"));
      return true;
    }
    location.reload();
    return false;
  });
}

theme();
keyboard();
waiting();
explorer();
copying();
decide();
home();
liveRun();
