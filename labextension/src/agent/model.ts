/** A conversation as a page shows it: what its entries, folded in their order, say (values only). */

/** An entry as the log has it; `kind` and its body as kernel/reprise/log/conversation.py says. */
export interface Entry {
  readonly seq: number;
  readonly turn: number;
  readonly kind: string;
  readonly body: Readonly<Record<string, unknown>>;
  readonly at_us: number;
}

/** How a turn ended. All but `done` and `refused` can be continued. */
export type TurnEnd = 'done' | 'cancelled' | 'refused' | 'failed' | 'budget' | 'interrupted';

/** What the model is sent as an image, and a page may show: base64 of a known type. */
export interface Image {
  readonly type: string;
  readonly data: string;
}

/** Text of the model's. `partial`: its end never came. */
export interface TextPart {
  readonly part: 'text' | 'thinking';
  readonly key: string;
  readonly seq: number;
  readonly text: string;
  readonly partial: boolean;
}

export interface Verdict {
  readonly decision: 'allow' | 'ask' | 'deny';
  readonly rule: string;
  readonly why: string;
  /** The entry of the decision whose grant made an *ask* an *allow*. */
  readonly grant: number | null;
}

/** What a call would do, as it was judged: `input` is exactly what runs. */
export interface Act {
  readonly tool: string;
  readonly effect: string;
  readonly title: string;
  readonly input: Readonly<Record<string, unknown>>;
  readonly code: string | null;
  readonly paths: readonly string[];
}

/** A change of one cell by its id; hashes of type and source, null where there was or is no cell. */
export interface CellEdit {
  readonly cell: string;
  readonly before: string | null;
  readonly after: string | null;
  readonly moved: boolean;
}

export type CallStanding =
  /** Its verdict is not there yet. */
  | 'judged-next'
  /** A person is asked. */
  | 'asked'
  /** It may run, and waits for the calls before it. */
  | 'allowed'
  | 'running'
  | 'ok'
  | 'error'
  | 'denied'
  /** It may have run: nobody saw its end. */
  | 'lost'
  | 'cancelled';

/** One call of the agent's: a card. */
export interface CallPart {
  readonly part: 'call';
  readonly key: string;
  readonly seq: number;
  readonly id: string;
  readonly tool: string;
  readonly input: Readonly<Record<string, unknown>>;
  readonly act: Act | null;
  readonly verdict: Verdict | null;
  /** Why it cannot be made as it is. */
  readonly problem: string | null;
  readonly standing: CallStanding;
  /** Of the newest approval that was asked for it. */
  readonly decided: Decided | null;
  /** When that was asked. */
  readonly askedUs: number | null;
  readonly beganUs: number | null;
  readonly endedUs: number | null;
  readonly text: string;
  readonly images: readonly Image[];
  readonly steps: readonly number[];
  readonly edits: readonly CellEdit[];
  readonly outside: readonly string[];
  /** The session whose steps these are. */
  readonly session: string;
}

/** How a question ended. */
export interface Decided {
  readonly question: string;
  readonly decision: string;
  readonly how: string;
  readonly by: string | null;
  readonly reason: string | null;
  readonly atUs: number;
}

/** What waits for a person, or waited: an approval of `act`, or (act null) words of the model's. */
export interface Question {
  readonly id: string;
  readonly seq: number;
  readonly turn: number;
  readonly call: string;
  readonly text: string;
  readonly options: readonly string[];
  readonly untilUs: number;
  readonly act: Act | null;
  /** The rules that "session" and "pattern" would set, whole. */
  readonly sessionRule: unknown;
  readonly pattern: unknown;
  /** Why it is asked: the rule that fired and its words. */
  readonly verdict: Verdict | null;
}

/** A question of the model's own and its answer, where it stands in the turn. */
export interface AskedPart {
  readonly part: 'asked';
  readonly key: string;
  readonly seq: number;
  readonly question: Question;
  readonly decided: Decided | null;
}

/** The model is waited for before another attempt. */
export interface WaitPart {
  readonly part: 'wait';
  readonly key: string;
  readonly seq: number;
  readonly why: string;
  readonly seconds: number;
  readonly attempt: number;
  readonly status: number | null;
  readonly atUs: number;
  /** When it was over, which a person may have made it; null while it lasts. */
  readonly overUs: number | null;
}

/** What happened to the conversation itself. */
export interface MarkPart {
  readonly part: 'mark';
  readonly key: string;
  readonly seq: number;
  readonly mark: 'compacted' | 'session' | 'continued';
  /** Of `compacted`: the summary. Of `session`: where it goes on. Of `continued`: how it had ended. */
  readonly text: string;
  /** Of `session`: why ("undo", "rewind", "fork"). Of `continued`: why it had ended, if said. */
  readonly why: string;
}

export type Part = TextPart | CallPart | AskedPart | WaitPart | MarkPart;

/** What a turn's undo came to. */
export interface Undone {
  readonly session: string;
  readonly at: number;
  readonly cells: readonly string[];
  readonly kept: readonly string[];
  readonly outside: readonly string[];
}

/** One turn: what a person said and all that came of it. Values; a changed turn is another object. */
export interface Turn {
  readonly turn: number;
  readonly seq: number;
  readonly said: string;
  readonly by: string | null;
  readonly atUs: number;
  readonly parts: readonly Part[];
  /** How many answers of the model's it has: pieces of the next one are keyed by this. */
  readonly answers: number;
  /** null while it is open. */
  readonly ended: TurnEnd | null;
  readonly why: string | null;
  readonly endedUs: number | null;
  readonly undone: Undone | null;
  /** The newest step of the session that the turn made; null when it made none. */
  readonly lastStep: number | null;
  readonly firstStep: number | null;
  readonly edits: readonly CellEdit[];
  readonly outside: readonly string[];
  /** Tokens in and out, and cost by currency, of this turn. */
  readonly usage: Usage;
}

/** What requests took. `costs`: exact decimal texts by currency. */
export interface Usage {
  readonly input: number;
  readonly output: number;
  readonly costs: Readonly<Record<string, string>>;
  /** Whether some of it had no price, or is an estimate. */
  readonly estimated: boolean;
}

/** A whole conversation. */
export interface Conversation {
  /** The newest entry that is in here; -1 before the first. */
  readonly seq: number;
  readonly model: string;
  readonly provider: string;
  /** Its model is a script (the demo, tests): no model answers. */
  readonly scripted: boolean;
  readonly notebook: string | null;
  /** Who began it; null where nobody is told apart. */
  readonly by: string | null;
  readonly client: string | null;
  /** Where it is now. */
  readonly session: string;
  readonly turns: readonly Turn[];
  /** Those that wait for a person, oldest first. */
  readonly questions: readonly Question[];
  /** Approvals at which an interrupted turn was cut: it waits for them again when it goes on. */
  readonly cut: readonly Question[];
  /** Whether its newest turn is open, as far as entries say. */
  readonly open: boolean;
  /** Whether the model is being asked right now: since when, null otherwise. */
  readonly askedUs: number | null;
  /** Tokens that are in the model's context, as last counted. */
  readonly context: number;
  readonly usage: Usage;
  readonly taints: readonly { readonly kind: string; readonly source: string }[];
}
