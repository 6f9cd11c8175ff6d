// Tells screen readers how far a verify is, in quarters, and how it ended.

import type { TranslationBundle } from '@jupyterlab/translation';

import { IAnnouncer } from '../parts/tokens';
import { IVerification } from './tokens';

export function announced(
  verification: IVerification,
  announcer: IAnnouncer,
  trans: TranslationBundle
): void {
  let before = verification.state;
  let quarter = 0;
  verification.changed.connect(() => {
    const { state, progress, head } = verification;
    if (state === 'running' && progress.total !== null && progress.total >= 8) {
      const now = Math.floor((4 * (progress.done ?? 0)) / progress.total);
      if (now > quarter && now < 4) {
        quarter = now;
        announcer.polite(trans.__('Verify: %1 %', now * 25));
      }
    }
    if (state === before) {
      return;
    }
    // What was there already when the tab was opened is no news.
    const went = ['queued', 'running', 'stopping'].includes(before);
    before = state;
    if (state === 'queued') {
      quarter = 0;
    } else if (state === 'done' && went && head !== null) {
      announcer.polite(trans.__('Verified. %1', head.sentence));
    } else if (state === 'failed' && went) {
      announcer.polite(trans.__('Verify failed. %1', verification.failure?.message ?? ''));
    } else if (state === 'stopped' && went) {
      announcer.polite(trans.__('Verify stopped.'));
    } else if (state === 'lost') {
      announcer.polite(trans.__('The verify report is gone: the server has restarted.'));
    }
  });
}
