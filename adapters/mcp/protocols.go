package idemmcp

// ACP serves the binding of the Agentic Commerce Protocol to MCP (docs/mcp-binding.md), on an
// engine with the options of commerce.ACP:
//
//	profile := commerce.ACP()
//	engine, err := core.New(store, scope, profile.Options()...)
//	table, err := policy.NewTable(policy.Row("TOOL complete_checkout_session", policy.From(profile.Policy)))
//	guard, err := idemmcp.New(engine, table, idemmcp.ACP())
//
// The key is arguments.meta.idempotency_key. The member meta has the parts of the header of
// HTTP, such as a signature with its time, and does not count in the comparison. Problems
// are errors of JSON-RPC with the code -32000 and the protocol's error in data.
//
// The Universal Commerce Protocol (checkout-mcp.md) needs no option: an engine of
// commerce.UCP compares the bytes of the arguments, without the key in
// arguments.meta["idempotency-key"].
func ACP() Option {
	return func(g *Guard) error {
		g.notCompared = []string{"meta"}
		return nil
	}
}

// AdCP serves the binding of the Ad Context Protocol to MCP, on an engine with the options
// of commerce.AdCP:
//
//	profile := commerce.AdCP()
//	engine, err := core.New(store, scope, profile.Options()...)
//	table, err := policy.NewTable(policy.Row("TOOL create_media_buy", policy.From(profile.Policy)))
//	guard, err := idemmcp.New(engine, table, idemmcp.AdCP())
//
// The guard's problems, and arguments that the tool's schema refuses, are results with
// isError and the member errors. The structured content of a problem and of a replay has the
// context of the call that gets it, and a replay has replayed: true there, beside the one in
// _meta. A text that repeats the structured content changes with it. The tool itself sends
// the context back with its own responses.
func AdCP() Option {
	return func(g *Guard) error {
		g.settings.problemsAsResults, g.settings.adcp = true, true
		return nil
	}
}
