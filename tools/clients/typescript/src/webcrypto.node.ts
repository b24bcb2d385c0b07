import { webcrypto as ofNode } from 'node:crypto';

export const webcrypto = ofNode as unknown as Crypto;
