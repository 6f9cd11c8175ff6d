// Names of files to their last character: what cannot be seen, or turns the reading direction, is written out.

import { DirListing } from '@jupyterlab/filebrowser';

import { exact } from '../parts/words';

/** JupyterLab's own rows; only the words in them are exact. */
export class ExactNames extends DirListing.Renderer {
  override updateItemNode(...args: Parameters<DirListing.Renderer['updateItemNode']>): void {
    super.updateItemNode(...args);
    const [node, model] = args;
    const shown = exact(model.name);
    if (shown !== model.name) {
      const text = node.querySelector('.jp-DirListing-itemText');
      const name = text?.querySelector('span') ?? text;
      if (name) {
        name.textContent = shown;
      }
      node.title = exact(node.title);
    }
  }
}
