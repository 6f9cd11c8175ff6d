// All plugins of Reprise in JupyterLab and Notebook, and its menu.

import { JupyterFrontEndPlugin } from '@jupyterlab/application';

import { plugins as agent } from './agent';
import { plugins as api } from './api';
import { plugins as cellnotes } from './cellnotes';
import { plugins as cellplaces } from './cellplaces';
import { plugins as chat } from './chat';
import { plugins as compare } from './compare';
import { plugins as composer } from './composer';
import { plugins as environments } from './environments';
import { plugins as outputs } from './outputs';
import { plugins as pages } from './pages';
import { plugins as parts } from './parts';
import { plugins as past } from './past';
import { plugins as policy } from './policy';
import { plugins as preferences } from './preferences';
import { plugins as proposals } from './proposals';
import { plugins as sessions } from './sessions';
import { plugins as skills } from './skills';
import { plugins as status } from './status';
import { plugins as timeline } from './timeline';
import { plugins as verify } from './verify';
import { plugins as workspace } from './workspace';

const plugins: JupyterFrontEndPlugin<unknown>[] = [
  ...api,
  ...preferences,
  ...parts,
  ...sessions,
  ...agent,
  ...cellplaces,
  ...status,
  ...cellnotes,
  ...workspace,
  ...timeline,
  ...compare,
  ...past,
  ...chat,
  ...composer,
  ...pages,
  ...proposals,
  ...verify,
  ...environments,
  ...policy,
  ...skills,
  ...outputs
];

export default plugins;
