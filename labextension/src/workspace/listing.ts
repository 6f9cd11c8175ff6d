// JupyterLab's list of files, with names to their last character, and deleting told as the step that it is.

import { showErrorMessage } from '@jupyterlab/apputils';
import { DirListing } from '@jupyterlab/filebrowser';

import { confirmed } from '../parts/confirm';
import { exact } from '../parts/words';

/** JupyterLab's own asks whether to move to a trash, where its server has one; a workspace has a history. */
export class WorkspaceListing extends DirListing {
  override async delete(): Promise<void> {
    const items = [...this.selectedItems()];
    const [first] = items;
    if (first === undefined) {
      return;
    }
    const { manager } = this.model;
    const trans = this.translator.load('reprise');
    const asked = {
      title: trans.__('Delete'),
      body: `${
        items.length === 1
          ? trans.__('Delete “%1” from the workspace?', exact(first.name))
          : trans.__('Delete these %1 from the workspace?', items.length)
      } ${trans.__('That is a step: the files of earlier steps still have it.')}`,
      label: trans.__('Delete')
    };
    if (!(await confirmed(asked, trans))) {
      return;
    }
    for (const { path } of items) {
      try {
        await manager.deleteFile(path);
      } catch (error) {
        await showErrorMessage(
          trans.__('Not deleted'),
          error instanceof Error ? error : String(error)
        );
        break;
      }
    }
    if (!this.isDisposed) {
      await this.model.refresh();
      this.activate(); // what had the focus is gone
    }
  }
}

/** JupyterLab's own rows; what cannot be seen, or turns the reading direction, is written out in them. */
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
