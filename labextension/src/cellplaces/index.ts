// The plugin behind notes at cells.

import { JupyterFrontEndPlugin } from '@jupyterlab/application';

import { CellPlaces } from './places';
import { ICellPlaces } from './tokens';

const places: JupyterFrontEndPlugin<ICellPlaces> = {
  id: '@jupyter-reprise/lab:cellplaces',
  description: 'Adds notes to the header and the footer of cells.',
  autoStart: true,
  provides: ICellPlaces,
  activate: (): ICellPlaces => new CellPlaces()
};

export const plugins: JupyterFrontEndPlugin<unknown>[] = [places];
