// Commands of the status button, for whoever leads people to it.

export const StatusCommands = {
  /** Opens the status of the current notebook's session. */
  open: 'reprise:session-status',
  /** Ends coming back, of the current notebook's session. */
  cancelResume: 'reprise:cancel-resume',
  /** Comes back now, or goes on with it; the same session. */
  resume: 'reprise:resume'
} as const;
