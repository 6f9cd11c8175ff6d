// Which rule of the network decided for a connection, and which hosts wait for one (pure).

import { IAskedHost } from './tokens';

/** The ports of a rule that names none (docs/network.md). */
const USUAL = [80, 443];

/** Host and port of a rule; port null where it names none. */
export function split(place: string): { readonly host: string; readonly port: number | null } {
  if (place.endsWith(']')) {
    return { host: place.slice(1, -1), port: null };
  }
  const at = place.lastIndexOf(':');
  const port = at < 0 ? NaN : Number(place.slice(at + 1));
  return at < 0 || !Number.isInteger(port) || place.slice(0, at).endsWith(':')
    ? { host: place, port: null }
    : { host: place.slice(0, at).replace(/^\[|\]$/g, ''), port };
}

/** The rule by which a connection was allowed; null where none of these is it. */
export function ruleOf(row: IAskedHost, places: readonly string[]): string | null {
  const fits = (place: string): boolean => {
    const { host, port } = split(place);
    if (port === null ? !USUAL.includes(row.port) : port !== row.port) {
      return false;
    }
    return host.startsWith('*.') ? row.host.endsWith(host.slice(1)) : host === row.host;
  };
  return places.find(fits) ?? null;
}

/** A host as a rule names it: without the port where that is a usual one. */
export function placeOf(row: Pick<IAskedHost, 'host' | 'port'>): string {
  const host = row.host.includes(':') ? `[${row.host}]` : row.host;
  return USUAL.includes(row.port) ? host : `${host}:${row.port}`;
}

/** Hosts that were refused and that no rule of the next kernel allows, the newest first, once each. */
export function waiting(
  rows: readonly IAskedHost[],
  next: readonly string[]
): readonly IAskedHost[] {
  const seen = new Set<string>();
  return [...rows]
    .reverse()
    .filter(row => row.verdict === 'refused' && !row.replay && ruleOf(row, next) === null)
    .filter(row => {
      const key = placeOf(row);
      const fresh = !seen.has(key);
      seen.add(key);
      return fresh;
    });
}

/** Places that the next kernel may reach and the running one may not. */
export function pending(next: readonly string[], running: readonly string[]): readonly string[] {
  return next.filter(each => !running.includes(each));
}
