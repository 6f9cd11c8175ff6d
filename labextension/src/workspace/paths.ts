// How the drive names a file: its session, the step of a past moment, the path in the workspace (pure).

/** The drive's name, which stands before each of its paths. */
export const DRIVE = 'Reprise';

/** A place in a workspace. `path` is '' for the workspace itself. */
export interface IPlace {
  readonly session: string;
  /** As after this step; null: as it is now. */
  readonly at: number | null;
  readonly path: string;
}

const TOP = /^([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?:@(-1|\d{1,12}))?$/;

/** Null for the drive's own root, and for what names no session. */
export function placeOf(localPath: string): IPlace | null {
  const [top = '', ...rest] = localPath.replace(/^\/+/, '').split('/');
  const found = TOP.exec(top);
  if (found === null) {
    return null;
  }
  const at = found[2] === undefined ? null : Number(found[2]);
  return { session: found[1] ?? '', at, path: rest.filter(each => each !== '').join('/') };
}

/** The first part of a place's path: `036b…`, or `036b…@41`. */
export function topOf(session: string, at: number | null): string {
  return at === null ? session : `${session}@${at}`;
}

export function localPathOf(place: IPlace): string {
  const top = topOf(place.session, place.at);
  return place.path === '' ? top : `${top}/${place.path}`;
}

/** With the drive's name, as documents and the file browser have it. */
export function fullPathOf(place: IPlace): string {
  return `${DRIVE}:${localPathOf(place)}`;
}

export function nameOf(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1);
}

export function folderOf(path: string): string {
  const cut = path.lastIndexOf('/');
  return cut < 0 ? '' : path.slice(0, cut);
}

export function joined(folder: string, name: string): string {
  return folder === '' ? name : `${folder}/${name}`;
}

/** `data.csv`, `data (2).csv`, `data (3).csv`, …: the first that is not taken. */
export function freeName(name: string, taken: (name: string) => boolean): string {
  if (!taken(name)) {
    return name;
  }
  // A name that only begins with a dot has no ending; `.tar.gz` counts as one.
  const found = /^(.+?)((?:\.tar)?\.[^./]{1,16})?$/s.exec(name);
  const [stem, ending] = [found?.[1] ?? name, found?.[2] ?? ''];
  for (let number = 2; ; number += 1) {
    const next = `${stem} (${number})${ending}`;
    if (!taken(next)) {
      return next;
    }
  }
}
