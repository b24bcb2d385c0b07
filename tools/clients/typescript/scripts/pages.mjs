// Writes the TypeScript examples of docs/clients.md and README.md to tests/pages, one file each, so that they are compiled and run.

import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const folder = fileURLToPath(new URL('..', import.meta.url));
const root = process.env.MAILPROBE_ROOT ?? join(folder, '../../..');
const pages = { clients: 'docs/clients.md', readme: 'tools/clients/typescript/README.md' };
const target = join(folder, 'tests/pages');

await rm(target, { recursive: true, force: true });
await mkdir(target, { recursive: true });
for (const [name, path] of Object.entries(pages)) {
  const text = await readFile(join(root, path), 'utf8');
  for (const block of text.matchAll(/^```ts\n(.*?)^```$/gms)) {
    const line = text.slice(0, block.index).split('\n').length;
    await writeFile(join(target, `${name}-${line}.ts`), block[1]);
  }
}
