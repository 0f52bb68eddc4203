"use strict";
// Questions one after the other. An answer is kept in the browser until the server has stored it; the page goes on only
// then, so nothing is lost by a reload, a lost connection or a restart of the server, and nothing is stored twice.
(() => {
  const $ = (id) => document.getElementById(id);
  const KEPT = `boostmetric-judge:${location.pathname}`; // what is not yet stored
  const KEYS = { triplet: ["←", "→"], odd: ["1", "2", "3"], choice: ["1", "2", "3", "4", "5", "6", "7", "8"] };
  const SIZES = { 2: "two", 3: "three", 8: "eight" };
  let mode = null;
  let waiting = []; // questions that are ready, the one shown first
  let last = null; // key of the last answer, which can be undone
  let alone = true;
  let picked = new Set();
  let since = 0; // when the question was shown
  let busy = false;
  let ended = false;
  let shown = null; // number of the question that is shown

  function element(name, properties = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(properties)) {
      if (key in made) made[key] = value;
      else made.setAttribute(key, value);
    }
    made.append(...children);
    return made;
  }

  const percent = (share) => `${Math.round(100 * share)} %`;
  const points = (share) => `${share > 0 ? "+" : share < 0 ? "−" : "±"}${Math.abs(Math.round(1000 * share) / 10)}`;

  async function send(path, body) {
    const options = body === undefined ? {} : { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
    const response = await fetch(path, { ...options, cache: "no-store", signal: AbortSignal.timeout(60000) });
    let answer = {};
    try {
      answer = await response.json();
    } catch {
      answer = { error: "The server's answer cannot be read." };
    }
    return { status: response.status, answer };
  }

  const pause = (ms) => new Promise((done) => setTimeout(done, ms));

  // Try until the server answers; what it refuses is an answer too.
  async function insist(path, body) {
    for (let wait = 300; ; wait = Math.min(2 * wait, 4000)) {
      try {
        const { status, answer } = await send(path, body);
        if (status !== 429 && status < 500) {
          note("");
          return { status, answer };
        }
      } catch {
        // no connection
      }
      note(body ? "Not saved yet: no connection. Trying again…" : "No connection. Trying again…", true);
      await pause(wait);
    }
  }

  function note(text, isWaiting = false) {
    $("saved").textContent = text;
    $("saved").classList.toggle("waiting", isWaiting);
  }

  function complain(text) {
    $("message").textContent = text;
    $("message").hidden = !text;
  }

  // Pictures are loaded and decoded before their question is shown, so that nothing flickers.
  const pictures = new Map();
  function ready(question) {
    return Promise.all(question.objects.map((object) => object.picture && loaded(object.picture)));
  }
  function loaded(source) {
    if (!pictures.has(source)) {
      const image = element("img", { src: source, alt: "", draggable: false });
      pictures.set(source, image.decode().catch(() => undefined).then(() => image));
      if (pictures.size > 200) pictures.delete(pictures.keys().next().value);
    }
    return pictures.get(source);
  }

  async function card(object, key) {
    const parts = [];
    if (object.picture) {
      const image = (await loaded(object.picture)).cloneNode();
      image.alt = object.text ?? String(object.id);
      await image.decode().catch(() => undefined);
      parts.push(element("span", { className: "frame" }, image));
    }
    if (object.text !== null) parts.push(element("p", { className: "words", dir: "auto" }, object.text));
    const kind = object.picture ? "card" : "card bare";
    if (key === undefined) return element("div", { className: kind }, ...parts);
    const button = element("button", { type: "button", className: kind, "aria-keyshortcuts": key }, ...parts);
    button.append(element("kbd", { className: "key", "aria-hidden": "true" }, key));
    if (mode.chosen > 1) button.setAttribute("aria-pressed", "false");
    return button;
  }

  async function show() {
    const question = waiting[0];
    if (ended || !question || question.number === shown) return;
    await ready(question);
    const objects = question.objects.slice(mode.head ? 1 : 0);
    const options = await Promise.all(objects.map((object, i) => card(object, KEYS[mode.name][i])));
    const head = mode.head ? [await card(question.objects[0])] : [];
    if (question !== waiting[0]) return;
    options.forEach((option, i) => option.addEventListener("click", () => choose(i)));
    picked = new Set();
    const hadFocus = $("options").contains(document.activeElement);
    $("head").replaceChildren(...head);
    $("options").replaceChildren(...options);
    if (hadFocus) options[0].focus({ preventScroll: true });
    $("question").className = SIZES[mode.options] + (question.objects[0].picture ? "" : " texts");
    $("question").hidden = $("actions").hidden = false;
    $("text").textContent = mode.text;
    $("undo").disabled = !last;
    shown = question.number;
    since = performance.now();
    waiting.slice(1).forEach(ready);
  }

  function choose(i) {
    if (busy || ended || !waiting.length || waiting[0].number !== shown || $("sure").open) return;
    const button = $("options").children[i];
    if (!button) return;
    if (mode.chosen === 1) {
      picked = new Set([i]);
    } else {
      if (picked.has(i)) picked.delete(i);
      else picked.add(i);
      button.setAttribute("aria-pressed", String(picked.has(i)));
    }
    if (picked.size === mode.chosen) answer([...picked]);
  }

  function answer(options) {
    if (busy || ended || !waiting.length || waiting[0].number !== shown) return;
    const objects = waiting[0].objects.slice(mode.head ? 1 : 0);
    const random = crypto.getRandomValues(new Uint32Array(4));
    const given = {
      question: shown,
      chosen: options.map((i) => objects[i].id),
      seconds: Math.max(0, (performance.now() - since) / 1000),
      key: Array.from(random, (number) => number.toString(36)).join("-"),
    };
    keep({ path: "answer", body: given });
  }

  function undo() {
    if (busy || ended || !last) return;
    if (picked.size) {
      picked.clear();
      for (const option of $("options").children) option.setAttribute("aria-pressed", "false");
      return;
    }
    keep({ path: "undo", body: { key: last } });
  }

  async function keep(request) {
    busy = true;
    document.body.classList.add("waiting");
    try {
      localStorage.setItem(KEPT, JSON.stringify(request));
    } catch {
      // without storage, a reload at this moment asks the question again
    }
    const { status, answer: state } = await insist(request.path, request.body);
    try {
      localStorage.removeItem(KEPT);
    } catch {
      // see above
    }
    complain(status === 200 ? "" : state.error);
    try {
      await take(state.questions ? state : (await insist("state")).answer);
    } finally {
      busy = false;
      document.body.classList.remove("waiting");
    }
  }

  async function take(state) {
    waiting = state.questions;
    last = state.last;
    told(state);
    if (state.finished) return end(state.finished);
    if (shown !== null && (!waiting[0] || waiting[0].number !== shown)) shown = null;
    await show();
    $("undo").disabled = !last;
  }

  function fact(term, value, small = "", below = "", track = null) {
    const dd = element("dd", {}, value);
    if (small) dd.append(" ", element("small", {}, small));
    const row = element("div", {}, element("dt", {}, term), dd);
    if (track) row.append(track);
    if (below) row.append(element("p", { className: "note" }, below));
    return row;
  }

  function svg(name, attributes, ...children) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }

  // A share with its interval, on a line from 40 to 100 per cent.
  function track(measured, kind) {
    const x = (share) => 200 * Math.min(1, Math.max(0, (share - 0.4) / 0.6));
    const line = (className, from, to) => svg("line", { class: className, x1: x(from), x2: x(to), y1: 7, y2: 7 });
    const drawn = svg("svg", { viewBox: "0 0 200 14", preserveAspectRatio: "none", "aria-hidden": "true" });
    drawn.append(line("rail", 0.4, 1), line("range", measured.low, measured.high), svg("circle", { class: "dot", cx: x(measured.mean), cy: 7, r: 5 }));
    return element("div", { className: `track ${kind}` }, drawn);
  }

  function curve(lesson) {
    const places = lesson.curve;
    $("curve").hidden = places.length < 2;
    if (places.length < 2) return;
    const shares = [...places.map((place) => place.agreement), lesson.base.mean];
    const top = lesson.ceiling && lesson.ceiling.n >= 5 ? lesson.ceiling.mean : null;
    if (top !== null) shares.push(top);
    const low = Math.floor(10 * Math.min(...shares) - 0.2) / 10;
    const high = Math.min(1, Math.ceil(10 * Math.max(...shares) + 0.2) / 10);
    const [left, right, above, below] = [34, 290, 8, 118];
    const [first, final] = [places[0].n, places[places.length - 1].n];
    const x = (n) => left + ((n - first) / Math.max(1, final - first)) * (right - left);
    const y = (share) => below - ((share - low) / (high - low)) * (below - above);
    const drawn = svg("svg", { viewBox: "0 0 300 138", role: "img" });
    for (const share of [low, (low + high) / 2, high]) {
      drawn.append(svg("line", { class: "grid", x1: left, x2: right, y1: y(share), y2: y(share) }));
      drawn.append(svg("text", { x: left - 6, y: y(share) + 4, "text-anchor": "end" }, `${Math.round(100 * share)}`));
    }
    drawn.append(svg("line", { class: "base", x1: left, x2: right, y1: y(lesson.base.mean), y2: y(lesson.base.mean) }));
    if (top !== null) drawn.append(svg("line", { class: "top", x1: left, x2: right, y1: y(top), y2: y(top) }));
    drawn.append(svg("polyline", { class: "line", points: places.map((place) => `${x(place.n)},${y(place.agreement)}`).join(" ") }));
    const end = places[places.length - 1];
    drawn.append(svg("circle", { class: "last", cx: x(end.n), cy: y(end.agreement), r: 4 }));
    for (const [n, anchor] of [[first, "start"], [final, "end"]]) drawn.append(svg("text", { x: x(n), y: 134, "text-anchor": anchor }, `${n}`));
    const words = `Agreement in per cent, after ${first} to ${final} answers. Dashed: the base${top === null ? "" : "; dotted: the ceiling"}.`;
    drawn.setAttribute("aria-label", `${words} It goes from ${percent(places[0].agreement)} to ${percent(end.agreement)}.`);
    $("curve").replaceChildren(drawn, element("figcaption", {}, words));
  }

  function told({ progress, lesson }) {
    const pace = progress.seconds ? ` · ${progress.seconds.toFixed(1)} s each` : "";
    $("pace").textContent = `${progress.answers} ${progress.answers === 1 ? "answer" : "answers"}${pace}`;
    const scores = [];
    const facts = [];
    if (!lesson || !lesson.learned) {
      const left = lesson ? Math.max(0, 10 - lesson.n_learned) : 10;
      $("verdict").textContent = left ? `Learning begins after ${left} more ${left === 1 ? "answer" : "answers"}.` : "Learning. A fifth of the questions is for testing.";
    } else {
      $("verdict").textContent = lesson.n_iter
        ? `Tested on ${lesson.n_held_out} ${lesson.n_held_out === 1 ? "answer" : "answers"} that were never learned from.`
        : "Keeping the base: so far, nothing learned does clearly better.";
      const range = (measured) => `${Math.round(100 * measured.low)} to ${Math.round(100 * measured.high)}`;
      scores.push(fact("Learned", percent(lesson.learned.mean), range(lesson.learned), "", track(lesson.learned, "")));
      scores.push(fact("Base", percent(lesson.base.mean), range(lesson.base), "", track(lesson.base, "base")));
      if (lesson.n_iter) scores.push(fact("Difference", points(lesson.difference.mean), `${points(lesson.difference.low)} to ${points(lesson.difference.high)}`));
      curve(lesson);
    }
    $("enough").hidden = !(lesson && lesson.enough);
    if (lesson && lesson.enough) {
      const gain = lesson.gain_of_doubling;
      $("enough").textContent = `Enough: the curve is flat. The second half of the answers brought ${points(gain.mean)} points (at most ${points(gain.high)}).`;
    }
    if (lesson && lesson.consistency) {
      const { consistency, ceiling } = lesson;
      facts.push(fact("Same answer again", percent(consistency.mean), `of ${consistency.n} repeated`, consistency.n < 5 ? "" : `Ceiling for any metric: about ${percent(ceiling.mean)} (${Math.round(100 * ceiling.low)} to ${Math.round(100 * ceiling.high)}).`));
    }
    const halves = lesson && lesson.halves;
    if (halves && halves.difference) {
      const { mean, low, high } = halves.difference;
      const verdict = !halves.on ? "The committee asks no more: it taught less." : low > 0 ? "The committee's questions teach more." : "No clear difference so far.";
      facts.push(fact("Committee, not random", points(mean), `${points(low)} to ${points(high)}`, `${verdict} Points of agreement, from ${halves.n} questions each.`));
    }
    $("scores").replaceChildren(...scores);
    $("facts").replaceChildren(...facts);
  }

  function end(finished) {
    ended = true;
    $("question").hidden = $("actions").hidden = true;
    $("finish").hidden = true;
    $("text").textContent = "Thank you";
    const parts = [element("p", {}, finished.text)];
    if (finished.commands) parts.push(element("p", {}, "Next:"), element("pre", {}, finished.commands.join("\n")));
    $("ended").replaceChildren(...parts);
    $("ended").hidden = false;
    note("");
  }

  $("undo").addEventListener("click", undo);
  $("skip").addEventListener("click", () => answer([]));
  $("finish").addEventListener("click", () => {
    $("sure-text").textContent = alone
      ? "The model is learned from all answers and written. With --force, the same command can go on later."
      : "Your answers are complete then. You can come back as long as others are still answering.";
    $("sure").showModal();
  });
  $("back").addEventListener("click", () => $("sure").close());
  $("really").addEventListener("click", async () => {
    $("sure").close();
    if (busy) return;
    busy = true;
    complain("");
    $("text").textContent = "Learning from all answers…";
    $("question").hidden = $("actions").hidden = true;
    const { status, answer: state } = await insist("finish", {});
    busy = false;
    if (status === 200) return end(state);
    complain(state.error);
    $("text").textContent = mode.text;
    $("question").hidden = $("actions").hidden = false;
  });
  addEventListener("keydown", (event) => {
    if (event.repeat || event.ctrlKey || event.metaKey || event.altKey || ended || !mode || $("sure").open) return;
    if (event.target instanceof HTMLButtonElement && (event.key === "Enter" || (event.key === " " && !$("options").contains(event.target)))) return;
    const key = { ArrowLeft: "←", ArrowRight: "→" }[event.key] ?? event.key;
    const keys = KEYS[mode.name];
    if (keys.includes(key)) choose(keys.indexOf(key));
    else if (key === " ") answer([]);
    else if (key === "u" || key === "U") undo();
    else return;
    event.preventDefault();
  });
  // A space that answered must not also press the button that has the focus.
  addEventListener("keyup", (event) => event.key === " " && $("options").contains(event.target) && event.preventDefault());

  async function begin() {
    const { status, answer: state } = await insist("begin");
    if (status !== 200) {
      $("text").textContent = "This link does not work";
      return complain(state.error);
    }
    mode = state.mode;
    alone = state.alone;
    $("who").textContent = state.judge;
    document.title = mode.text;
    if (!alone) $("finish").textContent = "I am done";
    let kept = null;
    try {
      kept = JSON.parse(localStorage.getItem(KEPT));
    } catch {
      // without storage, nothing was kept
    }
    if (kept && kept.path && kept.body) await keep(kept);
    else await take(state);
    // Lessons come while nobody answers, too.
    for (;;) {
      await pause(2500);
      if (ended) return;
      if (busy || document.hidden) continue;
      try {
        const { status, answer: now } = await send("state");
        if (status === 200 && !busy) {
          if (now.finished) end(now.finished);
          else told(now);
          note("");
        }
      } catch {
        note("No connection. Answers wait until it is back.", true);
      }
    }
  }
  begin();
})();
