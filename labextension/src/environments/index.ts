import { JupyterFrontEndPlugin } from '@jupyterlab/application';

/** The plugins of this folder. */
export const plugins: JupyterFrontEndPlugin<unknown>[] = [];
