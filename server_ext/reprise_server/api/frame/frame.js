(() => {
  'use strict';
  const VIEW_MS = 600;
  const SMALLEST = { width: 230, height: 150 };
  const main = document.querySelector('main');
  const told = document.getElementById('told');
  const { decision, left } = main.dataset;
  const ends = performance.now() + Number(left);

  // Out of the document: nothing that reads it finds them.
  const nonces = new Map();
  for (const button of document.querySelectorAll('button[data-nonce]')) {
    nonces.set(button, button.dataset.nonce);
    button.removeAttribute('data-nonce');
  }

  let seenSince = Infinity; // since when all of it is in view, uncovered
  let focusedSince = Infinity;
  let keyUp = false; // whether a key was let go of since the focus came
  let pressed = false;
  let downAt = null; // the button that a pointer went down on when it counted
  const shownSince = new Map(); // parts that were opened

  const say = text => {
    told.textContent = text;
  };
  const now = () => performance.now();

  // Only Chromium can say whether something lies over it.
  const canTell = 'isVisible' in IntersectionObserverEntry.prototype;
  new IntersectionObserver(
    entries => {
      const entry = entries[entries.length - 1];
      const seen = entry.intersectionRatio >= 0.99 && (!canTell || entry.isVisible);
      if (!seen) {
        seenSince = Infinity;
      } else if (seenSince === Infinity) {
        seenSince = now();
      }
    },
    { threshold: [0, 0.5, 0.9, 0.99, 1], trackVisibility: true, delay: 100 }
  ).observe(main);
  document.addEventListener('visibilitychange', () => {
    if (seenSince !== Infinity) seenSince = now();
  });

  const inView = () =>
    document.visibilityState === 'visible' &&
    innerWidth >= SMALLEST.width &&
    innerHeight >= SMALLEST.height &&
    now() - seenSince >= VIEW_MS;

  const counts = button => {
    const part = button.closest('.more');
    return inView() && (part === null || now() - (shownSince.get(part) ?? Infinity) >= VIEW_MS);
  };

  window.addEventListener('focus', () => {
    keyUp = false;
    focusedSince = now();
  });
  window.addEventListener('blur', () => {
    keyUp = false;
    focusedSince = Infinity;
  });
  const activates = event => event.key === 'Enter' || event.key === ' ';
  const stop = event => {
    event.preventDefault();
    event.stopImmediatePropagation();
  };
  window.addEventListener(
    'keydown',
    event => {
      if (!activates(event) || !(event.target instanceof HTMLButtonElement)) return;
      if (!keyUp || event.repeat || now() - focusedSince < VIEW_MS) stop(event);
    },
    true
  );
  window.addEventListener(
    'keyup',
    event => {
      // The key that was held when the focus came presses nothing.
      if (!keyUp && activates(event) && event.target instanceof HTMLButtonElement) stop(event);
      keyUp = true;
    },
    true
  );
  window.addEventListener(
    'pointerdown',
    event => {
      const button = event.target instanceof Element ? event.target.closest('button') : null;
      downAt = button !== null && counts(button) ? button : null;
    },
    true
  );

  const end = text => {
    pressed = true;
    say(text);
    for (const button of document.querySelectorAll('button')) button.setAttribute('aria-disabled', 'true');
  };

  document.addEventListener('click', event => {
    const button = event.target instanceof Element ? event.target.closest('button') : null;
    if (button === null || !event.isTrusted || pressed) return;
    // A click of a pointer went down where it counted; one of a key or an aid has no pointer.
    if ((event.pointerType && downAt !== button) || !counts(button)) {
      say('That was too soon, or not all of this was in view. Nothing was decided. Press again.');
      return;
    }
    const opens = button.getAttribute('aria-controls');
    if (opens !== null) {
      for (const part of document.querySelectorAll('.more')) {
        const open = part.id === opens && part.hidden;
        part.hidden = !open;
        shownSince.set(part, open ? now() : Infinity);
        document.querySelector(`[aria-controls="${part.id}"]`).setAttribute('aria-expanded', String(open));
        if (open) part.querySelector('input, .scroll').focus();
      }
      size();
      return;
    }
    const nonce = nonces.get(button);
    if (nonce === undefined) return;
    nonces.clear();
    const reason = button.closest('.more')?.querySelector('input')?.value || null;
    parent.postMessage({ type: 'reprise-decision', decision, nonce, reason }, location.origin);
    end('Sent.');
  });

  const clock = document.getElementById('left');
  const tick = () => {
    if (pressed) return;
    const seconds = Math.max(0, Math.ceil((ends - now()) / 1000));
    clock.textContent = `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`;
    if (seconds === 0) end(main.dataset.ending);
    else setTimeout(tick, 1000);
  };
  tick();

  // How high it would be without scrolling, for the page that holds it.
  const size = () => {
    let height = 8;
    for (const part of main.children) {
      if (part.hidden) continue;
      height += part.offsetHeight + 8;
      const scroll = part.matches('.scroll') ? part : part.querySelector('.scroll');
      if (scroll) height += scroll.firstElementChild.offsetHeight + 2 - scroll.offsetHeight;
    }
    parent.postMessage({ type: 'reprise-decision-size', decision, height }, location.origin);
  };
  new ResizeObserver(size).observe(main);
})();
