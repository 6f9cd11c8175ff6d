// A skill that is being edited: its files beside those it began from; kept until saved or thrown away.

import { IDisposable } from '@lumino/disposable';
import { ISignal, Signal } from '@lumino/signaling';

import { base64, bytesOfBase64 } from '../parts/base64';
import { IStore } from '../parts/storage';
import { textOf } from './content';
import { nameIn, startText } from './frontmatter';
import { bare, reference } from './names';
import { ISkills } from './tokens';

export const SKILL_FILE = 'SKILL.md';
/** Of one draft that is kept across a reload of the page, in characters. */
const MOST_KEPT = 2_000_000;
/** Files up to here are sent whole to be checked while one types; of others the first bytes are. */
const CHECKED_WHOLE = 64 * 1024;
const CHECKED_HEAD = 256;

/** What a draft began from. */
export interface IBase {
  readonly named: ISkills.IName;
  readonly digest: string;
  readonly files: readonly ISkills.File[];
}

export interface IDraftFile {
  readonly path: string;
  readonly executable: boolean;
  readonly change: 'same' | 'changed' | 'new' | 'removed';
}

interface IEdit {
  readonly content: string | Uint8Array | null;
  readonly executable: boolean;
}

interface IKept {
  readonly digest: string | null;
  readonly at: string;
  readonly edits: Readonly<
    Record<string, { text?: string; base64?: string; executable: boolean } | null>
  >;
}

/** The files of one skill as they would be saved. */
export class Draft implements IDisposable {
  /**
   * @param name its folder until SKILL.md says another
   * @param base null for a new skill
   * @param read gives a file of the base
   * @param keys what begins each name under which drafts are kept
   */
  constructor(
    readonly name: string,
    base: IBase | null,
    private readonly _read: (named: ISkills.IName, path: string) => Promise<Uint8Array>,
    private readonly _store: IStore,
    private readonly _keys: string
  ) {
    this._base = base;
    if (base === null) {
      this._edits.set(SKILL_FILE, { content: startText(name), executable: false });
    }
  }

  get base(): IBase | null {
    return this._base;
  }

  /** Something of it changed. */
  get changed(): ISignal<Draft, void> {
    return this._changed;
  }

  /** Whether something is in it that was not saved. */
  get dirty(): boolean {
    const begun = this._base === null && this._edits.size === 1;
    return begun
      ? this._edits.get(SKILL_FILE)?.content !== startText(this.name)
      : this._edits.size > 0;
  }

  /** When what is kept from an earlier visit was last changed; null when there is nothing. */
  get keptSince(): Date | null {
    return this._keptSince;
  }

  /** Why it is not kept across a reload; null while it is. */
  get notKept(): 'large' | 'full' | null {
    return this._notKept;
  }

  get files(): readonly IDraftFile[] {
    const known = new Map<string, IDraftFile>();
    for (const { path, executable } of this._base?.files ?? []) {
      const edit = this._edits.get(path);
      if (edit === undefined) {
        known.set(path, { path, executable, change: 'same' });
      } else if (edit.content === null) {
        known.set(path, { path, executable, change: 'removed' });
      } else {
        known.set(path, { path, executable: edit.executable, change: 'changed' });
      }
    }
    for (const [path, edit] of this._edits) {
      if (!known.has(path) && edit.content !== null) {
        known.set(path, { path, executable: edit.executable, change: 'new' });
      }
    }
    return [...known.values()].sort((one, other) => order(one.path, other.path));
  }

  /** The folder that it is saved as: the name that SKILL.md says, where it is one. */
  get folder(): string {
    const edit = this._edits.get(SKILL_FILE)?.content;
    const text = typeof edit === 'string' ? edit : this._texts.get(SKILL_FILE);
    return (text === undefined ? null : nameIn(text)) ?? this.name;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    if (!this._isDisposed) {
      this._isDisposed = true;
      Signal.clearData(this);
    }
  }

  /** A file as text; null for one that is none. */
  async text(path: string): Promise<string | null> {
    const edit = this._edits.get(path);
    if (typeof edit?.content === 'string') {
      return edit.content;
    }
    return textOf(edit?.content ?? (await this._original(path)));
  }

  /** A file's bytes as they would be saved. */
  async bytes(path: string): Promise<Uint8Array> {
    const content = this._edits.get(path)?.content ?? (await this._original(path));
    return typeof content === 'string' ? new TextEncoder().encode(content) : content;
  }

  /** What a person typed. Typed back to what it was, it is unchanged. */
  setText(path: string, text: string): void {
    const was = this._texts.get(path);
    const before = this._edits.get(path);
    const original = this._base?.files.find(each => each.path === path);
    const executable = before?.executable ?? original?.executable ?? text.startsWith('#!');
    if (original !== undefined && text === was && executable === original.executable) {
      this._edits.delete(path);
    } else {
      this._edits.set(path, { content: text, executable });
    }
    this._keep();
  }

  /** Add a file, or replace one. */
  put(path: string, content: string | Uint8Array, executable: boolean): void {
    this._edits.set(path, { content, executable });
    this._keep();
  }

  async setExecutable(path: string, executable: boolean): Promise<void> {
    const edit = this._edits.get(path);
    const original = this._base?.files.find(each => each.path === path);
    const content = edit?.content ?? (await this._original(path));
    if (edit === undefined && original?.executable === executable) {
      return;
    }
    const text = typeof content === 'string' ? content : textOf(content);
    if (original?.executable === executable && text !== null && text === this._texts.get(path)) {
      this._edits.delete(path);
    } else {
      this._edits.set(path, { content: text ?? content, executable });
    }
    this._keep();
  }

  /** Take a file out; SKILL.md stays. */
  remove(path: string): void {
    if (path === SKILL_FILE) {
      return;
    }
    if (this._base?.files.some(each => each.path === path)) {
      this._edits.set(path, { content: null, executable: false });
    } else {
      this._edits.delete(path);
    }
    this._keep();
  }

  /** One file as it was. */
  revert(path: string): void {
    this._edits.delete(path);
    if (this._base === null && path === SKILL_FILE) {
      this._edits.set(SKILL_FILE, { content: startText(this.name), executable: false });
    }
    this._keep();
  }

  /** All files as they were, and nothing kept. */
  throwAway(): void {
    this._edits.clear();
    if (this._base === null) {
      this._edits.set(SKILL_FILE, { content: startText(this.name), executable: false });
    }
    this._forget();
    this._changed.emit();
  }

  /**
   * These files were saved as this version: it goes on from there. What was changed while they were
   * on their way is still a change.
   */
  saved(base: IBase, files: readonly ISkills.ISentFile[]): void {
    this._forget();
    const before = { base: this._base, texts: new Map(this._texts) };
    this._base = base;
    this._originals.clear();
    this._texts.clear();
    for (const { path, executable, content } of files) {
      const bytes = typeof content === 'string' ? new TextEncoder().encode(content) : content;
      this._originals.set(path, Promise.resolve(bytes));
      const text = textOf(bytes);
      if (text !== null) {
        this._texts.set(path, text);
      }
      const edit = this._edits.get(path);
      const was = before.texts.get(path);
      if (edit?.content === content && edit.executable === executable) {
        this._edits.delete(path);
      } else if (edit === undefined && !before.base?.files.some(each => each.path === path)) {
        this._edits.set(path, { content: null, executable: false }); // taken out meanwhile
      } else if (edit === undefined && was !== undefined && was !== text) {
        this._edits.set(path, { content: was, executable }); // typed back meanwhile
      }
    }
    for (const [path, { content }] of this._edits) {
      if (content === null && !base.files.some(each => each.path === path)) {
        this._edits.delete(path);
      }
    }
    this._keep();
  }

  /** Take up what was kept. Returns whether there was something. */
  takeUp(): boolean {
    const kept = this.kept();
    if (kept === null) {
      return false;
    }
    this._edits.clear();
    for (const [path, edit] of Object.entries(kept.edits)) {
      this._edits.set(
        path,
        edit === null
          ? { content: null, executable: false }
          : {
              content: edit.text ?? bytesOfBase64(edit.base64 ?? ''),
              executable: edit.executable
            }
      );
    }
    this._keptSince = new Date(kept.at);
    this._changed.emit();
    return true;
  }

  /** What is kept of it, from this very content; null when nothing is, or of another content. */
  kept(): IKept | null {
    const text = this._store.getItem(this._key);
    if (text === null) {
      return null;
    }
    try {
      const kept = JSON.parse(text) as IKept;
      return kept.digest === (this._base?.digest ?? null) ? kept : null;
    } catch {
      // Not ours, or of another version: it is of no use to anybody.
      this._store.removeItem(this._key);
      return null;
    }
  }

  /** All files, to be saved. */
  async all(): Promise<readonly ISkills.ISentFile[]> {
    const found: ISkills.ISentFile[] = [];
    for (const { path, executable, change } of this.files) {
      if (change !== 'removed') {
        const content = this._edits.get(path)?.content ?? (await this._original(path));
        found.push({ path, executable, content });
      }
    }
    return found;
  }

  /**
   * What is checked while one types. Of large files only the first bytes are sent; what is found
   * in these says nothing (`whole` names the others).
   */
  async toCheck(): Promise<{
    readonly files: readonly ISkills.ISentFile[];
    readonly whole: ReadonlySet<string>;
  }> {
    const files: ISkills.ISentFile[] = [];
    const whole = new Set<string>();
    for (const { path, executable, change } of this.files) {
      if (change === 'removed') {
        continue;
      }
      const size = this._base?.files.find(each => each.path === path)?.size ?? 0;
      const edit = this._edits.get(path);
      const large =
        edit === undefined
          ? size > CHECKED_WHOLE
          : edit.content instanceof Uint8Array && edit.content.length > CHECKED_WHOLE;
      if (large && path !== SKILL_FILE) {
        const head =
          edit?.content instanceof Uint8Array ? edit.content.subarray(0, CHECKED_HEAD) : '';
        files.push({ path, executable, content: head });
      } else {
        files.push({ path, executable, content: edit?.content ?? (await this._original(path)) });
        whole.add(path);
      }
    }
    return { files, whole };
  }

  private async _original(path: string): Promise<Uint8Array> {
    const known = this._originals.get(path);
    if (known !== undefined) {
      return known;
    }
    if (this._base === null) {
      return new Uint8Array();
    }
    const read = this._read(this._base.named, path);
    this._originals.set(path, read);
    try {
      const bytes = await read;
      const text = textOf(bytes);
      if (text !== null) {
        this._texts.set(path, text);
      }
      return bytes;
    } catch (error) {
      this._originals.delete(path);
      throw error;
    }
  }

  /** Of the version it goes on from, as it is opened anew later. */
  private get _key(): string {
    const named = this._base?.named;
    return named === undefined
      ? `${this._keys}:new:${this.name}`
      : `${this._keys}:${reference(named)}:${bare(named)}`;
  }

  private _keep(): void {
    this._notKept = null;
    if (!this.dirty) {
      this._forget();
    } else {
      const edits: Record<string, { text?: string; base64?: string; executable: boolean } | null> =
        {};
      for (const [path, { content, executable }] of this._edits) {
        edits[path] =
          content === null
            ? null
            : typeof content === 'string'
              ? { text: content, executable }
              : { base64: base64(content), executable };
      }
      const kept: IKept = {
        digest: this._base?.digest ?? null,
        at: new Date().toISOString(),
        edits
      };
      const text = JSON.stringify(kept);
      try {
        if (text.length > MOST_KEPT) {
          this._notKept = 'large';
          this._store.removeItem(this._key);
        } else {
          this._store.setItem(this._key, text);
        }
      } catch {
        // The browser's store is full or closed; the page says so, and still has it.
        this._notKept = 'full';
      }
    }
    this._changed.emit();
  }

  private _forget(): void {
    this._keptSince = null;
    this._notKept = null;
    this._store.removeItem(this._key);
  }

  private _base: IBase | null;
  private readonly _edits = new Map<string, IEdit>();
  private readonly _originals = new Map<string, Promise<Uint8Array>>();
  /** Texts as they are in the base, as far as they were looked at. */
  private readonly _texts = new Map<string, string>();
  private readonly _changed = new Signal<Draft, void>(this);
  private _keptSince: Date | null = null;
  private _notKept: 'large' | 'full' | null = null;
  private _isDisposed = false;
}

/** SKILL.md first, as everywhere. */
function order(one: string, other: string): number {
  if (one === SKILL_FILE || other === SKILL_FILE) {
    return one === other ? 0 : one === SKILL_FILE ? -1 : 1;
  }
  return one < other ? -1 : one > other ? 1 : 0;
}
