// The script that `cargo xtask measure verifiers` and `measure accuracy` run with the npm package deep-email-validator: it reads a list,
// checks so many addresses at the same time, and prints a line for each. The package knows only `valid` or not: an address that is not
// valid because of a time-out, a lost connection or a reply other than 550 counts as unknown.

import { readFileSync } from 'node:fs';
import { validate } from 'deep-email-validator';

const [list, places] = process.argv.slice(2);
const addresses = readFileSync(list, 'utf8').trimEnd().split('\n').slice(1).values();

async function work() {
  for (const email of addresses) {
    // The domains are invented, so some are near a popular one.
    const { valid, reason, validators } = await validate({ email, sender: 'postmaster@probe.example', validateTypo: false });
    const why = valid ? 'valid' : validators[reason].reason;
    const isOpen = reason === 'smtp' && why !== 'Mailbox not found.';
    console.log(`${email},${valid ? 'yes' : isOpen ? 'unknown' : 'no'},${why}`);
  }
}

await Promise.all(Array.from({ length: Number(places) }, work));
