/** Client of the mailprobe API. docs/clients.md of the project describes it. */

export { BATCH_EMAILS_MAX, type Batches, type BatchOptions } from './batches.js';
export { Client, type ClientOptions, type VerifyOptions } from './client.js';
export * from './errors.js';
export { PART_BYTES, type DownloadOptions, type Lists, type PartOptions, type ResultsOptions, type UploadOptions } from './lists.js';
export type * from './models.js';
export type { WaitOptions } from './polling.js';
export { signWebhook, TOLERANCE_S, verifyWebhook, type RequestHeaders, type VerifyWebhookOptions } from './receive.js';
export { type Retries } from './retries.js';
export { type Content, type Source } from './source.js';
export type { PageOptions, RequestOptions } from './transport.js';
export { VERSION } from './version.js';
export type { WebhookChanges, Webhooks } from './webhooks.js';
