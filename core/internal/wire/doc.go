// Package wire reads and writes HTTP as a guard needs it: the idempotency key of a
// request, the spelling of its path and host, its body, and the header and body of a
// response. It knows neither the engine nor a store.
package wire
