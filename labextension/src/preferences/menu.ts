// What stands in the menu of Reprise, in groups: each part adds its commands here.

export const GROUPS: readonly (readonly string[])[] = [
  [
    'reprise:open-chat',
    'reprise:ask-cell',
    'reprise:new-conversation',
    'reprise:list-conversations',
    'reprise:next-question',
    'reprise:next-edit',
    'reprise:stop-turn',
    'reprise:continue-turn',
    'reprise:undo-turn'
  ],
  [
    'reprise:open-timeline',
    'reprise:show-cell-step',
    'reprise:open-workspace',
    'reprise:compare',
    'reprise:verify'
  ],
  [
    'reprise:session-status',
    'reprise:resume',
    'reprise:cancel-resume',
    'reprise:change-environment',
    'reprise:open-network'
  ],
  [
    'reprise:skills',
    'reprise:new-skill',
    'reprise:import-skills',
    'reprise:skill-teams',
    'reprise:open-environment',
    'reprise:open-policy'
  ]
];
