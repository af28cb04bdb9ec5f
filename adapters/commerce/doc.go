// Package commerce has the idempotency rules of the protocols by which agents buy, as a
// policy and options of an engine: ACP (Agentic Commerce Protocol), UCP (Universal Commerce
// Protocol) and AdCP (Ad Context Protocol).
//
//	profile := commerce.ACP()
//	engine, err := core.New(store, core.ScopeBy(client), profile.Options()...)
//	idem := idemchi.New(engine)
//	r.With(idem.Policy(policy.From(profile.Policy))).Post("/checkout_sessions", create)
//	r.With(idem.Policy(policy.From(profile.Policy), policy.Transactional(true))).Post("/checkout_sessions/{id}/complete", complete)
//
// A route adds its own options. An option that breaks a rule of the protocol is refused when
// the route is declared, with the rule's section, also in a table or a tag. So an engine
// serves the routes of one protocol; several engines may share a store. A Profile is a plain
// value: read its parts, and change them before Options.
//
// An OpenAPI document describes a profile's errors by openapi.ProblemWriter(profile.WriteProblem),
// openapi.ReplayHeader(profile.ReplayHeader) and openapi.KeyEcho.
//
// The rules that a library cannot keep are the handler's: a response that it marks as
// executed (failure.MarkExecuted) is kept even if it is a 5xx, which ACP forbids: record
// the side effect with core.Step instead. core.KeepFor may shorten the retention.
//
// The tests of this package are the protocols' rules, one test a rule, on net/http, chi and
// gin. docs/agents.md has the agent's view.
package commerce
