// What jsdom lacks and JupyterLab's widgets ask for.

import { vi } from 'vitest';

class Observer {
  observe(): void {}
  unobserve(): void {}
  disconnect(): void {}
  takeRecords(): [] {
    return [];
  }
}

// Services are tried in Node alone: `// @vitest-environment node`.
if (typeof window !== 'undefined') {
  vi.stubGlobal('ResizeObserver', globalThis.ResizeObserver ?? Observer);
  vi.stubGlobal('IntersectionObserver', globalThis.IntersectionObserver ?? Observer);
  window.matchMedia ??= (query: string) =>
    ({
      matches: false,
      media: query,
      addEventListener: () => undefined,
      removeEventListener: () => undefined,
      // FAST, of JupyterLab's toolbars, still has these.
      addListener: () => undefined,
      removeListener: () => undefined
    }) as unknown as MediaQueryList;
  window.DragEvent ??= class DragEvent extends MouseEvent {} as typeof window.DragEvent;
  window.requestIdleCallback ??= act =>
    Number(setTimeout(act, 0, { didTimeout: false, timeRemaining: () => 50 }));
  Element.prototype.scrollIntoView ??= () => undefined;
}
