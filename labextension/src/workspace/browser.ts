// JupyterLab's file browser as the Workspace uses it: it takes the focus, and what comes in is told once.

import { ToolbarButton } from '@jupyterlab/apputils';
import { DirListing, FileBrowser } from '@jupyterlab/filebrowser';
import { TranslationBundle } from '@jupyterlab/translation';
import { fileUploadIcon } from '@jupyterlab/ui-components';

import { WorkspaceListing } from './listing';
import { WorkspaceModel } from './model';

export class WorkspaceBrowser extends FileBrowser {
  /** What it was made with. */
  declare readonly model: WorkspaceModel;

  protected override createDirListing(options: DirListing.IOptions): DirListing {
    return new WorkspaceListing(options);
  }

  /** Activated, it has the focus in its list, at the file that had it last. */
  protected override onActivateRequest(): void {
    this.listing.activate();
  }
}

/** A button that brings files in. The model tells what did not work; JupyterLab's own would as well. */
export function uploadButton(model: WorkspaceModel, trans: TranslationBundle): ToolbarButton {
  const input = document.createElement('input');
  input.type = 'file';
  input.multiple = true;
  input.addEventListener('change', () => {
    for (const file of input.files ?? []) {
      // The model has said why; nothing else waits for it.
      model.upload(file).catch(() => undefined);
    }
  });
  return new ToolbarButton({
    icon: fileUploadIcon,
    tooltip: trans.__('Upload Files'),
    onClick: () => {
      input.value = ''; // so that the same file can be chosen again
      input.click();
    }
  });
}
