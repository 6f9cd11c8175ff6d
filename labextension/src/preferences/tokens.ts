// What a person has set for Reprise's surfaces, in the Settings Editor.

import { Token } from '@lumino/coreutils';
import { ISignal } from '@lumino/signaling';

/** As schema/plugin.json describes them. */
export interface Preferences {
  readonly announcements: 'all' | 'questions' | 'none';
  readonly diffView: 'auto' | 'split' | 'unified';
  readonly followLive: boolean;
  readonly sound: boolean;
  readonly showMoney: boolean;
  readonly foldReads: boolean;
}

export interface IPreferences {
  /** Defaults until the settings have come. */
  readonly now: Preferences;
  readonly changed: ISignal<IPreferences, Preferences>;
}

export const IPreferences = new Token<IPreferences>(
  '@jupyter-reprise/lab:IPreferences',
  'What a person has set for the surfaces of Reprise.'
);
