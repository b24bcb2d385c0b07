// The script that `cargo xtask measure verifiers` runs with the npm package deep-email-validator: it reads a list, checks so many
// addresses at the same time, and prints a line for each.

import { readFileSync } from 'node:fs';
import { validate } from 'deep-email-validator';

const [list, places] = process.argv.slice(2);
const addresses = readFileSync(list, 'utf8').trimEnd().split('\n').slice(1).values();

async function work() {
  for (const email of addresses) {
    const { valid } = await validate({ email, sender: 'postmaster@probe.example' });
    console.log(`${email},${valid ? 'yes' : 'no'}`);
  }
}

await Promise.all(Array.from({ length: Number(places) }, work));
