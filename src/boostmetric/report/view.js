"use strict";
// Merge the two static pictures into one, whose points move from their positions before to those after.
(() => {
  const view = document.getElementById("view");
  if (!view) return;
  const data = JSON.parse(document.getElementById("view-data").textContent);
  const svg = view.querySelector("figure.before svg");
  const dots = Array.from(svg.querySelectorAll("circle"));
  const placesOf = (when) =>
    Array.from(view.querySelectorAll(`figure.${when} circle`), (dot) => [+dot.getAttribute("cx"), +dot.getAttribute("cy")]);
  const places = { before: placesOf("before"), after: placesOf("after") };
  const captions = {
    before: view.querySelector("figure.before figcaption").textContent,
    after: view.querySelector("figure.after figcaption").textContent,
  };
  const caption = view.querySelector("figure.before figcaption");
  const tip = document.getElementById("tip");
  let current = places.before.map((place) => place.slice());
  let frame = 0;
  let pressed = -1; // class chosen in the legend
  let pointed = -1; // point under the mouse, or chosen with the arrow keys

  view.classList.add("live");
  view.querySelector("fieldset").hidden = false;
  view.querySelector("figure.after").remove();
  svg.setAttribute("tabindex", "0");
  svg.setAttribute("aria-label", `${svg.getAttribute("aria-label")} Use the arrow keys to move from point to point.`);

  function draw() {
    dots.forEach((dot, i) => {
      dot.setAttribute("cx", current[i][0].toFixed(1));
      dot.setAttribute("cy", current[i][1].toFixed(1));
    });
    if (pointed >= 0) placeTip();
  }

  function show(when) {
    cancelAnimationFrame(frame);
    caption.textContent = captions[when];
    const from = current.map((place) => place.slice());
    const to = places[when];
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    const start = performance.now();
    view.dataset.moving = "yes";
    const step = (now) => {
      const t = still ? 1 : Math.min(1, Math.max(0, (now - start) / 900));
      const s = t * t * (3 - 2 * t);
      current = from.map(([x, y], i) => [x + s * (to[i][0] - x), y + s * (to[i][1] - y)]);
      draw();
      if (t < 1) frame = requestAnimationFrame(step);
      else delete view.dataset.moving;
    };
    frame = requestAnimationFrame(step);
  }

  // Highlight the points of one class: the one pressed in the legend, else that of the selected point.
  function light() {
    const many = data.classes.length > 1;
    const shown = pressed >= 0 ? pressed : many && pointed >= 0 ? data.labels[pointed] : -1;
    svg.classList.toggle("dimmed", shown >= 0);
    dots.forEach((dot, i) => {
      dot.classList.toggle("lit", shown >= 0 && data.labels[i] === shown);
      dot.classList.toggle("pointed", i === pointed);
    });
  }

  function placeTip() {
    const stage = tip.parentElement.getBoundingClientRect();
    const dot = dots[pointed].getBoundingClientRect();
    const x = dot.left + dot.width / 2 - stage.left;
    const left = Math.max(0, Math.min(x - tip.offsetWidth / 2, stage.width - tip.offsetWidth));
    const above = dot.top - stage.top - tip.offsetHeight - 8;
    tip.style.left = `${left}px`;
    tip.style.top = `${above >= 0 ? above : dot.bottom - stage.top + 8}px`;
  }

  function point(i) {
    if (i === pointed) return;
    pointed = i;
    tip.hidden = i < 0;
    if (i >= 0) {
      const name = document.createElement("b");
      name.textContent = data.ids[i];
      const label = document.createElement("span");
      label.textContent = data.classes[data.labels[i]];
      tip.replaceChildren(name, ...(label.textContent ? [label] : []));
      placeTip();
    }
    light();
  }

  function nearestTo(event) {
    const box = svg.getBoundingClientRect();
    const unit = svg.viewBox.baseVal.width / box.width;
    const x = (event.clientX - box.left) * unit;
    const y = (event.clientY - box.top) * unit;
    let best = -1;
    let least = (14 * unit) ** 2; // beyond this distance from every point, none is selected
    current.forEach(([a, b], i) => {
      const square = (a - x) ** 2 + (b - y) ** 2;
      if (square <= least && (pressed < 0 || data.labels[i] === pressed)) [best, least] = [i, square];
    });
    return best;
  }

  svg.addEventListener("pointermove", (event) => point(nearestTo(event)));
  svg.addEventListener("pointerdown", (event) => point(nearestTo(event)));
  svg.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && point(-1));
  svg.addEventListener("blur", () => point(-1));
  svg.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape") point(-1);
    if (!by) return;
    event.preventDefault();
    const allowed = dots.map((_, i) => i).filter((i) => pressed < 0 || data.labels[i] === pressed);
    const at = allowed.indexOf(pointed);
    point(allowed[at < 0 ? 0 : (at + by + allowed.length) % allowed.length]);
  });
  for (const radio of view.querySelectorAll("input[name=when]")) {
    radio.checked = radio.value === "before"; // some browsers restore an earlier choice when a page is reloaded
    radio.addEventListener("change", () => show(radio.value));
  }
  const buttons = Array.from(view.querySelectorAll(".legend button"));
  for (const button of buttons) {
    button.disabled = false;
    button.addEventListener("click", () => {
      const number = +button.dataset.class;
      pressed = pressed === number ? -1 : number;
      buttons.forEach((other) => other.setAttribute("aria-pressed", String(+other.dataset.class === pressed)));
      light();
    });
  }
})();
