// Package core runs a handler once for each idempotency key.
package core
