// Receives webhooks of Linkforge and verifies them with the official library of Standard Webhooks.
//
//   WEBHOOK_SECRET=whsec_… npm start   listens on ADDRESS, localhost:9090 by default

import { createServer } from "node:http";
import { Webhook } from "standardwebhooks";

type LinkforgeEvent = { type: string; timestamp: string; workspaceId: string; data: unknown };

const maxBody = 256 * 1024; // larger than every body that Linkforge sends
const verifier = new Webhook(process.env.WEBHOOK_SECRET ?? "");
const [host, port] = (process.env.ADDRESS ?? "localhost:9090").split(":");

// A real receiver stores the ids in its database, in the transaction of the change that the event causes.
const processed = new Set<string>();

function processEvent(id: string, event: LinkforgeEvent) {
  console.log(id, event.type, JSON.stringify(event.data));
}

createServer(async (request, response) => {
  let body = "";
  request.setEncoding("utf8");
  for await (const chunk of request) {
    body += chunk;
    if (body.length > maxBody) {
      response.writeHead(413).end();
      return;
    }
  }
  let event: LinkforgeEvent;
  try {
    // verify also refuses old timestamps
    event = verifier.verify(body, request.headers as Record<string, string>) as LinkforgeEvent;
  } catch {
    response.writeHead(401).end();
    return;
  }
  const id = String(request.headers["webhook-id"]);
  if (!processed.has(id)) {
    try {
      processEvent(id, event);
    } catch {
      response.writeHead(500).end(); // Linkforge sends it again
      return;
    }
    processed.add(id); // before, a failure would lose the event
  }
  response.writeHead(204).end();
}).listen(Number(port), host);
