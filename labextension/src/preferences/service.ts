// Settings read strictly: what is not as the schema says is the default.

import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { ISignal, Signal } from '@lumino/signaling';

import { IPreferences, Preferences } from './tokens';

export const DEFAULTS: Preferences = {
  announcements: 'all',
  diffView: 'auto',
  followLive: true,
  sound: false,
  showMoney: true,
  foldReads: true
};

const ONE_OF: Partial<Record<keyof Preferences, readonly string[]>> = {
  announcements: ['all', 'questions', 'none'],
  diffView: ['auto', 'split', 'unified']
};

/** @param said as the registry has them, which somebody may have edited by hand */
export function read(said: Readonly<Record<string, unknown>>): Preferences {
  const found: Record<string, unknown> = { ...DEFAULTS };
  for (const [name, value] of Object.entries(DEFAULTS)) {
    const given = said[name];
    const allowed = ONE_OF[name as keyof Preferences];
    if (allowed ? allowed.includes(given as string) : typeof given === typeof value) {
      found[name] = given;
    }
  }
  return found as unknown as Preferences;
}

/** The preferences of this page, live. */
export class LivePreferences implements IPreferences {
  get now(): Preferences {
    return this._now;
  }

  get changed(): ISignal<IPreferences, Preferences> {
    return this._changed;
  }

  /** Follow a plugin's settings. */
  follow(settings: ISettingRegistry.ISettings): void {
    const take = (): void => {
      this._now = read(settings.composite);
      this._changed.emit(this._now);
    };
    settings.changed.connect(take);
    take();
  }

  private _now = DEFAULTS;
  private readonly _changed = new Signal<IPreferences, Preferences>(this);
}
