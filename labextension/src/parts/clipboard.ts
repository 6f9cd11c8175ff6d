// What is copied: by the browser's clipboard, and by JupyterLab's way where a page has none (plain HTTP).

import { Clipboard } from '@jupyterlab/apputils';

/** Put a text into the clipboard; to be called as a person presses something. */
export async function copyText(text: string): Promise<void> {
  const { clipboard } = navigator as { clipboard?: { writeText(text: string): Promise<void> } };
  try {
    if (clipboard !== undefined) {
      await clipboard.writeText(text);
      return;
    }
  } catch {
    // A policy of the page's forbids it, or the press is too long ago.
  }
  Clipboard.copyToSystem(text);
}
