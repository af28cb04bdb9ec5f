//go:build race

package storetest

// manyKeys is a tenth of its value without the race detector, which makes each call
// ten times as slow.
const manyKeys = 1_000
