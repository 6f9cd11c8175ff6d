// Rules as YAML that reads them back: for an editor, and to be set against each other (pure).

type Rule = Readonly<Record<string, unknown>>;

/** In the order in which people read a rule. */
const ORDER = [
  'name',
  'decision',
  'why',
  'tool',
  'effect',
  'skill',
  'scope',
  'standing',
  'environment',
  'path',
  'host',
  'who',
  'argv',
  'tainted'
];

/** Words that need no quotes: letters first, and nothing that YAML reads as something else. */
const PLAIN = /^[A-Za-z][A-Za-z0-9_./-]*$/;
/** Of these YAML 1.1 makes truth values and nothing. */
const WORDS = /^(?:y|n|yes|no|on|off|true|false|null|nan|inf)$/i;

/** A policy's rules as text; an empty list stays one. */
export function rulesText(rules: readonly Rule[]): string {
  if (rules.length === 0) {
    return 'rules: []\n';
  }
  return `rules:\n${rules.map(ruleText).join('')}`;
}

function ruleText(rule: Rule): string {
  const known = ORDER.filter(name => rule[name] !== undefined);
  const names = [...known, ...Object.keys(rule).filter(name => !ORDER.includes(name))];
  return names
    .map(
      (name, index) => `${index === 0 ? '  - ' : '    '}${name}: ${valueText(name, rule[name])}\n`
    )
    .join('');
}

function valueText(name: string, value: unknown): string {
  if (name === 'argv' && Array.isArray(value)) {
    return value.map(words => `\n      - ${flow(words)}`).join('');
  }
  // A list of one is written as that one.
  return Array.isArray(value) && value.length === 1 ? flow(value[0]) : flow(value);
}

function flow(value: unknown): string {
  if (Array.isArray(value)) {
    return `[${value.map(flow).join(', ')}]`;
  }
  return typeof value === 'string' ? scalar(value) : JSON.stringify(value);
}

/** JSON's quotes are YAML's double quotes. */
function scalar(text: string): string {
  return PLAIN.test(text) && !WORDS.test(text)
    ? text
    : // What JSON leaves as it is and YAML does not print: written out.
      JSON.stringify(text).replace(
        /[\u007f-\u009f\u2028\u2029\ufeff\ud800-\udfff]/gu,
        each => `\\u${each.charCodeAt(0).toString(16).padStart(4, '0')}`
      );
}

/** What an editor begins with where there is no policy yet. */
export const FIRST = `# The first rule whose conditions all hold decides (docs/guardrails.md).
rules:
  - name: ask-before-writing
    decision: ask
    effect: write
`;
