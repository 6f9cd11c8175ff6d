// A draft becomes a version in one's own scope; large ones go as an archive.

import { ApiError } from '../api/tokens';
import { Draft } from './draft';
import { nameOf } from './names';
import { tarOf } from './tar';
import { ISkills } from './tokens';

/** Bytes that are sent as JSON; the server takes 8 MiB of it, and base64 adds a third. */
const MOST_AS_JSON = 4 * 1024 * 1024;

/** The version that it is now, from which the draft goes on. */
export async function saved(skills: ISkills, draft: Draft, note: string): Promise<ISkills.Version> {
  const files = await draft.all();
  const { folder } = draft;
  const bytes = files.reduce((total, each) => total + each.content.length, 0);
  const arrivals =
    bytes > MOST_AS_JSON
      ? await skills.addArchive(
          tarOf(files.map(each => ({ ...each, path: `${folder}/${each.path}` }))),
          `${folder}.tar`,
          [],
          note
        )
      : await skills.save(folder, files, note);
  const [found] = arrivals.skills;
  if (!found?.version) {
    throw new ApiError(
      400,
      'bad-skill',
      found?.problem ?? 'The server did not say what became of it. Nothing is lost: save it again.'
    );
  }
  const named = nameOf(found.version);
  const base = { named, digest: found.version.digest, files: await skills.files(named) };
  draft.saved(base, files);
  return found.version;
}
