// Icons of our own, drawn on a grid of 16 in JupyterLab's colours; all else is JupyterLab's.

import { LabIcon } from '@jupyterlab/ui-components';

/** @param body shapes that are filled by the theme's icon colour, or by a class of its own */
function icon(name: string, body: string): LabIcon {
  return new LabIcon({
    name: `reprise:${name}`,
    svgstr: `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 16 16">${body}</svg>`
  });
}

/** A play mark within an arrow that turns back: played again. */
export const repriseIcon = icon(
  'reprise',
  '<g class="jp-icon3" fill="#616161"><path d="M8 1.5a6.5 6.5 0 1 0 6.5 6.5H13a5 5 0 1 1-1.5-3.55L9.6 6.3H15V1l-2.4 2.4A6.5 6.5 0 0 0 8 1.5z"/><path d="M6.5 5.2v5.6l4.4-2.8z"/></g>'
);
export const chatIcon = icon(
  'chat',
  '<path class="jp-icon3" fill="#616161" d="M2.5 2h11A1.5 1.5 0 0 1 15 3.500v7a1.500 1.500 0 0 1-1.500 1.500H8l-3.500 3v-3h-2A1.500 1.500 0 0 1 1 10.500v-7A1.500 1.500 0 0 1 2.500 2zm0 1.500v7H6v1.300l1.500-1.300h6v-7z"/><path class="jp-icon3" fill="#616161" d="M4.500 5.300h7v1.200h-7zm0 2.400h5v1.200h-5z"/>'
);
export const timelineIcon = icon(
  'timeline',
  '<g class="jp-icon3" fill="#616161"><path d="M3.400 2h1.200v12H3.400z"/><circle cx="4" cy="4" r="2"/><circle cx="4" cy="12" r="2"/><circle cx="11" cy="8" r="2"/><path d="M4.600 7.400h6v1.200h-6zM8 3.400h6v1.200H8zm0 8h6v1.200H8z"/></g>'
);
export const skillIcon = icon(
  'skill',
  '<path class="jp-icon3" fill="#616161" d="M8 1 1.500 4.200v7.600L8 15l6.500-3.200V4.200zm0 1.700 4.300 2.100L8 6.900 3.700 4.800zM3 6.100l4.300 2.100v4.600L3 10.800zm5.700 6.700V8.200L13 6.100v4.700z"/>'
);
export const infoIcon = icon(
  'info',
  '<path class="jp-Reprise-info-fill" d="M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1zm-.8 3.500h1.600V6H7.200zm0 2.700h1.600v4.500H7.200z"/>'
);
export const warningIcon = icon(
  'warning',
  '<path class="jp-Reprise-warning-fill" d="M8 1.300.8 14h14.400zM7.200 6h1.600v4H7.200zm0 5h1.600v1.600H7.200z"/>'
);
export const errorIcon = icon(
  'error',
  '<path class="jp-Reprise-error-fill" d="M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1zm2.900 8.800-1.100 1.100L8 9.100l-1.800 1.800-1.100-1.100L6.900 8 5.100 6.200l1.100-1.100L8 6.900l1.800-1.800 1.100 1.100L9.100 8z"/>'
);
export const okIcon = icon(
  'ok',
  '<path class="jp-Reprise-success-fill" d="M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1zm-1 10L3.800 7.800l1.100-1.100L7 8.800l4.200-4.200 1.100 1.100z"/>'
);
