// Package verify sends requests to a server in any language, and judges by its responses which
// rules of idempotency keys the server keeps.
//
// A [Target] names the request. [Target.Observe] makes the probes: each uses a fresh key, and
// may have an effect on the server. [Judge] compares the observations with the table of rules in
// rules.go. A rule is broken only on evidence. Without evidence the verdict is Unknown, with the
// reason.
package verify
