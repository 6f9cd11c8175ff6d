// What is shared by panels: saying things to screen readers, and hostile Markdown made harmless.

import { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { Token } from '@lumino/coreutils';

/** Says things to screen readers: one message in three seconds, never tokens, output or clocks. */
export interface IAnnouncer {
  /** Something happened: an answer is complete, a tool failed, resumed, reconnected. */
  polite(text: string): void;
  /** Something waits or is gone: a question, the sandbox. It goes before what waits to be said. */
  assertive(text: string): void;
}

export const IAnnouncer = new Token<IAnnouncer>(
  '@jupyter-reprise/lab:IAnnouncer',
  'Says things to screen readers, one at a time.'
);

/**
 * Renders what comes from models, skills, logs and files: always sanitised, never trusted, without
 * commands behind links; links open a page of their own that knows nothing of this one.
 */
export interface ISafeRendering {
  /** A registry of its own, to be given to OutputArea and the like. Models must be untrusted. */
  readonly rendermime: IRenderMimeRegistry;
}

export const ISafeRendering = new Token<ISafeRendering>(
  '@jupyter-reprise/lab:ISafeRendering',
  'Renders hostile Markdown and outputs without trusting them.'
);
