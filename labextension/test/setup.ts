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
  Blob.prototype.arrayBuffer ??= function (this: Blob) {
    return new Promise((tell, fail) => {
      const reader = new FileReader();
      reader.onload = () => tell(reader.result as ArrayBuffer);
      reader.onerror = () => fail(reader.error ?? new Error('It could not be read.'));
      reader.readAsArrayBuffer(this);
    });
  };
  Element.prototype.scrollIntoView ??= () => undefined;
}
