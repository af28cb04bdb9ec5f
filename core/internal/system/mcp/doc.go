// Package mcp tests adapters/mcp with processes: an MCP server over stdio, a child of the
// test, is killed and frozen while its tool runs, and an agent calls the tool again at
// another process. The processes share a Redis. A tool whose rows and result are committed
// together uses PostgreSQL.
package mcp
