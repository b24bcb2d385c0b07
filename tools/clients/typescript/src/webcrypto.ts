/** The WebCrypto of the platform. package.json replaces this module for Node, where 18 has no global one. */
export const webcrypto: Crypto = globalThis.crypto;
