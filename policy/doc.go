// Package policy declares how one route treats its idempotency keys.
//
// A policy is made of options when the route is declared, and is checked then:
//
//	p, err := policy.New(
//		policy.TTLHours(48),
//		policy.LockTTL(time.Minute),
//		policy.ExcludeFields("clientTimestamp", "requestNonce"),
//	)
//
// or of annotation text, with the same names:
//
//	p, err := policy.Parse("TTLHours=48 LockTTL=60s ExcludeFields=clientTimestamp,requestNonce")
//
// Routes may also be declared by a struct's tags (Annotations), or guarded where
// others have declared them, by a Table; package tablefile reads one from YAML or
// JSON. Both are lists of a Declaration a route.
//
// Adapters and core.Engine take the options themselves, so most programs never
// call New. The package holds declarations alone; what they cause is done by
// package core.
package policy
