import { given, isObject, nothing, objectWith, pageOf, segment, type Call } from './calls.js';
import { UnexpectedAnswerError } from './errors.js';
import type { Delivery, EventType, WebhookEndpoint } from './models.js';
import type { PageOptions, RequestOptions, Transport } from './transport.js';

/** The fields of an endpoint that can be changed. */
export interface WebhookChanges {
  url?: string;
  events?: readonly EventType[];
  /** An empty text removes the label. */
  label?: string;
  enabled?: boolean;
}

const endpointOf = objectWith<WebhookEndpoint>({ webhook_id: 'string', url: 'string' });
const deliveryOf = objectWith<Delivery>({ message_id: 'string', type: 'string' });

/** The endpoints of the account: URLs that get a message when a batch or list ends. */
export class Webhooks {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Adds an endpoint. Only this answer has its `secret`. Without `events`, it gets all of them. It needs a live key. */
  async create(
    url: string, { events, label, signal }: RequestOptions & { events?: readonly EventType[]; label?: string } = {},
  ): Promise<WebhookEndpoint> {
    const json = given({ url, events, label });
    return this.#transport.call({ method: 'POST', path: '/v1/webhooks', parse: endpointOf, json }, { signal });
  }

  /** All endpoints of the account, at most ten, without their secrets. */
  async list(options: RequestOptions = {}): Promise<WebhookEndpoint[]> {
    const parse = (body: unknown): WebhookEndpoint[] => pageOf('webhooks', endpointOf)(body).items;
    return this.#transport.call({ method: 'GET', path: '/v1/webhooks', parse, repeatable: true }, options);
  }

  /** An endpoint without its secret. */
  async get(webhookId: string, options: RequestOptions = {}): Promise<WebhookEndpoint> {
    return this.#transport.call({ method: 'GET', path: path(webhookId), parse: endpointOf, repeatable: true }, options);
  }

  /** Changes the given fields of an endpoint. */
  async update(webhookId: string, changes: WebhookChanges, options: RequestOptions = {}): Promise<WebhookEndpoint> {
    const call: Call<WebhookEndpoint> = {
      method: 'PATCH', path: path(webhookId), parse: endpointOf, json: given(changes), repeatable: true,
    };
    return this.#transport.call(call, options);
  }

  /** Removes an endpoint. Messages that wait for it are not sent. */
  async delete(webhookId: string, options: RequestOptions = {}): Promise<void> {
    const call: Call<void> = { method: 'DELETE', path: path(webhookId), parse: nothing, repeatable: true, deletes: true };
    return this.#transport.call(call, options);
  }

  /** Makes a new secret. Only this answer has it. For 24 hours, messages are also signed with the old secret. */
  async rotate(webhookId: string, options: RequestOptions = {}): Promise<WebhookEndpoint> {
    return this.#transport.call({ method: 'POST', path: `${path(webhookId)}/rotate`, parse: endpointOf }, options);
  }

  /** Sends an event `webhook.test`. The result is the id of the message. */
  async test(webhookId: string, options: RequestOptions = {}): Promise<string> {
    const parse = (body: unknown): string => {
      const id = isObject(body) ? body['message_id'] : undefined;
      if (typeof id !== 'string') throw new UnexpectedAnswerError('`message_id` was expected');
      return id;
    };
    return this.#transport.call({ method: 'POST', path: `${path(webhookId)}/test`, parse }, options);
  }

  /** Iterates over the messages to an endpoint, with their attempts. */
  deliveries(webhookId: string, options: PageOptions = {}): AsyncGenerator<Delivery, void, undefined> {
    return this.#transport.pages(`${path(webhookId)}/deliveries`, pageOf('deliveries', deliveryOf), options);
  }
}

function path(webhookId: string): string {
  return `/v1/webhooks/${segment(webhookId)}`;
}
