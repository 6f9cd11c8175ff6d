/** A conversation as one text, to be kept or sent: Markdown for people (pure). */

import type { CallPart, Conversation, Part, Turn } from './model';
import type { ConversationInfo } from './tokens';

const ENDS: Readonly<Record<string, string>> = {
  cancelled: 'The turn was stopped',
  refused: 'The model declined',
  failed: 'The turn failed',
  budget: 'The bound of the turn was reached',
  interrupted: 'The turn was interrupted'
};

export function toMarkdown(info: ConversationInfo | null, model: Conversation): string {
  const title = info?.title.trim() ?? '';
  const head = [
    `# ${title === '' ? 'Conversation' : line(title)}`,
    '',
    `- model: ${line(model.model)}${model.scripted ? ' (scripted: no model answers)' : ''}`,
    `- session: ${line(model.session)}`,
    ...(model.notebook === null ? [] : [`- notebook: ${line(model.notebook)}`]),
    ...(info === null ? [] : [`- began: ${info.began_at}`])
  ];
  return `${[...head, ...model.turns.flatMap(turnLines)].join('\n')}\n`;
}

function turnLines(turn: Turn): string[] {
  const lines = ['', `## ${turn.turn}. ${line(turn.by ?? 'You')}`, '', turn.said, ''];
  lines.push(...turn.parts.flatMap(partLines));
  const end = turn.ended === null ? undefined : ENDS[turn.ended];
  if (end !== undefined) {
    lines.push('', `*${end}${turn.why === null ? '.' : `: ${line(turn.why)}`}*`);
  }
  if (turn.undone !== null) {
    lines.push('', `*This turn was undone: back at step ${turn.undone.at}.*`);
    lines.push(...turn.undone.outside.map(each => `- not undone: ${line(each)}`));
  }
  return lines;
}

function partLines(part: Part): string[] {
  switch (part.part) {
    case 'text':
      return ['', part.text];
    case 'thinking':
      return ['', '> *Thinking*', ...part.text.split('\n').map(each => `> ${each}`)];
    case 'call':
      return callLines(part);
    case 'asked':
      return [
        '',
        `**Asked:** ${line(part.question.text)}`,
        `**Answer:** ${line(part.decided?.decision ?? 'none')}`
      ];
    case 'wait':
      return ['', `*Waited ${part.seconds} s: ${line(part.why)}*`];
    case 'mark':
      return part.mark === 'compacted'
        ? ['', '*What came before was summed up for the model.*']
        : part.mark === 'session'
          ? ['', `*Goes on in session ${line(part.text)} (${line(part.why)}).*`]
          : ['', '*The turn was continued.*'];
  }
}

function callLines(call: CallPart): string[] {
  const steps = call.steps.length > 0 ? ` · step ${call.steps.join(', ')}` : '';
  const verdict =
    call.verdict === null ? '' : ` · ${call.verdict.decision} by ${line(call.verdict.rule)}`;
  const title = line(call.act?.title ?? call.tool);
  const input = call.act?.code ?? JSON.stringify(call.act?.input ?? call.input, null, 2);
  return [
    '',
    `### ${title} (${call.standing}${steps}${verdict})`,
    '',
    ...fenced(input),
    ...(call.text === '' ? [] : ['', ...fenced(call.text)]),
    ...call.outside.map(each => `- outside: ${line(each)}`)
  ];
}

/** Text as code, in a fence that is longer than any in it. */
function fenced(text: string): string[] {
  const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map(found => found[0].length));
  const fence = '`'.repeat(longest + 1);
  return [fence, text.replace(/\n$/, ''), fence];
}

function line(text: string): string {
  return text.replace(/\s+/g, ' ').trim();
}
