/** What other parts may use of policies: the command that opens them. */

export const PolicyCommands = {
  /** Opens the policies that bind one, and their editor, in a tab. `{scope?, conversation?}` */
  open: 'reprise:open-policy'
} as const;
