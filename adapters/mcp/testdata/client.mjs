// A client of MCP that knows nothing of this package: it pays twice under one key, and then another amount.
//
//	node client.mjs MODULES URL
//	node client.mjs MODULES PROGRAM     // by stdio
const [modules, place] = process.argv.slice(2);
const sdk = `${modules}/@modelcontextprotocol/sdk/dist/esm/client/`;
const { Client } = await import(`${sdk}index.js`);
const { StreamableHTTPClientTransport } = await import(`${sdk}streamableHttp.js`);
const { StdioClientTransport } = await import(`${sdk}stdio.js`);

const client = new Client({ name: "foreign", version: "1" });
await client.connect(place.startsWith("http")
  ? new StreamableHTTPClientTransport(new URL(place))
  : new StdioClientTransport({ command: place, env: { ...process.env, IDEMMCP_SERVES: "1" } }));
const pay = async (amount, place) => {
  const call = place === "_meta"
    ? { name: "charge", arguments: { amount }, _meta: { "idempotency-key": "k" } }
    : { name: "charge", arguments: { amount, idempotency_key: "k" } };
  try {
    return { result: await client.callTool(call) };
  } catch (error) {
    return { code: error.code, data: error.data };
  }
};
const listed = await client.listTools();
const answers = [await pay(5, "_meta"), await pay(5, "_meta"), await pay(5, "arguments"), await pay(6, "arguments")];
console.log(JSON.stringify({ tools: listed.tools, answers }));
await client.close();
