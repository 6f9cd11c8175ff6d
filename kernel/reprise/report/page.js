"use strict";
(() => {
  document.documentElement.classList.add("live");
  const steps = [...document.querySelectorAll("details.step")];
  const buttons = [...document.querySelectorAll("button[data-show]")];
  const hidden = new Set();

  function apply() {
    for (const button of buttons) {
      button.setAttribute("aria-pressed", String(!hidden.has(button.dataset.show)));
    }
    for (const step of steps) step.hidden = hidden.has(step.dataset.verdict);
  }

  for (const button of buttons) {
    button.addEventListener("click", () => {
      const name = button.dataset.show;
      if (!hidden.delete(name)) hidden.add(name);
      apply();
    });
  }

  function at() {
    const inside = document.activeElement && document.activeElement.closest("details.step");
    if (inside) return steps.indexOf(inside);
    // Nothing is chosen yet: begin with what is seen first.
    return steps.findIndex((step) => step.getBoundingClientRect().bottom > 0) - 1;
  }

  function go(from, by, fits) {
    for (let next = from + by; next >= 0 && next < steps.length; next += by) {
      if (!steps[next].hidden && fits(steps[next])) {
        const summary = steps[next].querySelector("summary");
        summary.focus({ preventScroll: true });
        summary.scrollIntoView({ block: "start" });
        return;
      }
    }
  }

  const wrong = (step) => ["different", "could-not-run"].includes(step.dataset.verdict);
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "j") go(at(), 1, () => true);
    else if (event.key === "k") go(at(), -1, () => true);
    else if (event.key === "n") go(at(), 1, wrong);
    else if (event.key === "o") {
      const step = steps[at()];
      if (step) step.open = !step.open;
    } else if (event.key === "0") {
      hidden.clear();
      apply();
    } else return;
    event.preventDefault();
  });

  function reveal() {
    const step = document.getElementById(location.hash.slice(1));
    if (!step || !step.matches("details.step")) return;
    hidden.delete(step.dataset.verdict);
    apply();
    step.open = true;
    const summary = step.querySelector("summary");
    summary.focus({ preventScroll: true });
    summary.scrollIntoView({ block: "start" });
  }
  addEventListener("hashchange", reveal);
  reveal();
})();
