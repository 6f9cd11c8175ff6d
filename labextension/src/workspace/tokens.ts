// Commands of the Workspace section, for whoever leads people to it.

export const WorkspaceCommands = {
  /** Shows the files of the current notebook's session. */
  open: 'reprise:open-workspace',
  /** Shows the files of a session as after a step, read-only. `{session, step}` */
  filesAt: 'reprise:files-at-step',
  /** Back to the files as they are now. */
  now: 'reprise:files-now',
  /** Copies what is selected in the Workspace into the notebook's folder. */
  save: 'reprise:save-to-folder',
  /** Copies what is selected in the file browser into the workspace, as an upload step. */
  bring: 'reprise:bring-into-workspace'
} as const;
