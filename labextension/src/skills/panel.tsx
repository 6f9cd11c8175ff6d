// The Skills panel: scopes as tabs, a search, the list, promotions that wait, and where files are dropped.

import { ReactWidget } from '@jupyterlab/apputils';
import {
  addIcon,
  Button,
  fileUploadIcon,
  InputGroup,
  refreshIcon,
  searchIcon
} from '@jupyterlab/ui-components';
import { Signal, ISignal } from '@lumino/signaling';
import * as React from 'react';

import { skillIcon } from '../parts/icons';
import { ConnectionNotice, Empty, ErrorNotice, Loading } from '../parts/notices';
import { FocusReturn } from '../parts/roving';
import { IAsked, useAsked } from '../parts/asked';
import { useChanges } from './changing';
import { Context, IContext, offline, useSkills } from './context';
import { SkillList } from './list';
import { SHIPPED } from './names';
import { Requests } from './requests';
import { ITab, panelId, tabId, Tabs } from './tabs';
import { ISkills } from './tokens';
import { scope as scopeWord } from './words';

/** Entries that are shown at first, and more each time. */
const STEP = 100;
/** Milliseconds after the last key until the server is asked. */
const TYPED = 200;

/** Characters of a search, as the server takes them. */
const MOST_WORDS = 200;

const ALL = 'all';
const PROMOTIONS = 'promotions';
const GROUP = 'jp-reprise-skills';

export class SkillsPanel extends ReactWidget {
  constructor(private readonly _context: IContext) {
    super();
    this.id = 'jp-reprise-skills';
    this.addClass('jp-Reprise');
    this.addClass('jp-Reprise-skills');
    this.title.icon = skillIcon;
    this.title.caption = _context.trans.__('Skills');
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', _context.trans.__('Skills'));
  }

  /** The entry that a command without arguments is about. */
  get active(): ISkills.IEntry | null {
    return this._active;
  }

  /** Has the search focused. */
  find(): void {
    this._wanted = true;
    this._focused.emit();
  }

  protected override onActivateRequest(): void {
    this.find();
  }

  protected override render(): React.JSX.Element {
    return (
      <Context.Provider value={this._context}>
        <Panel
          focused={this._focused}
          wanted={() => {
            const wanted = this._wanted;
            this._wanted = false;
            return wanted;
          }}
          active={entry => {
            this._active = entry;
          }}
        />
      </Context.Provider>
    );
  }

  /** Asked for before there was a search to focus. */
  private _wanted = false;
  private _active: ISkills.IEntry | null = null;
  private readonly _focused = new Signal<this, void>(this);
}

function Panel(props: {
  focused: ISignal<unknown, void>;
  wanted: () => boolean;
  active: (entry: ISkills.IEntry) => void;
}): React.JSX.Element {
  const { focused } = props;
  const { skills, api, trans, open } = useSkills();
  // The same function for as long as the panel is there.
  const [wanted] = React.useState(() => props.wanted);
  const [tab, setTab] = React.useState<string>(ALL);
  const [words, setWords] = React.useState('');
  const [limit, setLimit] = React.useState(STEP);
  const [over, setOver] = React.useState(0);
  const input = React.useRef<HTMLInputElement>(null);
  const [back] = React.useState(() => new FocusReturn());

  const scopes = useAsked('scopes', () => skills.scopes());
  const promotions = useAsked('promotions', () => skills.promotions());
  const list = useAsked(`${tab} ${words}`, signal =>
    tab === PROMOTIONS
      ? Promise.resolve(null)
      : skills.list({ words, limit, ...(tab === ALL ? {} : { scope: tab }) }, signal)
  );
  const { again } = list;
  React.useEffect(() => {
    if (limit > STEP) {
      again();
    }
  }, [limit, again]);
  useChanges(
    skills,
    () => true,
    () => {
      list.again();
      promotions.again();
      scopes.again();
    }
  );
  React.useEffect(() => {
    const focus = (): void => {
      if (input.current !== null && wanted()) {
        input.current.focus();
      }
    };
    focus();
    focused.connect(focus);
    return () => {
      focused.disconnect(focus);
    };
  }, [focused, wanted]);

  const shared = (scopes.value ?? []).filter(each => each.scope !== 'personal');
  const tabs: ITab<string>[] = [
    { id: ALL, label: trans.__('All') },
    { id: 'personal', label: scopeWord('personal', trans) },
    ...shared.map(each => ({ id: each.scope, label: scopeWord(each.scope, trans) })),
    { id: SHIPPED, label: scopeWord(SHIPPED, trans) },
    ...(shared.length > 0 || (promotions.value?.length ?? 0) > 0
      ? [
          {
            id: PROMOTIONS,
            label: trans.__('Promotions'),
            count: promotions.value?.length || undefined
          }
        ]
      : [])
  ];

  return (
    <div
      onFocus={event => back.came(event, event.currentTarget)}
      onKeyDown={event => {
        // A search with words in it is cleared first, by the browser.
        const words = event.target === input.current && input.current.value !== '';
        if (event.key === 'Escape' && !words && back.back()) {
          event.stopPropagation();
        }
      }}
      className={`jp-Reprise-skills-body${over > 0 ? ' jp-mod-over' : ''}`}
      onDragEnter={event => {
        if (event.dataTransfer.types.includes('Files')) {
          event.preventDefault();
          setOver(count => count + 1);
        }
      }}
      onDragLeave={() => setOver(count => Math.max(0, count - 1))}
      onDragOver={event => {
        if (event.dataTransfer.types.includes('Files')) {
          event.preventDefault();
          event.dataTransfer.dropEffect = 'copy';
        }
      }}
      onDrop={event => {
        setOver(0);
        if (event.dataTransfer.types.includes('Files')) {
          event.preventDefault();
          event.stopPropagation();
          void open.importSkills(event.dataTransfer);
        }
      }}
    >
      <div className="jp-Reprise-skills-head">
        <h2 className="jp-Reprise-panel-title">{trans.__('Skills')}</h2>
        <div className="jp-Reprise-skills-tools" role="toolbar" aria-label={trans.__('Skills')}>
          <Button minimal title={trans.__('New skill')} onClick={() => void open.create()}>
            <addIcon.react tag="span" aria-hidden="true" />
            <span className="jp-sr-only">{trans.__('New skill')}</span>
          </Button>
          <Button
            minimal
            title={trans.__('Import skills')}
            onClick={() => void open.importSkills()}
          >
            <fileUploadIcon.react tag="span" aria-hidden="true" />
            <span className="jp-sr-only">{trans.__('Import skills')}</span>
          </Button>
          <Button
            minimal
            title={trans.__('Look again')}
            onClick={() => {
              list.again();
              promotions.again();
              scopes.again();
            }}
          >
            <refreshIcon.react tag="span" aria-hidden="true" />
            <span className="jp-sr-only">{trans.__('Look again')}</span>
          </Button>
        </div>
      </div>
      <Search input={input} show={setWords} />
      <Tabs
        group={GROUP}
        label={trans.__('Scopes')}
        tabs={tabs}
        current={tab}
        show={next => {
          setTab(next);
          setLimit(STEP);
        }}
      />
      <ConnectionNotice connection={api.connection} trans={trans} />
      <div
        id={panelId(GROUP)}
        className="jp-Reprise-skills-list"
        role="tabpanel"
        aria-labelledby={tabId(GROUP, tab)}
        aria-busy={list.asking}
      >
        {tab === PROMOTIONS ? (
          <Requests asked={promotions} />
        ) : (
          <Found
            list={list}
            tab={tab}
            words={words}
            more={() => setLimit(limit + STEP)}
            active={props.active}
          />
        )}
      </div>
      {over > 0 && (
        <div className="jp-Reprise-skills-drop" aria-hidden="true">
          {trans.__('Drop skills here: a folder, or an archive. Nothing of them is run.')}
        </div>
      )}
    </div>
  );
}

function Search(props: {
  input: React.RefObject<HTMLInputElement>;
  show: (words: string) => void;
}): React.JSX.Element {
  const { trans } = useSkills();
  const timer = React.useRef<ReturnType<typeof setTimeout>>(undefined);
  React.useEffect(() => () => clearTimeout(timer.current), []);
  return (
    <div className="jp-Reprise-skills-search" role="search">
      <InputGroup
        inputRef={props.input}
        type="search"
        aria-label={trans.__('Search skills')}
        placeholder={trans.__('Search skills')}
        maxLength={MOST_WORDS}
        rightIcon={searchIcon}
        onChange={event => {
          clearTimeout(timer.current);
          timer.current = setTimeout(props.show, TYPED, event.target.value);
        }}
      />
    </div>
  );
}

function Found(props: {
  list: IAsked<ISkills.IPage | null>;
  tab: string;
  words: string;
  more: () => void;
  active: (entry: ISkills.IEntry) => void;
}): React.JSX.Element {
  const { list, tab, words, more, active } = props;
  const { trans, open } = useSkills();
  const page = list.value;
  if (page === undefined || page === null) {
    return list.error === undefined ? (
      <Loading trans={trans} rows={4} />
    ) : (
      <ErrorNotice error={list.error} trans={trans} again={list.again} />
    );
  }
  const found = trans._n('%2 skill', '%2 skills', page.total, page.total.toLocaleString());
  return (
    <>
      {list.error !== undefined && !offline(list.error) && (
        <ErrorNotice error={list.error} trans={trans} again={list.again} />
      )}
      <p className="jp-sr-only" role="status">
        {found}
      </p>
      {page.entries.length === 0 ? (
        words !== '' ? (
          <Empty
            lines={[
              trans.__('No skill fits "%1".', words),
              trans.__('Names, descriptions and texts were looked at.')
            ]}
          />
        ) : (
          <Empty
            lines={nothing(tab, trans.__.bind(trans))}
            {...(tab === 'personal' || tab === ALL
              ? { action: { label: trans.__('New skill'), run: () => void open.create() } }
              : {})}
          />
        )
      ) : (
        <SkillList
          entries={page.entries}
          total={page.total}
          more={page.next === null ? null : more}
          scoped={tab === ALL}
          label={found}
          active={active}
        />
      )}
    </>
  );
}

function nothing(tab: string, say: (text: string) => string): readonly string[] {
  if (tab === SHIPPED) {
    return [say('All that comes with Reprise was added to your own.')];
  }
  if (tab === 'personal' || tab === ALL) {
    return [
      say('A skill teaches the agent one piece of work.'),
      say('It is a folder with a SKILL.md, and often scripts.'),
      say('Drop one here, or write one.')
    ];
  }
  return [
    say('Nothing is published here yet.'),
    say('To give a skill to others, open it and choose Promote.')
  ];
}
