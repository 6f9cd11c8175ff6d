// The files of a skill that is being written: chosen, added, replaced, taken out.

import { InputDialog } from '@jupyterlab/apputils';
import * as React from 'react';

import { moved } from '../parts/roving';
import { exact } from '../parts/words';
import { textOf } from './content';
import { useSkills } from './context';
import { Draft, SKILL_FILE } from './draft';
import { MOST_FILE_BYTES, tooLarge } from './dropped';
import { failed } from './judging';

const PAGE = 10;

export function EditorFiles(props: {
  draft: Draft;
  path: string;
  choose: (path: string) => void;
  /** The text of a file is another now. */
  begin: () => void;
}): React.JSX.Element {
  const { draft, path, choose, begin } = props;
  const context = useSkills();
  const { trans } = context;
  const { files } = draft;
  const list = React.useRef<HTMLDivElement>(null);
  const adding = React.useRef<HTMLInputElement>(null);
  const replacing = React.useRef<HTMLInputElement>(null);
  const row = Math.max(
    0,
    files.findIndex(each => each.path === path)
  );
  const chosen = files[row];
  const marks = {
    same: '',
    changed: trans.__('changed'),
    new: trans.__('new'),
    removed: trans.__('taken out')
  };

  const add = async (): Promise<void> => {
    const { value, button } = await InputDialog.getText({
      title: trans.__('New file'),
      label: trans.__('Its path, such as references/rules.md or scripts/count.py'),
      okLabel: trans.__('Add'),
      required: true
    });
    const wanted = value?.trim().replace(/^\.?\/+/, '') ?? '';
    if (button.accept && wanted !== '') {
      if (!files.some(each => each.path === wanted)) {
        draft.put(wanted, startOf(wanted), /^scripts\//.test(wanted));
      }
      choose(wanted);
    }
  };
  const put = async (input: HTMLInputElement, at?: string): Promise<void> => {
    try {
      for (const file of input.files ?? []) {
        if (file.size > MOST_FILE_BYTES) {
          throw new Error(`${exact(file.name)}: ${tooLarge(file.size, MOST_FILE_BYTES, trans)}`);
        }
        const bytes = new Uint8Array(await file.arrayBuffer());
        const where = at ?? (file.webkitRelativePath || file.name);
        const before = files.find(each => each.path === where);
        const text = textOf(bytes);
        draft.put(where, text ?? bytes, before?.executable ?? text?.startsWith('#!') ?? false);
        choose(where);
      }
    } catch (error) {
      await failed(error, context);
    } finally {
      input.value = '';
      begin();
    }
  };

  return (
    <nav className="jp-Reprise-skill-side" aria-label={trans.__('Files')}>
      <div
        role="listbox"
        aria-label={trans.__('Files')}
        className="jp-Reprise-skill-paths"
        ref={list}
        onKeyDown={event => {
          const to = moved(event.key, row, files.length, PAGE);
          const found = to === null ? undefined : files[to];
          if (found !== undefined) {
            event.preventDefault();
            choose(found.path);
            list.current?.querySelector<HTMLElement>(`[data-row="${to}"]`)?.focus();
          }
        }}
      >
        {files.map((each, index) => (
          <div
            key={each.path}
            role="option"
            className={`jp-Reprise-skill-path jp-mod-${each.change}`}
            data-row={index}
            aria-selected={index === row}
            tabIndex={index === row ? 0 : -1}
            onClick={() => choose(each.path)}
          >
            <span className="jp-Reprise-skill-file" title={exact(each.path)}>
              {exact(each.path)}
            </span>
            <span className="jp-Reprise-secondary">{marks[each.change]}</span>
          </div>
        ))}
      </div>
      <div className="jp-Reprise-actions">
        <button type="button" className="jp-mod-styled" onClick={() => void add()}>
          {trans.__('New file…')}
        </button>
        <button type="button" className="jp-mod-styled" onClick={() => adding.current?.click()}>
          {trans.__('Add files…')}
        </button>
      </div>
      {chosen && (
        <fieldset className="jp-Reprise-skill-chosen">
          <legend>{exact(chosen.path)}</legend>
          {chosen.change === 'removed' ? (
            <button
              type="button"
              className="jp-mod-styled"
              onClick={() => {
                draft.revert(chosen.path);
                begin();
              }}
            >
              {trans.__('Put back')}
            </button>
          ) : (
            <>
              <label>
                <input
                  type="checkbox"
                  checked={chosen.executable}
                  disabled={chosen.path === SKILL_FILE}
                  onChange={event =>
                    void draft
                      .setExecutable(chosen.path, event.target.checked)
                      .catch((error: unknown) => failed(error, context))
                  }
                />
                {trans.__('can run')}
              </label>
              <button
                type="button"
                className="jp-mod-styled"
                onClick={() => replacing.current?.click()}
              >
                {trans.__('Replace…')}
              </button>
              {chosen.path !== SKILL_FILE && (
                <button
                  type="button"
                  className="jp-mod-styled"
                  onClick={() => draft.remove(chosen.path)}
                >
                  {trans.__('Take out')}
                </button>
              )}
              {chosen.change === 'changed' && (
                <button
                  type="button"
                  className="jp-mod-styled"
                  onClick={() => {
                    draft.revert(chosen.path);
                    begin();
                  }}
                >
                  {trans.__('As it was')}
                </button>
              )}
            </>
          )}
        </fieldset>
      )}
      <input
        ref={adding}
        type="file"
        multiple
        hidden
        aria-hidden="true"
        onChange={event => void put(event.target)}
      />
      <input
        ref={replacing}
        type="file"
        hidden
        aria-hidden="true"
        onChange={event => void put(event.target, chosen?.path)}
      />
    </nav>
  );
}

function startOf(path: string): string {
  return path.endsWith('.py') ? '#!/usr/bin/env python3\n' : '';
}
