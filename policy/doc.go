// Package policy declares how one route treats its idempotency keys.
//
// Options make a policy when a route is declared. New checks the policy at once:
//
//	p, err := policy.New(
//		policy.TTLHours(48),
//		policy.LockTTL(time.Minute),
//		policy.ExcludeFields("clientTimestamp", "requestNonce"),
//	)
//
// Parse reads the same options from text:
//
//	p, err := policy.Parse("TTLHours=48 LockTTL=60s ExcludeFields=clientTimestamp,requestNonce")
//
// Annotations reads routes and policies from a struct's tags. A Table guards routes
// that are declared elsewhere; package tablefile reads a Table from YAML or JSON.
// Both list one Declaration per route.
//
// Adapters and core.Engine take the options directly, so most programs never call
// New. This package only declares policies; package core enforces them.
package policy
