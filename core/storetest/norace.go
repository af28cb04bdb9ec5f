//go:build !race

package storetest

// manyKeys is the number of keys in the cases with many keys, more than fit into a
// page of 1000 records.
const manyKeys = 10_000
