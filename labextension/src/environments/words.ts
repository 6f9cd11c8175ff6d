// How environments, limits and verdicts of the network are said (pure).

import type { TranslationBundle } from '@jupyterlab/translation';

import { duration, size } from '../parts/words';
import { EnvironmentDetail, EnvironmentRow, IAskedHost } from './tokens';

/** "Isolated", "Not isolated". */
export function isolationWord(isolated: boolean, trans: TranslationBundle): string {
  return isolated ? trans.__('Isolated') : trans.__('Not isolated');
}

/** "no network", "reaches a.example", "reaches a.example and 2 more". */
export function networkWords(
  network: readonly string[],
  isolated: boolean,
  trans: TranslationBundle
): string {
  if (!isolated) {
    return trans.__("this machine's network");
  }
  const [first] = network;
  if (first === undefined) {
    return trans.__('no network');
  }
  if (network.includes('*')) {
    return trans.__('any host');
  }
  return network.length === 1
    ? trans.__('reaches %1', placeWord(first, trans))
    : trans.__('reaches %1 and %2 more', placeWord(first, trans), network.length - 1);
}

export function placeWord(place: string, trans: TranslationBundle): string {
  return place === 'package-index' ? trans.__('the package index') : place;
}

/** "Built of its own packages", "An image", "The Python of this machine". */
export function standsOn(
  row: Pick<EnvironmentRow, 'built' | 'image'>,
  trans: TranslationBundle
): string {
  if (row.image !== null) {
    return trans.__('The image %1', row.image);
  }
  return row.built === null
    ? trans.__('The Python of this machine, with its packages')
    : trans.__('Packages of its own, built as %1', row.built.slice(0, 12));
}

/** What a card, a menu entry or a choice says of an environment in a line. */
export function inShort(row: EnvironmentRow, isolated: boolean, trans: TranslationBundle): string {
  const parts = [
    isolationWord(isolated, trans).toLowerCase(),
    networkWords(row.network, isolated, trans)
  ];
  if (!row.here) {
    parts.push(trans.__('not on this machine'));
  }
  if (row.team !== null) {
    parts.push(trans.__('for %1', row.team));
  }
  if (row.output === 'live') {
    parts.push(trans.__('scripts in outputs run'));
  }
  return parts.join(', ');
}

const LIMITS: readonly (readonly [string, 'size' | 'seconds' | 'number'])[] = [
  ['memory', 'size'],
  ['cpus', 'number'],
  ['processes', 'number'],
  ['open_files', 'number'],
  ['wall', 'seconds'],
  ['workspace', 'size'],
  ['tmp', 'size'],
  ['output', 'size'],
  ['message', 'size'],
  ['request', 'size'],
  ['mounts', 'size']
];

/** Limits in the order in which people look for them; one that is new here comes last, as a number. */
export function limits(
  detail: Pick<EnvironmentDetail, 'limits' | 'set'>,
  trans: TranslationBundle
): readonly { readonly name: string; readonly value: string; readonly set: boolean }[] {
  const known = LIMITS.map(([name]) => name);
  const names = [...known, ...Object.keys(detail.limits).filter(each => !known.includes(each))];
  return names
    .filter(name => detail.limits[name] !== undefined)
    .map(name => ({
      name: limitWord(name, trans),
      value: limitValue(name, detail.limits[name] ?? 0, trans),
      set: detail.set.includes(name)
    }));
}

function limitWord(name: string, trans: TranslationBundle): string {
  switch (name) {
    case 'memory':
      return trans.__('Memory');
    case 'cpus':
      return trans.__('Processors');
    case 'processes':
      return trans.__('Processes');
    case 'open_files':
      return trans.__('Open files');
    case 'wall':
      return trans.__('Time of a step');
    case 'workspace':
      return trans.__('Workspace');
    case 'tmp':
      return trans.__('Temporary files');
    case 'output':
      return trans.__('Output of a step');
    case 'message':
      return trans.__('One message');
    case 'request':
      return trans.__('One request');
    case 'mounts':
      return trans.__('Mounted skills');
    default:
      return name;
  }
}

function limitValue(name: string, value: number, trans: TranslationBundle): string {
  if (value === 0) {
    return trans.__('no limit');
  }
  const kind = LIMITS.find(([each]) => each === name)?.[1] ?? 'number';
  return kind === 'size'
    ? size(value)
    : kind === 'seconds'
      ? duration(value, trans)
      : value.toLocaleString();
}

export function verdictWord(verdict: IAskedHost['verdict'], trans: TranslationBundle): string {
  switch (verdict) {
    case 'allowed':
      return trans.__('allowed');
    case 'refused':
      return trans.__('refused');
    case 'failed':
      return trans.__('not reached');
    case 'served':
      return trans.__('from the record');
  }
}

/** What the notice of a refusal says: what happened, what state things are in. */
export function refusal(
  row: IAskedHost,
  network: readonly string[],
  trans: TranslationBundle
): string {
  const place = `${row.host}:${row.port}`;
  return network.length === 0
    ? trans.__('Refused %1: no network here. Nothing was sent.', place)
    : trans.__('Refused %1: no rule allows it. Nothing was sent.', place);
}
